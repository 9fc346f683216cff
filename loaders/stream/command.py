"""The output of a command, and standard input, as raw streams that can be told to stop.

A command is started without a shell, in a process group of its own, its input closed. It is whole when it has ended
with status 0 by itself: any other status, or a signal, is raised as UnavailableError where its output ends, with the
last lines that it wrote to its standard error. Whoever closes the stream early ends the group (SIGTERM, and SIGKILL
to what is still there two seconds later) and waits for it, so that neither a child nor a zombie is left; how it then
ends is no error.

Reads wait in steps of a fifth of a second, between which they see that they were told to stop: no thread waits for a
silent command or terminal for ever.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess  # nosec B404  # one call, which says why it may
import tempfile
import threading
from typing import Any, Protocol

from loaders.stream.spelling import STDIN, argv_of
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.tar.compressed import Arriving

__all__ = ["Command", "Descriptor", "Halted", "StandardInput"]

_STEP_MS = 200
_GRACE_S = 2.0
_PIPE_BYTES = 1 << 20  # the most that an unprivileged process may ask for; the default is 64 KiB
_SHOWN = 400


class Halted(Exception):  # noqa: N818 - no error: the reader was told to stop, and nobody sees it
    """Reading was told to stop."""


class _Stop(Protocol):
    def is_set(self) -> bool: ...


class Descriptor(Arriving):
    """A descriptor that is read from its present place on."""

    def __init__(self, url: str, descriptor: int, stop: _Stop) -> None:
        super().__init__()
        self.url = url
        self._descriptor = descriptor
        self._stop = stop
        self._position = 0
        self._head = b""
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def head(self, count: int) -> bytes:
        """The next bytes, without taking them; fewer only where the stream ends. Called once, at its begin."""
        head = b""
        while len(head) < count and (more := self.read(count - len(head))):
            head += more
        self._head = head
        return head

    def drain(self) -> None:
        """Read to the end, so that how the stream ends is seen."""
        spare = memoryview(bytearray(1 << 16))
        while self.readinto(spare):
            pass

    def readinto(self, buffer: Any, /) -> int:
        if self._head:
            count = min(len(self._head), len(buffer))
            buffer[:count], self._head = self._head[:count], self._head[count:]
            return count
        while not self._poll.poll(_STEP_MS):
            self._check()
        self._check()
        try:
            count = os.readv(self._descriptor, [buffer])
        except OSError as error:
            raise UnavailableError(f"the stream cannot be read: {error.strerror}", url=self.url) from error
        self._position += count
        if count == 0:
            self._ended()
        return count

    def _check(self) -> None:
        if self._stop.is_set():
            raise Halted

    def _ended(self) -> None:
        """The end was read."""


class StandardInput(Descriptor):
    """What the process is fed. Descriptor 0 stays open; it can be read once in the life of a process."""

    _begun = threading.Lock()

    def __init__(self, stop: _Stop) -> None:
        if not self._begun.acquire(blocking=False):
            raise UsageError(
                "standard input was read before, and cannot be read again",
                url=STDIN,
                cure="Use it for one epoch, of no more samples than it brings; or name files or commands instead.",
            )
        super().__init__(STDIN, 0, stop)


class Command(Descriptor):
    """The output of a command.

    Args:
        url: `pipe:` and the command.
        stop: says when to give up.

    Raises:
        UnavailableError: it cannot be started; from readinto, it failed.
    """

    def __init__(self, url: str, stop: _Stop) -> None:
        argv = argv_of(url)
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        try:
            self._process = _started(argv, url, complaints)
        except BaseException:
            complaints.close()
            raise
        self._complaints = complaints
        assert self._process.stdout is not None  # nosec B101  # noqa: S101 - it was asked for
        self._output = self._process.stdout
        _widen(self._output.fileno())
        super().__init__(url, self._output.fileno(), stop)

    def _ended(self) -> None:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_STEP_MS / 1000)
                break
            self._check()
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by {_signal_name(-status)}"
            raise UnavailableError(
                f"the command {how} after {self._position:,} bytes{self._complaint()}",
                url=self.url,
                cure="Run it by hand to see why; what it gave is not taken for whole.",
            )

    def _complaint(self) -> str:
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - _SHOWN))
        text = self._complaints.read().decode(errors="replace")
        lines = " / ".join(line.strip() for line in text.splitlines() if line.strip())
        return f"; it said: {lines}" if lines else ""

    def kill(self) -> None:
        """Ask the command to end, without waiting: for a finalizer, in any thread."""
        self._signal(signal.SIGTERM)

    def close(self) -> None:
        """End the command, if it runs, and wait for it; twice does nothing."""
        begun = not self.closed and hasattr(self, "_output")
        super().close()
        if not begun:  # twice, or it could not be started
            return
        self._output.close()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._complaints.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:  # not waited for, so its number is not anybody else's yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def _started(argv: list[str], url: str, complaints: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # nosec B603  # noqa: S603 - asked for by allow_pipe, split into words, no shell
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, bufsize=0, process_group=0
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnavailableError(
            f"the command {argv[0]!r} cannot be started: {reason}",
            url=url,
            cure="Check that it is installed and found on the PATH; no shell takes part.",
        ) from error


def _widen(descriptor: int) -> None:
    """Let the command run further ahead. Refused where the user has many pipes; then it runs less far ahead."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

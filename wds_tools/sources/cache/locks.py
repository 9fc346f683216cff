"""Locks between processes and threads that the kernel gives back when their holder dies.

On Linux these are open-file-description locks (fcntl(2), `F_OFD_SETLK`): they lie on ranges of bytes, so each extent of
a file has its own and no lock files pile up; they belong to the descriptor, so two threads that opened the file each
for itself exclude each other as two processes do. Elsewhere `flock` takes the whole file, which is as right and less
parallel.

A forked child shares its parent's open descriptions, and a lock lives as long as any copy. Exclusive locks are short
and are ended in words (`F_UNLCK`), which holds for all copies; the child closes its copies first thing, so that it does
not keep the lock of a parent that is killed. Shared locks say "in use" and end with the last copy: a parent that goes
away leaves them to its workers, as it should.

The kernel gives a lock back when its holder dies, not when it is stopped (Ctrl-Z, a debugger, a paused container), and
has no way to wait for one for a time. So it is asked for again and again, every 10 ms in the end: for `PATIENCE_S`, or
until nobody wants it any more.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["exclusive", "is_shared", "share", "unshare"]

_RANGES = sys.platform == "linux" and sys.maxsize > 1 << 32 and hasattr(fcntl, "F_OFD_SETLK")
_FLOCK = struct.Struct("@hhqqi0q")  # struct flock where off_t is 64 bits
_held: set[int] = set()

PATIENCE_S = 120.0
"""Seconds for which others are waited for: as long as `Remote` waits by default for a host that does not go on."""
_SOON_S, _LATER_S = 0.0002, 0.01


@contextlib.contextmanager
def exclusive(
    path: Path,
    *,
    start: int = 0,
    length: int = 0,
    create: bool = False,
    wait: bool = True,
    unwanted: Callable[[], bool] = lambda: False,
) -> Iterator[int]:
    """Open a file for reading and writing and hold a range of it alone.

    Args:
        path: the file.
        start: the first byte of the range; ranges may lie beyond the end of the file.
        length: bytes; 0 is to infinity.
        create: whether to make the file where there is none.
        wait: for whoever has it, `PATIENCE_S` at most.
        unwanted: ends the wait.

    Yields:
        The descriptor, closed on leaving.

    Raises:
        TimeoutError: somebody has it and does not give it back.
        OSError: the file cannot be opened for writing, or its file system has no locks; or somebody has it, and `wait`
            is False or it became unwanted.
    """
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
    _held.add(descriptor)
    try:
        if wait:
            _wait_for(descriptor, fcntl.LOCK_EX, start, length, unwanted)
        else:
            _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, start, length)
        yield descriptor
    finally:
        with contextlib.suppress(OSError):
            _lock(descriptor, fcntl.LOCK_UN, start, length)
        _held.discard(descriptor)  # before it is closed: the number may be another file's at once
        os.close(descriptor)


def share(descriptor: int) -> None:
    """Hold the whole file together with others until the descriptor, and all its copies, are closed.

    Raises:
        TimeoutError: somebody holds it alone and does not give it back.
    """
    _wait_for(descriptor, fcntl.LOCK_SH, 0, 0, lambda: False)


def unshare(descriptor: int) -> None:
    """End what `share` began, for all copies of the descriptor."""
    _lock(descriptor, fcntl.LOCK_UN, 0, 0)


def is_shared(path: Path) -> bool:
    """Whether anybody, this process included, holds the file by `share`. A file that is not there is held by none."""
    try:
        with path.open("r+b", buffering=0) as stream:
            _lock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0)
    except FileNotFoundError:
        return False
    except OSError:  # EAGAIN: it is; anything else: nobody can say, and what may be in use is
        return True
    return False


def _wait_for(descriptor: int, operation: int, start: int, length: int, unwanted: Callable[[], bool]) -> None:
    ends, pause = time.monotonic() + PATIENCE_S, _SOON_S
    while True:
        try:
            return _lock(descriptor, operation | fcntl.LOCK_NB, start, length)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES} or unwanted():
                raise
        if time.monotonic() > ends:
            raise OSError(errno.ETIMEDOUT, f"a process that has locked it has not gone on for {PATIENCE_S:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, _LATER_S)


def _lock(descriptor: int, operation: int, start: int, length: int) -> None:
    if not _RANGES:
        fcntl.flock(descriptor, operation)
        return
    command = fcntl.F_OFD_SETLK if operation & fcntl.LOCK_NB else fcntl.F_OFD_SETLKW
    kinds = {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    kind = kinds[operation & ~fcntl.LOCK_NB]
    fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))


def _let_go_in_child() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)

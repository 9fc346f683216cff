"""Local files: positioned reads that fill their buffer or raise, from any thread.

`preadv` holds no position, so threads (and, after a fork, processes) share one descriptor. Short reads are continued;
the end of the file inside a read is an error and never fewer bytes; a stale handle of a network file system is opened
again once. Shards are read and never mapped, so a file that shrinks is an error and not a SIGBUS.

`close` in one thread while another one reads would let the descriptor's number be taken by a new file, whose bytes the
reader would then get. So readers enter their names in a list and the last to leave closes. List operations are atomic;
a lock could be held by another thread at a fork and would then block the child for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from typing import Self

from wds_tools.errors import ShardChangedError, ShardMissingError, TruncatedShardError, UnavailableError, UsageError

__all__ = ["LocalFile"]

_CURES = {
    errno.EACCES: "Give this user the right to read it",
    errno.EPERM: "Give this user the right to read it",
    errno.EMFILE: "This process may have no more open files: raise the limit (`ulimit -n 65536`)",
    errno.ENFILE: "This machine has no more open files left: raise fs.file-max or close other programs",
    errno.ENAMETOOLONG: "The name is longer than the file system allows",
    errno.EIO: "The disk or its network answered with an error: try again, then check the disk",
    errno.ELOOP: "The symbolic links go round in a circle",
}

_advise = getattr(os, "posix_fadvise", None)  # not on macOS
_SOON = getattr(os, "POSIX_FADV_WILLNEED", 0)


class LocalFile:
    """A local file as a Source. The constructor only stores; `open` opens, `close` or `with` gives back.

    Args:
        path: where the file lies.
        url: how messages name it; the path by default.
        reopen: whether a stale handle is opened again by its path; not where another file may lie there by then.
    """

    def __init__(self, path: str, *, url: str | None = None, reopen: bool = True) -> None:
        self._path = path
        self._reopens = reopen
        self._url = path if url is None else url
        self._descriptor: int | None = None
        self._size = 0
        self._readers: list[None] = []
        self._to_close: list[int] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"

    def open(self) -> Self:
        """Open the file and note its size.

        Raises:
            ShardMissingError: there is none.
            UsageError: a folder, a pipe or a device.
            UnavailableError: permission, too many open files, disk.
        """
        if self._descriptor is None:
            descriptor, size = self._opened()
            self._size = size
            self._to_close.append(descriptor)
            self._descriptor = descriptor
        return self

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._url

    def size(self) -> int:
        """Bytes in all, as found when it was opened."""
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on, or raise (`TruncatedShardError`, `UnavailableError`)."""
        self.scatter(offset, [buffer])

    def scatter(self, offset: int, buffers: Sequence[memoryview]) -> None:
        """Fill the buffers, one after the other, from `offset` on, or raise as `read_into`."""
        descriptor = self.lend()
        try:
            if descriptor is None:
                raise UnavailableError("the file is not open", url=self._url)
            self._fill(descriptor, offset, buffers)
        finally:
            self.give_back()

    def lend(self, start: int = 0, stop: int = 0) -> int | None:  # noqa: ARG002 - it has what it has
        """The descriptor, None where the file is not open. It stays open until `give_back`, which is always called."""
        self._readers.append(None)
        return self._descriptor

    def give_back(self) -> None:
        """End the use of what `lend` gave."""
        self._readers.pop()
        if self._descriptor is None:
            self._close_unless_read()

    def announce(self, offset: int, length: int) -> None:
        """Ask the kernel to begin to read these bytes."""
        descriptor = self._descriptor
        if _advise is not None and descriptor is not None:
            try:  # noqa: SIM105 - called for every sample, and `suppress` costs as much as the call
                _advise(descriptor, offset, length, _SOON)
            except OSError:
                pass

    def close(self) -> None:
        """Give the descriptor back, once the reads in other threads are done. Twice does nothing."""
        self._descriptor = None
        self._close_unless_read()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _close_unless_read(self) -> None:
        if not self._readers:
            with contextlib.suppress(IndexError):  # another thread was first
                os.close(self._to_close.pop())

    def _opened(self) -> tuple[int, int]:
        try:
            # O_NONBLOCK: a named pipe without writer would block here for ever; regular files ignore it.
            descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise self._translated(error) from error
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            what = _kind(facts.st_mode)
            raise UsageError(f"not a file but {what}", url=self._url, cure="Name the shards themselves")
        return descriptor, facts.st_size

    def _fill(self, descriptor: int, offset: int, buffers: Sequence[memoryview]) -> None:
        done, wanted, reopened = 0, sum(map(len, buffers)), False
        while done < wanted:
            try:
                read = os.preadv(descriptor, _from(buffers, done) if done else buffers, offset + done)
            except OSError as error:
                if error.errno != errno.ESTALE or reopened or not self._reopens:
                    raise self._translated(error, offset + done) from error
                self._reopen(descriptor)
                reopened = True
                continue
            if read == 0:
                raise TruncatedShardError(
                    f"the file ends after {offset + done:,} bytes, {offset + wanted:,} expected",
                    url=self._url,
                    offset=offset + done,
                    cure="It was cut or rewritten: copy it again, or index it again with `wds index --force`",
                )
            done += read

    def _reopen(self, descriptor: int) -> None:
        """Put a fresh handle of the same file under the same number (NFS: the server forgot the old one)."""
        fresh, size = self._opened()
        try:
            if size != self._size:
                raise ShardChangedError(
                    f"the file had {self._size:,} bytes when it was opened and has {size:,} now", url=self._url
                )
            os.dup2(fresh, descriptor, inheritable=False)
        finally:
            os.close(fresh)

    def _translated(self, error: OSError | ValueError, offset: int | None = None) -> UnavailableError:
        number = error.errno if isinstance(error, OSError) else None
        if number in {errno.ENOENT, errno.ENOTDIR}:
            return ShardMissingError("no such file", url=self._url, cure="Check the path, or leave the shard out")
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        cure = _CURES.get(number) if number is not None else None
        return UnavailableError(f"the file cannot be read: {reason}", url=self._url, offset=offset, cure=cure)


def _from(buffers: Sequence[memoryview], done: int) -> list[memoryview]:
    """What is left of the buffers when so many bytes are in them."""
    left = []
    for buffer in buffers:
        left.append(buffer[done:])
        done = max(0, done - len(buffer))
    return left


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")

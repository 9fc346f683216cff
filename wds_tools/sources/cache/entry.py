"""One entry that is open: what is there is read, checked once a process; what is missing is written under a lock.

Reads are positioned reads of a plain file, as fast as those of any local shard. A leaf is held against its check before
this process first believes it; `sound` remembers which were, one byte a leaf, for as long as the entry lives (it is
handed in, so that opening a shard again starts from there: 16 MB for a cache of a terabyte). Whatever the disk answers,
no read fails here: it is `False`, and the caller asks the origin.

Writers lock the extents that they fill (see `locks`): who waited finds them there. Data is written before the record
that says so.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from wds_tools.errors import ShardstreamError, UnavailableError
from wds_tools.sources.cache import locks
from wds_tools.sources.cache.layout import (
    BLOCK,
    EXTENT,
    LEAF,
    Header,
    Layout,
    Record,
    State,
    leaf_check,
    pack_header,
    pack_origin,
    pack_record,
    unpack_header,
    unpack_origin,
    unpack_record,
)
from wds_tools.sources.local import LocalFile

__all__ = ["Entry", "Writer", "create"]

_LOCKS = 1 << 62
"""Extents are locked by bytes that no file has, so that locks of other programs on the data do not matter."""
_LEAVES = EXTENT // LEAF


class Entry:
    """An entry open for reading; made by `open`.

    Attributes:
        path: where it lies.
        header: what it says of itself.
        layout: where things lie in it.
        sound: a byte a leaf, 1 where this process has found it right.
    """

    def __init__(self, path: Path, file: LocalFile, header: Header, layout: Layout) -> None:
        self.path = path
        self.header = header
        self.layout = layout
        self.sound = bytearray(layout.leaves)
        self._file = file
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Self | None:
        """Open an entry; None if there is none or it is damaged.

        Raises:
            UnavailableError: it may not be read.
        """
        file = LocalFile(str(path), reopen=False)
        try:
            file.open()
            block = _read(file, max(0, file.size() - BLOCK), min(BLOCK, file.size()))
        except FileNotFoundError:
            return None
        except ShardstreamError:
            file.close()
            raise
        header = unpack_header(block)
        layout = None if header is None else Layout.of_length(file.size(), header.size)
        if header is None or layout is None:
            file.close()
            return None
        return cls(path, file, header, layout)

    def close(self) -> None:
        """Give the descriptor back. Twice does nothing. Reads are then refused, and prove nothing about the disk."""
        self._closed = True
        self._file.close()

    def fill(self, start: int, stop: int, buffer: memoryview) -> bool:
        """Fill `buffer` with the bytes from `start` to `stop`, if all of them were found right before."""
        if self.sound.find(0, start // LEAF, (stop - 1) // LEAF + 1) >= 0:
            return False
        try:
            self._file.read_into(start, buffer)
        except ShardstreamError:  # cut, or a bad disk: `check` will find out
            self._refuse_closed()
            self.doubt(start, stop)
            return False
        return True

    def lend(self, start: int, stop: int) -> int | None:
        """The descriptor, if all these bytes are here and right; open until `give_back`, which is always called."""
        descriptor = self._file.lend()
        if not 0 <= start < stop <= self.layout.size:
            return None
        if self.sound.find(0, start // LEAF, (stop - 1) // LEAF + 1) >= 0:
            steps = [start, *range((start // EXTENT + 1) * EXTENT, stop, EXTENT), stop]
            if not all(self.check(*each) for each in itertools.pairwise(steps)):
                return None
        return descriptor

    def give_back(self) -> None:
        """End the use of what `lend` gave."""
        self._file.give_back()

    def check(self, start: int, stop: int) -> bool | None:
        """Whether the bytes from `start` to `stop`, all of one extent, are right; None if they are not there."""
        first, last = start // LEAF, (stop - 1) // LEAF + 1
        if self.sound.find(0, first, last) < 0:
            return True
        record = self.record(start // EXTENT)
        if record.state is not State.PRESENT:
            return None
        data = _scratch(min(last * LEAF, self.layout.size) - first * LEAF)
        try:
            self._file.read_into(first * LEAF, data)
        except ShardstreamError:
            self._refuse_closed()
            return False
        for leaf in range(first, last):
            piece = data[(leaf - first) * LEAF : (leaf - first + 1) * LEAF]
            if leaf_check(piece) != record.checks[leaf % _LEAVES]:
                return False
            self.sound[leaf] = 1
        return True

    def doubt(self, start: int, stop: int) -> None:
        """Believe nothing of these bytes before it is checked again."""
        first, last = start // LEAF, (stop - 1) // LEAF + 1
        self.sound[first:last] = bytes(last - first)

    def record(self, extent: int) -> Record:
        """How far an extent is; BEGUN, which is fetched again, if that cannot be read."""
        try:
            data = _read(self._file, self.layout.record_at(extent), self.layout.record_size)
        except ShardstreamError:
            self._refuse_closed()
            return Record(State.BEGUN)
        return unpack_record(self.header.birth, extent, data)

    def origin(self) -> str | None:
        """The version that the object's host gave with the bytes that are here, None before the first."""
        try:
            return unpack_origin(_read(self._file, self.layout.origin_at, self.layout.length - self.layout.origin_at))
        except ShardstreamError:
            return None

    def note_origin(self, version: str) -> str | None:
        """Keep the origin's version unless there is one; which it is now. Only under the ledger's lock.

        Raises:
            OSError: the disk.
        """
        slot, kept = pack_origin(version), self.origin()
        if kept is None and slot is not None and self.is_there():
            with self.path.open("r+b", buffering=0) as stream:
                _write(stream.fileno(), memoryview(slot), self.layout.origin_at)
            return version
        return kept

    def is_there(self) -> bool:
        """Whether the entry still lies where it was opened, and not another or none."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb", buffering=0) as stream:
            return self._is(stream.fileno())
        return False

    def changed_at(self) -> float:
        """When bytes were last added or confirmed, in seconds since 1970; 0 where that cannot be known."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_mtime
        return 0.0

    def touch(self) -> None:
        """Note that the origin has confirmed it just now, where the disk takes that."""
        with contextlib.suppress(OSError):
            os.utime(self.path)

    def announce(self, offset: int, length: int) -> None:
        """Ask the kernel to begin to read these bytes."""
        self._file.announce(offset, length)

    @contextlib.contextmanager
    def locked(self, first: int, last: int) -> Iterator[Writer | None]:
        """Hold the extents `first` to `last` (both included) alone; None where the entry was removed meanwhile.

        Raises:
            OSError: it cannot be written, or not locked.
            UnavailableError: it was closed while another had them.
        """
        lock = locks.exclusive(self.path, start=_LOCKS + first, length=last - first + 1, unwanted=lambda: self._closed)
        with contextlib.ExitStack() as stack:
            try:
                held = stack.enter_context(lock)
            except FileNotFoundError:
                held = None
            except BlockingIOError:
                self._refuse_closed()
                raise
            yield None if held is None or not self._is(held) else Writer(self, held)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise UnavailableError("the file is not open", url=self.header.url)

    def _is(self, descriptor: int) -> bool:
        header = unpack_header(os.pread(descriptor, BLOCK, self.layout.header_at))
        return header is not None and header.birth == self.header.birth


class Writer:
    """An entry with some of its extents locked; made by `Entry.locked`."""

    def __init__(self, entry: Entry, descriptor: int) -> None:
        self.entry = entry
        self._descriptor = descriptor

    def begin(self, extent: int) -> None:
        """Note that the extent's space is booked and its bytes are not there (any more)."""
        self.entry.doubt(*self.entry.layout.span(extent))
        self._note(extent, State.BEGUN, ())

    def put(self, extent: int, data: memoryview) -> None:
        """Write an extent's bytes, then its record.

        Raises:
            OSError: the disk is full, or the like; the extent is then not there.
        """
        start, stop = self.entry.layout.span(extent)
        _write(self._descriptor, data, start)
        self._note(extent, State.PRESENT, [leaf_check(data[at : at + LEAF]) for at in range(0, stop - start, LEAF)])
        first, last = start // LEAF, (stop - 1) // LEAF + 1
        self.entry.sound[first:last] = b"\1" * (last - first)

    def _note(self, extent: int, state: State, checks: Sequence[int]) -> None:
        record = pack_record(self.entry.header.birth, extent, state, checks)
        _write(self._descriptor, memoryview(record), self.entry.layout.record_at(extent))


def create(path: Path, temporary: Path, header: Header) -> None:
    """Make an entry without any bytes; only under the ledger's lock.

    Raises:
        OSError: the disk is full, read-only, or without permission.
    """
    layout = Layout(header.size)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.ftruncate(descriptor, layout.length)
            _write(descriptor, memoryview(pack_header(header)), layout.header_at)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


_local = threading.local()


def _scratch(nbytes: int) -> memoryview:
    """So many bytes, of memory that this thread keeps where it is less than an extent: fresh memory costs more."""
    if nbytes >= EXTENT:
        return memoryview(bytearray(nbytes))
    kept: bytearray = getattr(_local, "kept", bytearray())
    if len(kept) < nbytes:
        kept = _local.kept = bytearray(nbytes + nbytes // 2)
    return memoryview(kept)[:nbytes]


def _read(file: LocalFile, offset: int, length: int) -> bytes:
    data = bytearray(length)
    file.read_into(offset, memoryview(data))
    return bytes(data)


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):  # a disk that fills up takes a part first
        done += os.pwrite(descriptor, data[done:], offset + done)

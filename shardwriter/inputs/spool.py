"""Records in a nameless temporary file: written once, one after the other, then read at any place from any thread.

What has no random access of its own (a generator, a compressed file, a list inside a .pt file) goes through here, so
that packing can shuffle it without holding it in memory: 8 bytes a record. The file has no name, so that no kill leaves
it behind; it needs the room of its records on the disk of `folder`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from shardwriter.inputs.base import path_shown
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sample import KEY, BytesLike, Sample

__all__ = ["Spool", "packed", "unpacked"]

_HELD = 1 << 20


class Spool:
    """The records, by number.

    Args:
        folder: on whose disk they lie; the system's folder of temporary files by default.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = folder
        self._ends = array("Q")
        self._held: list[BytesLike] = []
        self._size = self._written = 0
        with self._translated(), tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def nbytes(self) -> int:
        """Bytes of all records."""
        return self._size

    def add(self, pieces: Iterable[BytesLike]) -> None:
        """One more record: the pieces one after the other."""
        for piece in pieces:
            self._held.append(piece)
            self._size += len(piece)
        self._ends.append(self._size)
        if self._size - self._written > _HELD:
            self.flush()

    def flush(self) -> None:
        """Write what is held back. To be called before the records are read."""
        data = memoryview(b"".join(self._held))
        self._held.clear()
        with self._translated():
            while data:
                written = os.write(self._descriptor, data)
                self._written += written
                data = data[written:]

    def __getitem__(self, index: int) -> bytes:
        begin = self._ends[index - 1] if index else 0
        return self.read(begin, self._ends[index] - begin)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file, wherever records begin."""
        with self._translated():
            data = os.pread(self._descriptor, size, offset)
            while len(data) < size:  # reads of 2 GiB and more come in parts
                more = os.pread(self._descriptor, size - len(data), offset + len(data))
                if not more:
                    raise UnavailableError(f"a temporary file in {self._place()} ends too early")
                data += more
        return data

    def close(self) -> None:
        """Give the disk back. Twice does nothing."""
        self._close()

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "what is kept in a nameless temporary file cannot be sent to another process",
            cure="Pack in this process; or decompress, or pack, what had to be kept there first.",
        )

    def _place(self) -> str:
        return path_shown(tempfile.gettempdir() if self.folder is None else self.folder)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, UnavailableError):
                raise
            raise UnavailableError(
                f"a temporary file in {self._place()} cannot be used: {error.strerror or error}",
                cure="It holds all samples until they are packed: name a folder with room for them.",
            ) from error


def packed(key: str, fields: Mapping[str, bytes]) -> list[bytes]:
    """A sample as the pieces of a record: names and sizes in one head, then the values."""
    names = "\0".join([key, *fields]).encode("utf-8", "surrogateescape")
    sizes = array("Q", [len(names), *map(len, fields.values())])
    return [array("Q", [len(sizes)]).tobytes(), sizes.tobytes(), names, *fields.values()]


def unpacked(record: bytes) -> Sample:
    """The sample that `packed` made into this record; values are bytes."""
    count = int.from_bytes(record[:8], sys.byteorder)
    sizes = array("Q", record[8 : 8 + 8 * count])
    place = 8 + 8 * count + sizes[0]
    key, *fields = record[8 + 8 * count : place].decode("utf-8", "surrogateescape").split("\0")
    sample: Sample = {KEY: key}
    for field, size in zip(fields, sizes[1:], strict=True):
        sample[field] = record[place : place + size]
        place += size
    return sample

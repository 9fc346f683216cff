"""The offsets of many samples: one flat uint64 array that lies in a mapped file where it is large.

For each shard in turn it holds the offsets of its samples' first headers and the end: n + 1 numbers for n samples.
Mapped read-only, so that all processes of a machine share the pages (8 bytes a sample, 160 MB for 20 million) and a
pickle is a path, a range and a length. The file holds plain `.npy`, so numpy and others read it without us.
"""

from __future__ import annotations

import io
import math
import mmap
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wds_tools.atomic import write_atomic
from wds_tools.errors import ShardstreamError, StaleIndexError, UnavailableError

__all__ = ["OffsetArray", "Offsets", "map_offsets", "offsets_in", "write_offsets"]

OffsetArray = npt.NDArray[np.uint64]

_MAGIC = (
    b"\x93NUMPY\x01"  # version 1, whose header is of 64 KB at most: later ones may announce 4 GB, which numpy takes
)


class Offsets:
    """A flat array of offsets, with a pickle that is small where the array is mapped.

    Attributes:
        array: uint64 (length,), read-only.
        path: the mapped file, None where the array lies in memory (and in the pickle).
    """

    __slots__ = ("_begin", "_mapping", "_total", "array", "path")

    def __init__(
        self,
        array: OffsetArray,
        *,
        path: str | None = None,
        begin: int = 0,
        total: int = 0,
        mapping: mmap.mmap | None = None,
    ) -> None:
        self.array = array
        self._mapping = mapping
        self.array.flags.writeable = False
        self.path = path
        self._begin = begin
        self._total = total

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, part: slice) -> Offsets:
        begin, end, _ = part.indices(len(self))
        return Offsets(
            self.array[begin:end],
            path=self.path,
            begin=self._begin + begin,
            total=self._total,
            mapping=self._mapping,
        )

    def forget(self) -> None:
        """Give back the pages that were looked at; they stay in the page cache, and come again when they are needed.

        A look at both ends of each of 20,000 shards brings all 160 MB of 20 million samples into the process.
        """
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            return Offsets, (np.ascontiguousarray(self.array),)
        return _remap, (self.path, self._begin, len(self), self._total)


def _remap(path: str, begin: int, length: int, total: int) -> Offsets:
    return map_offsets(path, length=total)[begin : begin + length]


def map_offsets(path: str, *, length: int) -> Offsets:
    """Map the offsets file at `path`, which must hold `length` numbers.

    Raises:
        StaleIndexError: it holds another number of them, or is no such file.
        UnavailableError: it cannot be read.
    """
    try:
        _check_begin(Path(path))
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ShardstreamError:
        raise
    except FileNotFoundError as error:
        raise StaleIndexError("the offsets file is missing", url=path) from error
    except OSError as error:
        raise UnavailableError(f"the offsets cannot be read: {error.strerror or error}", url=path) from error
    except Exception as error:  # numpy lets through whatever its parser of headers raises
        raise StaleIndexError(f"the offsets file is damaged: {error}", url=path) from error
    _check_row(array, length, path)
    # As a plain array: slices and look-ups of np.memmap cost twice as much. The base keeps the mapping alive.
    mapping = getattr(array, "_mmap", None)
    return Offsets(array.view(np.ndarray), path=str(Path(path).absolute()), total=length, mapping=mapping)


def offsets_in(data: bytes, *, length: int) -> Offsets:
    """The offsets that the content of an offsets file holds, in memory; as `map_offsets`.

    Raises:
        StaleIndexError: they are of another number, or it is no such file.
    """
    if not data.startswith(_MAGIC):
        raise StaleIndexError(f"the offsets file is damaged: it begins with {data[: len(_MAGIC)]!r}")
    stream = io.BytesIO(data)
    try:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # numpy lets through whatever its parser of headers raises
        raise StaleIndexError(f"the offsets file is damaged: {error}") from error
    if dtype != np.dtype("<u8") or len(data) - stream.tell() != 8 * math.prod(shape):  # before room is made for it
        raise StaleIndexError(f"the offsets file announces {dtype} {shape} and has {len(data):,} bytes")
    array = np.frombuffer(data, "<u8", offset=stream.tell()).reshape(shape)
    _check_row(array, length, None)
    return Offsets(array)


def _check_row(array: object, length: int, path: str | None) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype("<u8") or array.ndim != 1:
        raise StaleIndexError("the offsets file holds something else than one row of uint64", url=path)
    if len(array) != length:
        raise StaleIndexError(f"the offsets file holds {len(array):,} numbers, {length:,} expected", url=path)


def _check_begin(path: Path) -> None:
    """Refuse what numpy would unpack as an archive or take for a pickle, and a named pipe, which would block."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise StaleIndexError("the offsets are no plain file", url=str(path))
    with path.open("rb") as file:
        begin = file.read(len(_MAGIC))
    if begin != _MAGIC:
        raise StaleIndexError(f"the offsets file is damaged: it begins with {begin!r}", url=str(path))


def write_offsets(path: Path, rows: Iterable[OffsetArray], *, length: int, durable: bool = True) -> None:
    """Write the rows one after the other as one `.npy` of `length` numbers, atomically."""
    write_atomic(path, _npy(rows, length), durable=durable)


def _npy(rows: Iterable[OffsetArray], length: int) -> Iterator[bytes | memoryview]:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<u8", "fortran_order": False, "shape": (length,)})
    yield head.getvalue()
    for row in rows:
        yield np.ascontiguousarray(row, dtype="<u8").data.cast("B")

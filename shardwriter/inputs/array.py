"""One .npy file that holds all pictures, the first axis counting them, and beside it one with their labels.

    array_file("images.npy", labels="labels.npy")                 as `npy` fields, uint8 (height, width, channels)
    array_file("images.npy", labels="labels.npy", field="png")    as pictures

Rows are read where they lie, one at a time, so an array larger than memory costs nothing; a file that shrinks is an
error and not a SIGBUS, as a mapped one would be. Labels are held in memory.

`npy` rows keep their shape and type unless `layout="chw"` says that channels come first: then they come last, which is
what loaders copy into a batch without decoding. A picture's channels are found by the shape, or as `layout` says.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwriter.inputs.base import BaseInput, digest, path_shown
from shardwriter.inputs.opened import OpenFiles
from shardwriter.inputs.values import Layout, check_layout, encoded
from shardwriter.keys import Keys, check_keys, key_of
from wds_tools.codec import kind_of
from wds_tools.errors import DataError, UnavailableError, UsageError
from wds_tools.names import check_field
from wds_tools.sample import KEY, Sample

__all__ = ["ArrayFile", "array_file"]

_KINDS = {"npy", "picture"}


class ArrayFile(BaseInput):
    """The rows of an array, as `array_file` opened it. Picklable; close it, or use it with `with`."""

    def __init__(
        self,
        path: Path,
        head: _Head,
        labels: npt.NDArray[Any] | None,
        *,
        field: str,
        keys: Keys = "path",
        layout: Layout | None = None,
    ) -> None:
        self._path = path
        self._head = head
        self._labels = labels
        self._field = field
        self._keys = check_keys(keys)
        self._layout = check_layout(layout)
        self._files = OpenFiles([str(path)])

    def __len__(self) -> int:
        return self._head.count

    @property
    def renamed(self) -> bool:
        return False  # a row has no other name than its number

    def name(self, index: int) -> str:
        return f"{self._path}[{index}]"

    def original(self, index: int) -> str:
        return f"{self._path.name}[{index}]"

    def key(self, index: int) -> str:
        return key_of("hash" if self._keys == "hash" else "number", index, len(self), self.original(index), str)

    def sample(self, index: int) -> Sample:
        row = self._head.row(self._files.read(0, *self._head.place(index)))
        sample: Sample = {KEY: self.key(index), self._field: encoded(self._field, row, self._layout)}
        return sample if self._labels is None else {**sample, "cls": int(self._labels[index])}

    def fingerprint(self) -> Mapping[str, object]:
        status = self._path.stat()
        return {
            "input": "array",
            "source": str(self._path.absolute()),
            "samples": len(self),
            "size": status.st_size,
            "modified": status.st_mtime_ns,
            "labels": None if self._labels is None else digest([self._labels.tobytes()]),
            "field": self._field,
            "keys": self._keys,
            "layout": self._layout,
        }

    def close(self) -> None:
        self._files.close()


class _Head:
    """What the first bytes of an .npy file say of its rows."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...], begin: int) -> None:
        self.count, *row = shape
        self._dtype = dtype
        self._shape = tuple(row)
        self._begin = begin
        self.size = math.prod(row) * dtype.itemsize

    @property
    def end(self) -> int:
        """Bytes that the file must have."""
        return self._begin + self.count * self.size

    def place(self, index: int) -> tuple[int, int]:
        return self._begin + index * self.size, self.size

    def row(self, data: memoryview) -> npt.NDArray[Any]:
        return np.frombuffer(data, self._dtype).reshape(self._shape)


def array_file(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    field: str = "npy",
    keys: Keys = "path",
    layout: Layout | None = None,
) -> ArrayFile:
    """Open an array whose first axis counts the samples.

    Args:
        path: an .npy file, (N, ...).
        labels: an .npy file of N whole numbers, the field `cls`.
        field: where a row goes: "npy", or a picture's field such as "png" (rows of uint8).
        keys: "path" and "number" count the rows; "hash" hashes the file's name and the number.
        layout: where channels lie in a row of three dimensions: "chw", "hwc", or None, see the module.

    Raises:
        UsageError: no such file, another number of labels than rows, labels that are no whole numbers, a field that
            arrays do not go into.
        DataError: no .npy file, one of objects, in Fortran order, or cut off.
    """
    check_field(field)
    if kind_of(field) not in _KINDS:
        raise UsageError(
            f"rows of an array do not go into the field {field}", cure="Choose npy, image.npy, png, jpg or webp."
        )
    path = Path(path)
    head = _head(path)
    numbers = None if labels is None else _labels(Path(labels), head.count, path)
    return ArrayFile(path, head, numbers, field=field, keys=keys, layout=layout)


def _head(path: Path) -> _Head:
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            head = _Head(dtype, shape, file.tell()) if shape else None
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise UsageError(f"there is no {path_shown(path)}") from error
    except OSError as error:
        raise UnavailableError(f"{path_shown(path)} cannot be read: {error.strerror}") from error
    except Exception as error:  # numpy parses Python text here, and lets all that can go wrong with it through
        raise DataError(f"{path_shown(path)} is no .npy file: {error}", cure="Save it with numpy.save.") from error
    if min(shape, default=0) < 0:
        raise DataError(f"{path_shown(path)} has an absurd shape, {shape}")
    if head is None or not head.count or not head.size:
        raise DataError(f"{path_shown(path)} holds no rows: its shape is {shape}")
    if dtype.hasobject:
        raise DataError(
            f"{path_shown(path)} holds Python objects, which is a pickle and may run anything",
            cure="Save it as an array of numbers: numpy.save(path, numpy.stack(list_of_arrays)).",
        )
    if fortran and len(shape) > 1:
        raise DataError(
            f"{path_shown(path)} is in Fortran order, where a sample is spread over the whole file",
            cure="Save it with numpy.save(path, numpy.ascontiguousarray(array)).",
        )
    if size < head.end:
        raise DataError(f"{path_shown(path)} is cut off: it has {size:,} bytes and needs {head.end:,}")
    return head


def _labels(path: Path, count: int, images: Path) -> npt.NDArray[Any]:
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise UsageError(f"there is no {path_shown(path)}") from error
    except OSError as error:
        raise UnavailableError(f"{path_shown(path)} cannot be read: {error.strerror}") from error
    except Exception as error:  # as above
        raise DataError(f"{path_shown(path)} is no .npy file of numbers: {error}") from error
    if found.shape not in {(count,), (count, 1)}:
        raise UsageError(
            f"{path_shown(images)} has {count:,} rows, {path_shown(path)} has the shape {found.shape}",
            cure="One label a row is needed.",
        )
    if not np.issubdtype(found.dtype, np.integer):
        raise UsageError(
            f"the labels in {path_shown(path)} are {found.dtype}, whole numbers are needed",
            cure="Save them with numpy.save(path, labels.astype(numpy.int64)).",
        )
    numbers: npt.NDArray[Any] = found.reshape(count)
    return numbers

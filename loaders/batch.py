"""Decoded samples to a batch: one column a field, a NamedTuple with the fields' names.

picture with an output size    uint8 (N, H, W, 3), decoded straight into the slab
picture at its own size        uint8 (N, H, W, 3) if all are equal, else an error that names the keys
mask                           (N, H, W) in its own dtype
int                            int64 (N,)
float                          float64 (N,)
array                          (N, ...), unequal shapes or dtypes are an error that names the keys
str, json, bytes, optional     list of N
"""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from wds_tools.errors import BatchError

__all__ = ["Batch", "batch_of", "column"]


class Batch(tuple[Any, ...]):
    """The base of all batches, for isinstance; the real class is a NamedTuple of the fields' names."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return batch_of, (self._fields, tuple(self))

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}={_shape(value)}" for name, value in zip(self._fields, self, strict=True))
        return f"Batch({columns})"

    def _repr_html_(self) -> str:
        from loaders.notebook import batch_html

        return batch_html("Batch", self._fields, self)


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    return f"{value.dtype}{tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__


@functools.lru_cache(maxsize=256)
def _batch_type(names: tuple[str, ...], base: type[Batch]) -> type[Batch]:
    fields = namedtuple("Batch", names)  # type: ignore[misc]  # noqa: PYI024 - the names are known at run time only
    return type("Batch", (base, fields), {"__slots__": (), "_fields": names})


def batch_of(names: tuple[str, ...], columns: Sequence[Any], *, base: type[Batch] = Batch) -> Any:
    """A NamedTuple of these columns, of a class that also is a `base`."""
    return _batch_type(names, base)(*columns)


def column(name: str, values: list[Any], keys: Sequence[str | None]) -> Any:
    """One column of a batch from its values, by their types; `keys` are for messages.

    Raises:
        BatchError: arrays of unequal shapes or dtypes.
    """
    kinds = set(map(type, values))
    if not kinds:
        return values
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return _int64(name, list(map(operator.index, values)), keys)
    if all(issubclass(kind, float | np.floating) for kind in kinds):
        return np.array(values, dtype=np.float64)
    if all(hasattr(kind, "__array__") for kind in kinds):
        return _stack(name, [np.asarray(value) for value in values], keys)
    return values


def _int64(name: str, values: list[int], keys: Sequence[str | None]) -> Any:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        at = next(i for i, value in enumerate(values) if not -(1 << 63) <= value < 1 << 63)
        bits = values[at].bit_length()
        shown = str(values[at]) if bits < 200 else f"of {bits:,} bits"  # a page of digits; Python itself refuses 4,301
        raise BatchError(
            f"the number {shown} does not fit into 64 bits",
            key=keys[at],
            field=name,
            cure="Store it as txt, or change it in transform=.",
        ) from error


def _stack(name: str, arrays: list[Any], keys: Sequence[str | None]) -> Any:
    first = arrays[0]
    for array, key in zip(arrays, keys, strict=True):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise BatchError(
                f"the batch has unequal arrays: {first.dtype} {first.shape} in sample {keys[0]!r}, "
                f"{array.dtype} {array.shape} in sample {key!r}",
                key=key,
                field=name,
                cure="Give pictures a size with image=RandomResizedCrop(224) or the like, make arrays equal in "
                "transform=, or join them yourself in collate=.",
            )
    return np.stack(arrays)

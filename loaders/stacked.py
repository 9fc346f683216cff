"""The memory of a batch's array column: made when the first array is seen, filled by one copy a sample.

A picture's size is known beforehand, an array's is not. So the first thread that has an array of the batch takes a slab
of its shape and dtype, and every array that is like it is copied from where it was read to its place, by the decode
threads side by side and without the interpreter's lock (numpy lets go of it for such copies). Stacking at the end, as
for other values, would be a second copy, by one thread.

An array of another shape or dtype is kept as a copy of its own, and the column is then stacked as ever, which says what
is wrong with it. So what comes out does not depend on which thread was first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from loaders.fields import FieldSpec
from loaders.slab import Slabs

__all__ = ["ArrayColumn", "Memory", "Slot", "memory_of"]

Array: TypeAlias = npt.NDArray[Any]

Like: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]

_PLAIN = frozenset("biufc")  # kinds of numbers: what numpy stacks without changing the dtype, byte order aside


class ArrayColumn:
    """An array column of one batch. Safe for many threads, each of which fills other slots.

    Args:
        slots: samples of the batch.
        slabs: where memory comes from.

    Attributes:
        like: dtype and shape of the first array that came; None before it.
    """

    def __init__(self, slots: int, slabs: Slabs) -> None:
        self._slots = slots
        self._slabs = slabs
        self._lock = threading.Lock()
        self.like: Like | None = None
        self._slab: Array | None = None
        self._filled = bytearray(slots)

    def put(self, slot: int, array: Array) -> Array:
        """Keep an array, which may be a view on memory that is used again; returns what was kept."""
        if self.like is None:
            self._take_memory(array.dtype, array.shape)
        slab = self._slab
        if slab is None or self.like != (array.dtype, array.shape):
            self._filled[slot] = 0  # as where it takes the place of a bad sample that was there before
            return array.copy(order="K")
        row: Array = slab[slot, ...]
        np.copyto(row, array)
        self._filled[slot] = 1
        return row

    def row(self, slot: int) -> Array | None:
        """The memory of a slot, for the bytes of an array like the first; None where these would not do.

        `fill` says when they are there.
        """
        slab = self._slab
        return slab[slot, ...] if slab is not None and self.like is not None and slab.dtype == self.like[0] else None

    def rows(self, like: Like) -> npt.NDArray[np.uint8] | None:
        """The memory of all slots as bytes, (slots, bytes of an array); None if the batch has arrays of another kind.

        `fill` says what is there. Arrays are of one kind if they have dtype and shape in common.
        """
        if self.like is None:
            self._take_memory(*like)
        slab = self._slab
        if slab is None or self.like != like or slab.dtype != like[0]:
            return None
        return slab.reshape(self._slots, -1).view(np.uint8)

    def fill(self, slot: int) -> None:
        """Note that the array of a slot was written to its `row`."""
        self._filled[slot] = 1

    def whole(self) -> Array | None:
        """All slots as one array, (slots, ...); None where not every one of them is in it."""
        return self._slab if self._slab is not None and all(self._filled) else None

    def part(self, slots: npt.NDArray[np.int64]) -> Array | None:
        """These slots as one array, copied; None where not every one of them is there."""
        there = self._slab is not None and all(self._filled[slot] for slot in slots.tolist())
        return self._slab[slots] if there and self._slab is not None else None

    def _take_memory(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        with self._lock:
            if self.like is None:
                if dtype.kind in _PLAIN:
                    self._slab = self._slabs.take((self._slots, *shape), dtype.newbyteorder("="))
                self.like = dtype, shape


Memory: TypeAlias = npt.NDArray[np.uint8] | ArrayColumn | None
"""Where a column's values go: a slab of pictures of known size, an array column, or nowhere yet."""
Slot: TypeAlias = npt.NDArray[np.uint8] | Callable[[Array], Array] | None
"""Where one value goes: the memory of a picture, what keeps an array, or nowhere yet."""


def memory_of(spec: FieldSpec, slots: int, slabs: Slabs) -> Memory:
    """The memory of a batch's column."""
    if not slots:
        return None
    if spec.slab_shape is not None:
        return slabs.take((slots, *spec.slab_shape))
    return ArrayColumn(slots, slabs) if spec.stacked else None

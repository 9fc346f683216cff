"""The memory of batches: lent out, and taken back only when nothing refers to it any more.

A batch belongs to whoever got it, for as long as they like. So a slab's memory is handed out through a small owner
object that every view keeps alive (numpy's `base`, torch's storage); a finalizer on the owner puts the memory back.
Nobody has to say when a batch is done with, and nobody can be surprised by a batch that changes.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Allocate", "Slabs", "plain_memory"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Allocate: TypeAlias = Callable[[int], Bytes]
"""Takes a number of bytes, returns a writable contiguous uint8 array (n,) of them; torch's is pinned.

One that has an attribute `keeps = True` keeps unused memory itself, since it knows better than we when it is unused.
"""

_ALIGNMENT = 64


def plain_memory(nbytes: int) -> Bytes:
    """Ordinary memory, not touched yet. It begins at a cache line: the kernel copies a seventh faster into it."""
    memory = np.empty(nbytes + _ALIGNMENT, dtype=np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + nbytes]


class _Owner:
    """What all views of one lending keep alive."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, memory: Bytes) -> None:
        self.memory = memory
        self.__array_interface__: dict[str, Any] = dict(memory.__array_interface__)


class Slabs:
    """A small stock of slabs. Safe for many threads.

    Args:
        allocate: makes new memory.
        keep: how many unused slabs are kept; more are freed. None where `allocate` keeps them.
    """

    def __init__(self, allocate: Allocate, *, keep: int) -> None:
        self._allocate = allocate
        # deque operations are atomic, and a finalizer may run in any thread at any moment: a lock could deadlock there.
        self._unused: deque[Bytes] = deque(maxlen=0 if getattr(allocate, "keeps", False) else keep)
        self.made = 0
        self.reused = 0

    def take(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """An array whose memory nobody else refers to; its content is what it happens to be."""
        dtype = np.dtype(dtype)
        nbytes = max(1, math.prod(shape) * dtype.itemsize)
        memory = self._find(nbytes)
        owner = _Owner(memory)
        weakref.finalize(owner, self._unused.append, memory).atexit = False
        return np.asarray(owner)[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def _find(self, nbytes: int) -> Bytes:
        for _ in range(len(self._unused)):
            try:
                memory = self._unused.popleft()
            except IndexError:
                break
            if nbytes <= len(memory) <= nbytes + nbytes // 4 + 4096:
                self.reused += 1
                return memory
        self.made += 1
        return self._allocate(-(-nbytes // _ALIGNMENT) * _ALIGNMENT)

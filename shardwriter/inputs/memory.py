"""Memory of one size that is used again as soon as nothing refers to it any more.

Blocks of a MiB that come and go are what an allocator gives back to the system each time: clearing fresh pages costs as
much as reading into them. So a block goes back to a list when the last view on it is gone, whoever had it.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwriter.encode import Frozen

__all__ = ["Memory"]


class _Owner:
    """What all views on a block keep alive, also those of which numpy forgets what they were made of."""

    __slots__ = ("__array_interface__", "__weakref__", "block")

    def __init__(self, block: npt.NDArray[np.uint8]) -> None:
        self.block = block
        self.__array_interface__: dict[str, Any] = dict(block.__array_interface__)


class Memory:
    """Blocks of `size` bytes. Used from any thread; picklable, without the blocks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._unused: list[npt.NDArray[np.uint8]] = []

    def take(self, size: int) -> Frozen:
        """Bytes to be filled and then made read-only; of a block where they fit into one. Their contents are stale."""
        if size > self.size:
            return np.empty(size, np.uint8).view(Frozen)
        try:
            block = self._unused.pop()
        except IndexError:
            block = np.empty(self.size, np.uint8)
        owner = _Owner(block)
        weakref.finalize(owner, self._unused.append, block).atexit = False
        return np.asarray(owner)[:size].view(Frozen)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self.size,)

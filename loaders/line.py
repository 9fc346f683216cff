"""Shards cut into blocks, and the blocks laid end to end in a permuted order: the line of an epoch's samples."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Blocks", "Ints", "Line"]

Ints: TypeAlias = npt.NDArray[np.int64]


class Blocks:
    """The blocks of all shards, numbered shard by shard."""

    def __init__(self, counts: Ints, size: int) -> None:
        self.size = size
        self.starts = np.concatenate(([0], np.cumsum(counts)))  # first sample of each shard
        self.firsts = np.concatenate(([0], np.cumsum(-(-counts // size))))  # first block of each shard
        self.count = int(self.firsts[-1])

    def sample_of(self, blocks: Ints) -> Ints:
        """The first sample of each of these blocks."""
        if self.size == 1:
            return blocks
        shards = np.searchsorted(self.firsts, blocks, side="right") - 1
        return self.starts[shards] + (blocks - self.firsts[shards]) * self.size

    def short(self) -> tuple[Ints, Ints]:
        """The blocks that have less than `size` samples, some shards' last, and how many they lack."""
        counts = np.diff(self.starts)
        lacking = -counts % self.size
        short = lacking > 0
        return self.firsts[1:][short] - 1, lacking[short]


class Line:
    """Where in the line each block ends: i blocks hold i * size samples, but for what the short ones lack.

    There are at most as many short blocks as shards, so that no array is as long as the line: 20 million samples in ten
    million blocks are laid out in 0.1 s where a running sum over all blocks took 0.4 s, and 40 MB.
    """

    def __init__(self, blocks: Blocks, line: npt.NDArray[np.int64] | npt.NDArray[np.uint32]) -> None:
        self._size = blocks.size
        short, lacking = blocks.short()
        lack = np.zeros(blocks.count if len(short) else 0, dtype=bool)
        lack[short] = True
        self._at = np.flatnonzero(lack[line]) if len(short) else np.zeros(0, dtype=np.int64)
        lacks = lacking[np.searchsorted(short, line[self._at])]
        self._lacked = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lacks)))  # before each stretch
        # A stretch is what lies from behind one short block up to and with the next.
        self._begins = np.concatenate((np.zeros(1, dtype=np.int64), self._at + 1))
        self._starts = self._begins * self._size - self._lacked

    def begins(self, blocks: Ints) -> Ints:
        """Samples before the block with this number in the line; before number i + 1, those up to the end of i."""
        begins: Ints = blocks * self._size - self._lacked[np.searchsorted(self._at, blocks, side="left")]
        return begins

    def blocks(self, at: Ints) -> Ints:
        """The number in the line of the block that each place lies in."""
        stretch = np.searchsorted(self._starts, at, side="right") - 1
        found: Ints = self._begins[stretch] + (at - self._starts[stretch]) // self._size
        return found

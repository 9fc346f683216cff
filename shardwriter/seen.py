"""The keys that a run has written, in 16 to 32 bytes each, so that a key that comes twice is refused at once.

A set of 20 million keys takes 2.5 GB. Here a key is its 64-bit hash in a table of uint64 with linear probing, at most
half full, and nothing else. Two different keys share a hash with probability n**2 / 2**65 for n keys: one run in 37
million at a million keys, one in 92,000 at 20 million. Such a key is refused although it is new, loudly, like any
duplicate; the hash is Python's, salted anew in each process, so the next run does not meet it again. A duplicate is
never let through.

A hash's first slot is its high bits, so the table is sorted but for the probing, and doubling it is a sort and one
cumulative maximum in numpy instead of a loop over the keys: 0.4 s at 16 million.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["SeenKeys"]

_WORD = (1 << 64) - 1
_SLACK = 64
"""Slots behind the last first slot, so that probing needs no wrap-around; a longer cluster doubles the table."""


class SeenKeys:
    """A set of strings that can only be asked whether a string is new.

    Args:
        bits: the table begins with 2**bits slots.
    """

    def __init__(self, bits: int = 12) -> None:
        self._count = 0
        self._fill(bits, np.empty(0, dtype=np.uint64))

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def add(self, key: str) -> bool:
        """Whether the key was new; it is not any more."""
        return self.add_hash(hash(key) & _WORD)

    def add_hash(self, value: int) -> bool:
        """As add, of a 64-bit hash. 0 marks a free slot, so that one hash is taken for 1."""
        value = value or 1
        slots = self._slots
        slot = value >> self._shift
        while found := slots[slot]:
            if found == value:
                return False
            slot += 1
        slots[slot] = value
        self._count += 1
        # The last slot stays free: it ends every probe.
        if self._count > self._most or slot >= self._last:
            self._grow()
        return True

    def _grow(self) -> None:
        table = self._table
        self._fill(64 - self._shift + 1, np.sort(table[table != 0]))

    def _fill(self, bits: int, hashes: npt.NDArray[np.uint64]) -> None:
        """A table of 2**bits slots with these hashes, sorted: each goes to its first slot or behind its forerunner."""
        self._shift = 64 - bits
        places = np.arange(len(hashes), dtype=np.int64)
        first = (hashes >> np.uint64(self._shift)).astype(np.int64)
        slots = np.maximum.accumulate(first - places) + places
        size = (1 << bits) + _SLACK
        if len(slots) and slots[-1] >= size - 1:
            size = int(slots[-1]) + _SLACK
        self._table = np.zeros(size, dtype=np.uint64)
        self._table[slots] = hashes
        self._slots = self._table.data  # a scalar read of a memoryview is three times one of an array
        self._last = size - 2
        self._most = 1 << (bits - 1)

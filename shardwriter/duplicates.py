"""Pictures that come twice: 16 bytes a sample in a table at most half full, and no doubt.

A picture is known by 64 bits of its content (xxh3). Two different ones share them with probability n**2 / 2**65, one
run in 92,000 at 20 million: too often to throw a picture away for it. So whoever finds one here compares the bytes.

The table is that of `seen`, with the sample's place beside each hash: 320 to 640 MB for 20 million.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xxhash

from wds_tools.codec import kind_of
from wds_tools.sample import SPECIAL, BytesLike, Sample

__all__ = ["Contents", "content_of", "pictures_of"]

_SLACK = 64


def pictures_of(sample: Sample) -> list[BytesLike]:
    """The bytes of the sample's pictures, in order: what makes two samples duplicates. Other fields may differ."""
    return [
        data
        for field, data in sample.items()
        if field not in SPECIAL
        and isinstance(data, bytes | memoryview)
        and not field.endswith(".gz")
        and kind_of(field) == "picture"
    ]


def content_of(sample: Sample) -> int:
    """64 bits of the sample's pictures, not 0; 0 for a sample without pictures, which is no duplicate of any."""
    pictures = pictures_of(sample)
    digest = xxhash.xxh3_64()
    for data in pictures:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return (digest.intdigest() or 1) if pictures else 0


def _is_picture(field: str) -> bool:
    return field not in SPECIAL and not field.endswith(".gz") and kind_of(field) == "picture"


class Contents:
    """A dict of 64-bit hashes, not 0, to places."""

    def __init__(self, bits: int = 12) -> None:
        self._count = 0
        self._fill(bits, np.empty(0, np.uint64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return self._count

    def find(self, content: int) -> int | None:
        """The place that was added first with this hash, None where there is none."""
        hashes = self._hash_slots
        slot = content >> self._shift
        while found := hashes[slot]:
            if found == content:
                return int(self._place_slots[slot])
            slot += 1
        return None

    def add(self, content: int, place: int) -> None:
        """Add a hash with its place; one that is there keeps the place that it has."""
        hashes = self._hash_slots
        slot = content >> self._shift
        while found := hashes[slot]:
            if found == content:
                return
            slot += 1
        hashes[slot] = content
        self._place_slots[slot] = place
        self._count += 1
        if self._count > self._most or slot >= self._last:  # the last slot stays free: it ends every probe
            self._grow()

    def _grow(self) -> None:
        held = np.flatnonzero(self._hashes)
        order = held[np.argsort(self._hashes[held], kind="stable")]
        self._fill(64 - self._shift + 1, self._hashes[order], self._places[order])

    def _fill(self, bits: int, hashes: npt.NDArray[np.uint64], places: npt.NDArray[np.int64]) -> None:
        """A table of 2**bits slots with these sorted hashes, each in its first slot or behind its forerunner."""
        self._shift = 64 - bits
        numbers = np.arange(len(hashes), dtype=np.int64)
        slots = np.maximum.accumulate((hashes >> np.uint64(self._shift)).astype(np.int64) - numbers) + numbers
        size = (1 << bits) + _SLACK
        if len(slots) and slots[-1] >= size - 1:
            size = int(slots[-1]) + _SLACK
        self._hashes, self._places = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        self._hashes[slots], self._places[slots] = hashes, places
        self._hash_slots, self._place_slots = self._hashes.data, self._places.data
        self._last = size - 2
        self._most = 1 << (bits - 1)

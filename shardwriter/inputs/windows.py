"""Samples of shards in the order in which they lie: read up to a MiB at a time, and taken out of that.

Packing asks for samples by the chunk. Where a chunk's samples lie side by side, as when shards are split, joined or
recoded in their order, one read brings many of them, and one piece of memory holds them all. Where they do not, as when
the whole is shuffled, each is read by itself. What is no run of plain members, and whatever cannot be read, is left to
whoever reads single samples, with all the errors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from shardwriter.inputs.memory import Memory
from shardwriter.inputs.opened import OpenFiles
from shardwriter.inputs.table import Table
from wds_tools.errors import ShardstreamError
from wds_tools.sample import RawSample
from wds_tools.sources.base import Source
from wds_tools.tar import runs

__all__ = ["READ_BYTES", "Windows"]

READ_BYTES = 1 << 20
"""For the memory's blocks, and so for each read."""


class Windows:
    """The samples with these numbers, one after the other.

    Args:
        table: where samples lie.
        files: the shards.
        memory: blocks for what is read.
        numbers: of the dataset; what is asked for are their places in this.
    """

    def __init__(self, table: Table, files: OpenFiles, memory: Memory, numbers: Sequence[int]) -> None:
        self._table = table
        self._files = files
        self._memory = memory
        self._numbers = numbers
        self._following = 0
        self._held: dict[int, memoryview] = {}
        self._url = ""

    def sample(self, place: int) -> tuple[RawSample, memoryview] | None:
        """The sample whose number stands there, and the bytes that it fills; None where it has to be read alone."""
        if place == self._following:
            self._read(place)
        view = self._held.pop(place, None)
        sample = None if view is None else runs.plain_sample(view, self._url)
        return None if view is None or sample is None else (sample, view)

    def _read(self, place: int) -> None:
        shard, offsets = self._run(place)
        self._following = place + len(offsets) - 1
        begin, size = offsets[0], offsets[-1] - offsets[0]
        try:
            with self._files.source(shard) as source:
                view, self._url = self._bytes(source, begin, size), source.url
        except ShardstreamError:
            return  # the samples before the fault are read alone, and the one that has it says so
        for number, (first, end) in enumerate(pairwise(offsets), start=place):
            self._held[number] = view[first - begin : end - begin]

    def _bytes(self, source: Source, begin: int, size: int) -> memoryview:
        taken = self._memory.take(size)
        source.read_into(begin, taken.data)
        taken.flags.writeable = False
        return taken.data

    def _run(self, place: int) -> tuple[int, list[int]]:
        """The shard, and the offsets of the samples from this place on that are read in one go, and the end."""
        numbers, first = self._numbers, self._numbers[place]
        shard = bisect_right(self._table.starts, first) - 1
        most = min(len(numbers) - place, int(self._table.starts[shard + 1]) - first)
        count = 1
        while count < most and numbers[place + count] == first + count:
            count += 1
        offsets = self._table.offsets(shard, first, count)
        while count > 1 and offsets[count] - offsets[0] > self._memory.size:
            count -= 1
        return shard, offsets[: count + 1]

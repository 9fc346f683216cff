"""From sample numbers to their bytes: which shard, which range, read when a decode thread asks.

Local shards are read by positioned reads into a buffer of the thread that decodes: nearly as fast as mapping them, and
a file that shrinks meanwhile is an error and not a SIGBUS. What comes next is announced to the kernel piece by piece,
well before it is read, so that a cold disk works while the cores decode.
"""

from __future__ import annotations

import resource
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loaders.arguments import MOST_PREFETCHED, check_count
from loaders.plan import DEFAULT_BLOCK_BYTES
from loaders.selection import AnyPlan
from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError
from wds_tools.sample import INDEX, RawSample
from wds_tools.shard import Targets, link_targets, parse_sample
from wds_tools.sources.base import Source
from wds_tools.sources.resolve import open_source

__all__ = ["Encoded", "Reading", "SampleReader", "Scratch"]

_JOINED_BYTES = 1 << 20  # neighbouring samples are read in one go up to here
_LINE = 64
_MAX_OPEN = 1024


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How far ahead is read.

    Attributes:
        block_bytes: bytes of consecutive samples that are read in one go; None means 256 KiB, or what a loaded state
            says. Larger blocks suit slow disks, and mix worse.
        prefetch: whole batches made ahead of the one that the caller has.
        prefetch_bytes: encoded bytes announced or held ahead; None means 1.5 times what the open lanes need.
    """

    block_bytes: int | None = None
    prefetch: int = 2
    prefetch_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("block_bytes", self.block_bytes), ("prefetch_bytes", self.prefetch_bytes)):
            if value is not None and value < 1:
                raise UsageError(f"Reading.{name} is {value}, expected at least 1 byte")
        check_count("Reading.prefetch", self.prefetch, most=MOST_PREFETCHED)

    def check(self, plan: AnyPlan, world_size: int) -> None:
        """Raise UsageError where the rank's open lanes need more than prefetch_bytes."""
        mean = plan.sample_bytes
        lanes = -(-plan.lanes // world_size) if plan.shuffle else 1
        need = int(min(lanes * plan.block, plan.samples) * mean)
        if self.prefetch_bytes is not None and self.prefetch_bytes < need:
            raise UsageError(
                f"Reading.prefetch_bytes is {self.prefetch_bytes:,}, but {lanes} open lanes of {plan.block} samples of "
                f"{mean:,.0f} bytes need {need:,}",
                cure=f"Pass prefetch_bytes={need} or more, fewer lanes=, or less than "
                f"block_bytes={self.block_bytes or DEFAULT_BLOCK_BYTES}.",
            )


class Scratch:
    """One thread's buffer for encoded bytes; grows to the largest sample and is used again and again.

    It begins at a cache line: the kernel then copies half as fast again into it (see `wds_tools.tar.feed`).
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = _aligned(1 << 18)

    def take(self, nbytes: int) -> memoryview:
        """The first nbytes; what was taken before is overwritten."""
        if nbytes > len(self._buffer):
            self._buffer = _aligned(nbytes + nbytes // 2)
        return self._buffer[:nbytes]


def _aligned(nbytes: int) -> memoryview:
    memory = np.empty(nbytes + _LINE, dtype=np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin : begin + nbytes].data


class _Open:
    """Holds an open shard. Closed when the last thread that uses it lets go, which reference counts know exactly."""

    __slots__ = ("__weakref__", "source", "targets")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.targets = link_targets(source)
        weakref.finalize(self, source.close)


class Encoded(NamedTuple):
    """One sample as it lies in its shard."""

    number: int  # in the dataset
    url: str
    offset: int
    data: memoryview
    targets: Targets

    def parse(self) -> RawSample:
        """Its fields, as views on `data`; links to other members of the shard are followed."""
        sample = parse_sample(self.data, url=self.url, offset=self.offset, targets=self.targets)
        sample[INDEX] = self.number
        return sample


class SampleReader:
    """Reads samples of a dataset by number. Safe for many threads; each brings its own Scratch."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._open: dict[int, _Open] = {}
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = max(16, min(_MAX_OPEN, soft // 4))

    def read(self, samples: npt.NDArray[np.int64], scratch: Scratch) -> Iterator[Encoded]:
        """Each sample's bytes, in the order asked for.

        They are valid until the next is asked for. Samples that follow each other in a shard are read together.
        """
        shards, begins, ends = (part.tolist() for part in self.dataset.locate(samples))
        numbers, at = samples.tolist(), 0
        while at < len(shards):
            upto = at + 1
            while (
                upto < len(shards)
                and shards[upto] == shards[at]
                and begins[upto] == ends[upto - 1]
                and ends[upto] - begins[at] <= _JOINED_BYTES
            ):
                upto += 1
            url, base = self.dataset.urls[shards[at]], begins[at]
            whole = scratch.take(ends[upto - 1] - base)
            opened = self._source(shards[at])
            opened.source.read_into(base, whole)
            for i in range(at, upto):
                yield Encoded(numbers[i], url, begins[i], whole[begins[i] - base : ends[i] - base], opened.targets)
            at = upto

    def announce(self, firsts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
        """Say that these runs of samples will be read soon; a run may cross shards."""
        if not len(firsts):
            return
        shards, begins, _ = (part.tolist() for part in self.dataset.locate(firsts))
        last_shards, _, ends = (part.tolist() for part in self.dataset.locate(firsts + counts - 1))
        for shard, begin, last, end in zip(shards, begins, last_shards, ends, strict=True):
            if shard == last:
                self._source(shard).source.announce(begin, end - begin)
            else:
                self._source(shard).source.announce(begin, int(self.dataset.sizes[shard]) - begin)
                self._source(last).source.announce(0, end)

    def _source(self, shard: int) -> _Open:
        opened = self._open.get(shard)
        return opened if opened is not None else self._open_shard(shard)

    def _open_shard(self, shard: int) -> _Open:
        source = open_source(self.dataset.urls[shard])
        try:
            self.dataset.check_shard(shard, source)
        except BaseException:
            source.close()
            raise
        opened = _Open(source)
        for old in list(self._open)[: max(0, len(self._open) + 1 - self._limit)]:  # the oldest, opened long ago
            self._open.pop(old, None)
        return self._open.setdefault(shard, opened)  # where two threads opened it at once, one copy closes at once

    def close(self) -> None:
        """Close what no thread is reading from any more; twice does nothing."""
        self._open.clear()

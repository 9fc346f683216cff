"""What a loader can be given, and all that it asks of it: a selection, which opens to a dataset and a plan over it.

    ShardLoader("train/")                                   the samples of one dataset
    ShardLoader(mix([("a/", 2), ("b/", 1)]))                of several, in stated proportions
    ShardLoader(balanced("train/"))                         of one, the rare classes more often

A selection is what the user writes down: frozen and picklable, nothing is opened by making it. `opened()` looks the
shards up; the plan made of that says which sample stands at each position of an epoch. Session and loader know
nothing else, so whatever satisfies `AnyPlan` is split over ranks, resumed, padded and mended like a plain dataset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from loaders.line import Ints
from loaders.order import Pieces
from loaders.plan import (
    DEFAULT_BLOCK_BYTES,
    DEFAULT_LANES,
    REMOTE_BLOCK_BYTES,
    REMOTE_LANES,
    Plan,
    Tail,
    block_samples,
)
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.sources.options import Remote

__all__ = [
    "Access",
    "AnyOrder",
    "AnyPlan",
    "Opened",
    "OpenedDataset",
    "Openness",
    "Options",
    "PartProgress",
    "Selection",
    "Urls",
    "WholeDataset",
    "as_selection",
    "default_openness",
]

Urls: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class PartProgress(NamedTuple):
    """How far a run has come in one dataset of several.

    Attributes:
        name: the urls as given, shortened.
        weight: its share of the samples as asked for, of 1.
        share: its share as it is, in whole slots.
        samples: that the dataset has.
        taken: samples of it that the whole job was handed since the run's first epoch.
    """

    name: str
    weight: float
    share: float
    samples: int
    taken: int

    @property
    def epochs(self) -> float:
        """How often the dataset was seen."""
        return self.taken / self.samples

    @property
    def repeats(self) -> int:
        """Samples that were handed out again, after all had been once."""
        return max(0, self.taken - self.samples)

    def __str__(self) -> str:
        asked = f" ({self.weight:.2%} asked)" if abs(self.weight - self.share) > 1e-9 else ""
        return f"{self.name}: {self.share:.2%}{asked}, {self.epochs:.2f} epochs, {self.repeats:,} repeats"


class AnyOrder(Protocol):
    """One epoch: positions to samples. Safe for many threads. See `plan.Order`."""

    @property
    def epoch(self) -> int: ...

    def samples(self, positions: Ints) -> Ints:
        """The dataset's number of the sample at each position, int64 (n,) to int64 (n,)."""
        ...

    def runs(self, positions: Ints) -> tuple[Ints, Ints]:
        """What is read from here on, as (first sample, samples) of ranges that begin at one of these positions."""
        ...

    def pieces(self, positions: Ints) -> Pieces:
        """For each position what is worth fetching for it in one go. See `plan.Order`."""
        ...

    def replacements(self, position: int) -> Iterator[int]:
        """Positions to look at, one after the other, when the sample at this one is bad."""
        ...


class AnyPlan(Protocol):
    """What decides the order; epoch for epoch the same number of positions."""

    @property
    def seed(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def shuffle(self) -> bool: ...
    @property
    def tail(self) -> Tail: ...

    @property
    def samples(self) -> int:
        """Positions of an epoch."""
        ...

    @property
    def shards(self) -> int: ...

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        ...

    @property
    def sample_bytes(self) -> float:
        """Mean encoded bytes of what stands at a position."""
        ...

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that makes the order but the options above: for states."""
        ...

    @property
    def data(self) -> str:
        """16 hex digits over the shards alone: for lists of sample numbers."""
        ...

    def batches(self, global_batch: int, *, position: int = 0) -> int:
        """Global batches from `position` to the end of the epoch."""
        ...

    def check(self, global_batch: int) -> None:
        """Raise TooFewSamplesError where an epoch would have no batch."""
        ...

    def epoch(self, epoch: int) -> AnyOrder: ...

    def progress(self, epoch: int, position: int) -> tuple[PartProgress, ...]:
        """Of several datasets, how far a run at this place has come in each; else nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class Options:
    """The loader's part of a plan; see `plan.Plan`. `block` None means `block_bytes` worth of samples."""

    seed: int = 0
    lanes: int = DEFAULT_LANES
    block: int | None = None
    block_bytes: int = DEFAULT_BLOCK_BYTES
    shuffle: bool = True
    tail: Tail = "drop"

    def with_block(self, samples: int, nbytes: int) -> Options:
        """The same with a block of so many samples as suits a dataset of this size."""
        if self.block is not None:
            return self
        block = block_samples(samples, nbytes, lanes=self.lanes, block_bytes=self.block_bytes)
        return replace(self, block=block)


@dataclass(frozen=True, kw_only=True)
class Access:
    """How shards are got at.

    Attributes:
        remote: how remote hosts are asked; None means the defaults.
        cache_dir: where indexes are kept; None means the user's cache directory.
    """

    remote: Remote | None = None
    cache_dir: Path | None = None

    def dataset(self, urls: Urls) -> Dataset:
        """The dataset that these urls are."""
        return open_dataset(urls, cache_dir=self.cache_dir, remote=self.remote)


class Opened(Protocol):
    """A selection whose shards were looked up."""

    @property
    def dataset(self) -> Dataset:
        """All the shards; the plan's samples are its numbers."""
        ...

    def plan(self, options: Options) -> AnyPlan: ...


@runtime_checkable
class Selection(Protocol):
    """What stands in place of urls: `loaders.mix`, `loaders.balanced`, or one of your own."""

    def opened(self, access: Access) -> Opened:
        """Look the shards up."""
        ...


@dataclass(frozen=True)
class WholeDataset:
    """The selection that plain urls are: every sample once an epoch."""

    urls: Urls

    def opened(self, access: Access) -> OpenedDataset:
        """Look the shards up."""
        return OpenedDataset(access.dataset(self.urls))


@dataclass(frozen=True)
class OpenedDataset:
    """One dataset."""

    dataset: Dataset

    def plan(self, options: Options) -> Plan:
        """Every sample once an epoch."""
        counts, sizes = self.dataset.counts, self.dataset.sizes
        fitted = options.with_block(int(counts.sum()), int(sizes.sum()))
        return Plan(
            counts=counts,
            sizes=sizes,
            seed=options.seed,
            lanes=options.lanes,
            block=fitted.block or 1,
            shuffle=options.shuffle,
            tail=options.tail,
        )


class Openness(NamedTuple):
    """How many runs are open at a time, and how long their blocks are."""

    lanes: int
    block_bytes: int


def default_openness(dataset: Dataset) -> Openness:
    """960 lanes of 256 KiB; 240 of 4 MiB for remote shards that were packed in shuffled order, where any order mixes.

    A request costs a round trip, and money in some stores: 4 MiB make sixteen times fewer.
    """
    if dataset.shuffled and dataset.remote_shards.any():
        return Openness(REMOTE_LANES, REMOTE_BLOCK_BYTES)
    return Openness(DEFAULT_LANES, DEFAULT_BLOCK_BYTES)


def as_selection(urls: Urls | Selection) -> Selection:
    """What the user gave as a selection."""
    return urls if isinstance(urls, Selection) else WholeDataset(urls)

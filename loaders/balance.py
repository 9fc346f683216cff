"""Rare classes more often: `balanced("train/")` in place of urls.

    ShardLoader(loaders.balanced("train/", field="cls", weights="inverse"), batch_size=256, ...)

An epoch has as many samples as the dataset. Of these each class gets its number by the weights, rounded to a whole
number (largest remainder), the same in every epoch; a class with n samples that gets t gives each of them t div n times
and t mod n of them once more. Which those are is drawn anew each epoch, by (seed, epoch, sample). So a sample comes
floor or ceil(weight) times, class totals are exact, and an epoch's length does not change.

The plan is the plain one over these copies: blocks, lanes, ranks, resume are all as in `plan`. Copies of a sample lie
side by side in the line of a shard, so that where blocks hold several samples a very rare one may fill a block.

Costs, beside the labels (4 bytes a sample, shared by all processes): for an epoch 4 bytes a sample in each process, and
to draw it 0.1 microseconds a sample.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from loaders.draws import Purpose, key_of
from loaders.line import Ints
from loaders.order import Order, Pieces
from loaders.plan import Plan, Tail
from loaders.selection import Access, OpenedDataset, Options, PartProgress, Urls
from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError, there_are
from wds_tools.labels import Label, Labels, read_labels

__all__ = ["Balanced", "BalancedOrder", "BalancedPlan", "Weights", "balanced", "class_totals"]

Weights: TypeAlias = Literal["inverse", "sqrt"] | Mapping[Label, float]

_STEP = 1 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Balanced:
    """One dataset, some classes more often than others; made by `balanced`."""

    urls: Urls
    field: str
    weights: Weights

    def opened(self, access: Access) -> OpenedBalanced:
        """Look the shards up and read the labels, if they are not known from an earlier time.

        Raises:
            UsageError: a field that no sample has, or weights for a label that does not occur.
            DataError: a shard or listing that cannot be read.
        """
        dataset = access.dataset(self.urls)
        labels = read_labels(dataset, self.field, cache_dir=access.cache_dir)
        return OpenedBalanced(dataset, labels, class_totals(labels, self.weights))


def balanced(urls: Urls, *, field: str = "cls", weights: Weights = "inverse") -> Balanced:
    """One dataset with rare classes more often, for ShardLoader and `mix` in place of urls.

    Args:
        urls: as for ShardLoader.
        field: holds each sample's class, a number or a word.
        weights: "inverse" makes all classes equally frequent; "sqrt" goes half the way (a class's share is as the root
            of its size); or how much a sample of each label weighs, where labels that are not named weigh 1 and a
            weight of 0 leaves a class out. Samples without a label come once.

    Raises:
        UsageError: weights that are none of these.
    """
    if isinstance(weights, Mapping):
        weights = dict(weights)
        for label, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < np.inf:
                raise UsageError(f"the label {label!r} has the weight {weight!r}, expected a number of at least 0")
    elif weights not in ("inverse", "sqrt"):
        raise UsageError(f"weights is {weights!r}, expected 'inverse', 'sqrt' or a dict by label")
    return Balanced(urls, field, weights)


def class_totals(labels: Labels, weights: Weights) -> Ints:
    """How many samples of each class an epoch has, int64 (C,): as many in all as there are with a label.

    Raises:
        UsageError: weights for a label that does not occur, or nothing but weights of 0.
    """
    counts = labels.counts
    if weights == "inverse":
        wanted = np.ones(len(counts))
    elif weights == "sqrt":
        wanted = np.sqrt(counts)
    else:
        strange = [label for label in weights if label not in labels.values]
        if strange:
            raise UsageError(
                f"weights has {strange[0]!r}, which is the label of no sample",
                cure=there_are(map(repr, labels.values), most=5),
            )
        wanted = counts * np.array([weights.get(label, 1.0) for label in labels.values])
    if not wanted.sum() > 0:
        raise UsageError("all weights are 0", cure="Give at least one class a weight.")
    exact = wanted * (counts.sum() / wanted.sum())
    totals: Ints = np.floor(exact).astype(np.int64)
    by_rest = np.argsort(totals - exact, kind="stable")
    totals[by_rest[: int(counts.sum() - totals.sum())]] += 1
    return totals


@dataclass(frozen=True)
class OpenedBalanced:
    """A dataset with the labels of its samples."""

    dataset: Dataset
    labels: Labels
    totals: Ints

    def plan(self, options: Options) -> BalancedPlan:
        """Each sample as often as the totals of its class say."""
        counts = self.labels.counts
        log.info(
            "balanced %d classes of %d to %d samples: now %d to %d an epoch, a sample up to %d times",
            len(counts),
            counts.min(initial=0),
            counts.max(initial=0),
            self.totals.min(initial=0),
            self.totals.max(initial=0),
            (-(-self.totals // counts)).max(initial=0),
        )
        return BalancedPlan(
            base=OpenedDataset(self.dataset).plan(options),
            starts=self.dataset.starts,
            labels=self.labels,
            totals=self.totals,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class BalancedPlan:
    """What decides the order: the plain plan of the dataset, and how many samples of each class an epoch has.

    Attributes:
        base: the dataset's own plan.
        starts: each shard's first sample, and the number of samples, int64 (S + 1,).
        labels: of its samples.
        totals: samples of each class in an epoch, int64 (C,).
    """

    base: Plan
    starts: Ints
    labels: Labels
    totals: Ints

    @property
    def seed(self) -> int:
        return self.base.seed

    @property
    def lanes(self) -> int:
        return self.base.lanes

    @property
    def block(self) -> int:
        return self.base.block

    @property
    def shuffle(self) -> bool:
        return self.base.shuffle

    @property
    def tail(self) -> Tail:
        return self.base.tail

    @property
    def samples(self) -> int:
        """Positions of an epoch: as many as the dataset has samples."""
        return self.base.samples

    @property
    def shards(self) -> int:
        return self.base.shards

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return self.base.bytes

    @property
    def sample_bytes(self) -> float:
        return self.base.sample_bytes

    @property
    def data(self) -> str:
        """Of the shards alone."""
        return self.base.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Over the shards, the labels and the totals."""
        text = f"{self.base.fingerprint} {self.labels.digest} {self.totals.tolist()}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def batches(self, global_batch: int, *, position: int = 0) -> int:
        """Global batches from `position` to the end of the epoch."""
        return self.base.batches(global_batch, position=position)

    def check(self, global_batch: int) -> None:
        """Raise TooFewSamplesError where an epoch would have no batch, the same on every rank."""
        self.base.check(global_batch)

    def progress(self, epoch: int, position: int) -> tuple[PartProgress, ...]:
        """Nothing: the dataset is one."""
        return self.base.progress(epoch, position)

    def copies(self, epoch: int) -> npt.NDArray[np.int32]:
        """How often each sample comes in an epoch, int32 (N,)."""
        counts = self.labels.counts
        each, more = np.divmod(self.totals, np.maximum(counts, 1))
        copies = np.append(each, 1).astype(np.int32)[self.labels.codes]  # the last is what a code of -1 looks up
        copies[self._chosen(epoch, counts, more)] += 1
        return copies

    def _chosen(self, epoch: int, counts: Ints, more: Ints) -> Ints:
        """The samples with one copy more: of each class those with the lowest draws."""
        n, classes = self.samples, len(counts) + 1
        index_bits, class_bits = np.uint64(max(1, (n - 1).bit_length())), np.uint64(classes.bit_length())
        mask = (np.uint64(1) << index_bits) - np.uint64(1)
        # One sort of (class, draw, index) in a word, as in `permutation`: all different, so that any sort agrees.
        keys = np.random.Philox(key=np.array(key_of(self.seed, epoch, Purpose.BALANCE), np.uint64)).random_raw(n)
        for begin in range(0, n, _STEP):  # in place and in steps: 8 bytes a sample in all
            part = keys[begin : begin + _STEP]
            part >>= class_bits
            part &= ~mask
            part |= np.arange(begin, begin + len(part), dtype=np.uint64)
            part |= (self.labels.codes[begin : begin + _STEP] + 1).astype(np.uint64) << (np.uint64(64) - class_bits)
        keys.sort()
        begins = n - counts.sum() + np.cumsum(counts) - counts  # behind those without a label
        places = np.repeat(begins - (np.cumsum(more) - more), more) + np.arange(more.sum())
        chosen: Ints = (keys[places] & mask).astype(np.int64)
        return chosen

    def epoch(self, epoch: int) -> BalancedOrder:
        """The order of one epoch."""
        return BalancedOrder(self, epoch)


class BalancedOrder:
    """One epoch: positions to copies by the plain order, copies to samples. Safe for many threads."""

    def __init__(self, plan: BalancedPlan, epoch: int) -> None:
        copies = plan.copies(epoch)
        width = np.uint32 if plan.samples < 1 << 32 else np.int64
        self._samples: npt.NDArray[np.uint32 | np.int64] = np.repeat(np.arange(len(copies), dtype=width), copies)
        ends = np.searchsorted(self._samples, plan.starts)  # of each shard, counted in copies
        self._order: Order = replace(plan.base, counts=np.diff(ends)).epoch(epoch)
        self.epoch = epoch

    def samples(self, positions: Ints) -> Ints:
        """The sample at each position: int64 (n,) of [0, N) to int64 (n,) of [0, N)."""
        found: Ints = self._samples[self._order.samples(positions)].astype(np.int64)
        return found

    def runs(self, positions: Ints) -> tuple[Ints, Ints]:
        """What is read from here on, as (first sample, samples); see `plan.Order.runs`."""
        begins, lengths = self._order.runs(positions)
        firsts = self._samples[begins].astype(np.int64)
        return firsts, self._samples[begins + lengths - 1].astype(np.int64) - firsts + 1

    def pieces(self, positions: Ints) -> Pieces:
        """What is fetched in one go; see `plan.Order.pieces`. Copies of a sample lie in it once."""
        copies = self._order.pieces(positions)
        first = self._samples[copies.first].astype(np.int64)
        return Pieces(first, self._samples[copies.first + copies.length - 1].astype(np.int64) - first + 1, copies.left)

    def replacements(self, position: int) -> Iterator[int]:
        """Where to look when the sample at `position` is bad; see `plan.Order.replacements`."""
        return self._order.replacements(position)

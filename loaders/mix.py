"""Several datasets as one, in stated proportions: `mix([("photos/", 3), ("drawings/", 1)])` in place of urls.

    ShardLoader(loaders.mix([("photos/", 3), ("drawings/", 1)], stop="all"), batch_size=256, ...)

A mix is a description: frozen, picklable, nothing is opened by making it. The weights become whole numbers of M slots,
M being the smallest divisor of the lanes with which every share is within 0.5% of what was asked for, else the one that
comes nearest (largest remainder). 960 lanes have 28 divisors, so tenths, quarters, thirds and sixteenths are exact.
What is not is said in the log and in `report()`. How the slots become an order is told in `mixed`.

The parts go on where they are: an epoch of the mix ends where `stop` says, and the next one takes of each part what
comes then. A part that was seen whole begins its next epoch, in another order. So however small the share of a large
part, none of its samples comes twice before all came once, up to those that tail="drop" cuts off at the end of an
epoch of the mix (a `stop` that is a multiple of the global batch cuts off none).

Where an epoch ends, in samples of the mix, for parts of N samples that have m of the M slots:

    "first"   the least ceil(N * M / m): as many samples of one part were taken as it has, of the others at most as many
    "all"     the greatest: of every part as many samples were taken as it has, of the others more, which are repeats
    n         n samples

Counted are samples, not which. A part of less than 64 samples a lane (61,440 with the default lanes) is taken strictly
in turn, so that its epochs end to the sample. The lanes of a larger one are up to three samples apart: of a part that
was "seen", up to that many of each lane come first thing in the next epoch, and as many of its next epoch came already.

A mix of one dataset gives the batches of that dataset. A weight of 0 is refused rather than dropped: it is as often
a mistake as a wish. A mix has no dataset order, so shuffle=False is refused: evaluate each dataset by itself.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from loaders.mixed import MixedPlan, part_seed
from loaders.plan import MAX_BLOCKS
from loaders.selection import Access, AnyPlan, Opened, Options, Selection, Urls, as_selection
from wds_tools.dataset import Dataset, join_datasets
from wds_tools.errors import UsageError, public
from wds_tools.urls import urls_shown

__all__ = ["Mix", "MixPart", "Slots", "Stop", "mix", "slots_of"]

Stop: TypeAlias = Literal["first", "all"] | int

_NEAR = 0.005  # a share this near to the one asked for (relative) is not worth more slots
_EXACT = 1e-9
_HEAVIEST = 1e12  # sums and products of weights stay finite
_DEEPEST = 20
_EXAMPLE = 'For example mix([("photos/", 3), ("drawings/", 1)]).'

log = logging.getLogger(__name__)


class MixPart(NamedTuple):
    """One dataset of a mix and what it weighs against the others."""

    urls: Urls | Selection
    weight: float

    @property
    def name(self) -> str:
        """The urls as given, shortened."""
        text = public(os.fspath(self.urls)) if isinstance(self.urls, str | os.PathLike) else urls_shown(self.urls)
        return text if len(text) <= 60 else f"{text[:28]}...{text[-28:]}"


@dataclass(frozen=True)
class Mix:
    """Several datasets in stated proportions; made by `mix`.

    Attributes:
        parts: the datasets and their weights.
        stop: where an epoch ends.
    """

    parts: tuple[MixPart, ...]
    stop: Stop = "first"

    def opened(self, access: Access) -> OpenedMix:
        """Look the shards of all parts up.

        Raises:
            UsageError: a part without samples, or urls that match nothing.
            DataError: a shard or listing that cannot be read.
        """
        opened = tuple(as_selection(part.urls).opened(access) for part in self.parts)
        for part, each in zip(self.parts, opened, strict=True):
            if len(each.dataset) == 0:
                raise UsageError(
                    f"the part {part.name!r} of the mix has no samples", cure="Leave it out, or add shards to it."
                )
        return OpenedMix(self, opened, join_datasets([each.dataset for each in opened]))


def mix(parts: Sequence[tuple[Urls | Selection, float]], *, stop: Stop = "first") -> Mix:
    """Several datasets as one, in stated proportions, for ShardLoader in place of urls.

    Args:
        parts: (urls, weight) of each; urls as for ShardLoader, or another selection such as `balanced(...)`. Weights
            are relative: 3 and 1 are the same as 0.75 and 0.25.
        stop: where an epoch ends: "first" when the first of the datasets has been seen once, "all" when every one has
            been, or after this many samples.

    Raises:
        UsageError: no part, a weight that is no positive number, or a `stop` that is none of these.
    """
    made = tuple(_part(part) for part in _listed(parts))
    if not made:
        raise UsageError("a mix of no datasets", cure=_EXAMPLE)
    for part in made:
        _check_weight(part)
    if isinstance(stop, bool) or not (stop in ("first", "all") or (isinstance(stop, int) and stop >= 1)):
        raise UsageError(f"stop is {stop!r}, expected 'first', 'all' or a number of samples")
    if (depth := _depth(made)) > _DEEPEST:
        raise UsageError(
            f"a mix of mixes {depth} deep, expected at most {_DEEPEST}", cure="Mix the datasets themselves, weighted."
        )
    return Mix(made, stop)


def _check_weight(part: MixPart) -> None:
    weight = part.weight
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise UsageError(
            f"the part {part.name!r} has the weight {weight!r}, expected a positive number",
            cure="Leave a part out that shall not be drawn.",
        )
    if not 1 / _HEAVIEST <= weight <= _HEAVIEST:
        raise UsageError(
            f"the part {part.name!r} has a weight outside of {1 / _HEAVIEST:g} to {_HEAVIEST:g}",
            cure="Only proportions count: divide all weights by the same number.",
        )


def _depth(parts: Iterable[MixPart]) -> int:
    """How many mixes are within one another, this one included."""
    return 1 + max((_depth(part.urls.parts) for part in parts if isinstance(part.urls, Mix)), default=0)


def _listed(parts: Any) -> Iterable[Any]:
    if isinstance(parts, str | os.PathLike | Mapping) or not isinstance(parts, Iterable):
        raise UsageError(f"the parts of a mix are {parts!r}, expected (urls, weight) pairs", cure=_EXAMPLE)
    return parts


def _part(part: Any) -> MixPart:
    if not isinstance(part, list | tuple) or len(part) != 2:
        raise UsageError(f"a part of the mix is {part!r}, expected (urls, weight) pairs", cure=_EXAMPLE)
    return MixPart(*part)


@dataclass(frozen=True)
class OpenedMix:
    """The parts of a mix looked up, and their shards behind one another as one dataset."""

    mix: Mix
    parts: tuple[Opened, ...]
    dataset: Dataset

    def plan(self, options: Options) -> MixedPlan:
        """The order of the mix.

        Raises:
            UsageError: shuffle=False, or too few lanes for these weights.
        """
        if not options.shuffle:
            raise UsageError(
                "a mix has no dataset order, and shuffle is False",
                cure="Evaluate each dataset by a loader of its own, or pass a list of urls.",
            )
        weights = [part.weight for part in self.mix.parts]
        slots = slots_of(weights, options.lanes)
        if slots.error > _EXACT:
            shares = ", ".join(f"{part.name} {n}" for part, n in zip(self.mix.parts, slots.counts, strict=True))
            log.info("the mix has %s of %d slots, up to %.2f%% off the weights", shares, slots.total, 100 * slots.error)
        options = options.with_block(len(self.dataset), int(self.dataset.sizes.sum()))
        plans = tuple(self._part_plan(number, options) for number in range(len(self.parts)))
        return MixedPlan(
            parts=plans,
            firsts=tuple(itertools.accumulate((len(part.dataset) for part in self.parts[:-1]), initial=0)),
            slots=slots.counts,
            names=tuple(part.name for part in self.mix.parts),
            weights=tuple(weight / sum(weights) for weight in weights),
            samples=_length(self.mix.stop, [plan.samples for plan in plans], slots),
            seed=options.seed,
            lanes=options.lanes,
            block=options.block or 1,
            tail=options.tail,
        )

    def _part_plan(self, number: int, options: Options) -> AnyPlan:
        """A part's own plan: another seed for each part but the first, and blocks that suit its size too."""
        part = self.parts[number]
        samples = len(part.dataset)
        most = max(1, samples // (4 * options.lanes), -(-samples // MAX_BLOCKS))
        return part.plan(
            replace(options, seed=part_seed(options.seed, number), block=min(options.block or 1, most), tail="drop")
        )


class Slots(NamedTuple):
    """Weights as whole numbers.

    Attributes:
        counts: slots of each part.
        error: the greatest relative difference between a share and its weight.
    """

    counts: tuple[int, ...]
    error: float

    @property
    def total(self) -> int:
        """Slots in all."""
        return sum(self.counts)


def slots_of(weights: Sequence[float], lanes: int) -> Slots:
    """The smallest number of slots, of the divisors of `lanes`, that meets the weights.

    Raises:
        UsageError: with any of them a part would get no slot at all.
    """
    best = Slots((), math.inf)
    for total in (number for number in range(len(weights), lanes + 1) if lanes % number == 0):
        found = _largest_remainder(weights, total)
        if found.error < best.error - _EXACT and min(found.counts) > 0:
            best = found
        if best.error <= _NEAR:
            break
    if not best.counts:
        least = min(weights) / sum(weights)
        raise UsageError(
            f"the weights {', '.join(f'{weight:g}' for weight in weights)} do not fit into {lanes} lanes: the smallest "
            f"share, {least:.3%}, gets no slot",
            cure=f"Raise that weight, or pass lanes={math.ceil(1 / least)} or more.",
        )
    return best


def _largest_remainder(weights: Sequence[float], total: int) -> Slots:
    exact = [total * weight / sum(weights) for weight in weights]
    # Weights such as 0.1 are a little off: what is nearly whole is whole.
    counts = [round(each) if abs(each - round(each)) < 1e-6 else math.floor(each) for each in exact]
    by_rest = sorted(range(len(weights)), key=lambda part: (counts[part] - exact[part], part))
    for part in by_rest[: total - sum(counts)]:
        counts[part] += 1
    return Slots(tuple(counts), max(abs(count / each - 1) for count, each in zip(counts, exact, strict=True)))


def _length(stop: Stop, samples: Sequence[int], slots: Slots) -> int:
    """Samples of an epoch; see the module."""
    if isinstance(stop, int):
        return stop
    seen = [-(-count * slots.total // own) for count, own in zip(samples, slots.counts, strict=True)]
    return min(seen) if stop == "first" else max(seen)

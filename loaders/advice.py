"""Whether an order is poor, why, and what would make it better: each proposal tried out before it is made.

Poor is judged by the sources whose mixing matters: classes where they are known; else, unless the shards say that they
were packed in shuffled order, runs of the dataset, as if it were sorted and each run were a class. The bounds lie below
what the defaults give ImageNet-like data on 8 ranks, and above what training was seen to suffer from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from loaders.forecast import Run
from loaders.lanes import nearest_lanes
from loaders.line import Ints
from loaders.plan import Plan, block_samples
from loaders.quality import ROUNDS, Batches, Drift, Mixing, batches_of_plan, drift, mixing
from wds_tools.dataset import Dataset
from wds_tools.labels import read_labels

__all__ = ["Judgement", "Proposal", "Source", "complaints", "judge", "proposals", "sources_of"]

RUNS, RUN_SAMPLES = 1000, 16
"""Without labels the dataset counts as sorted into so many classes, of at least so many samples."""

BATCH, RANK, WINDOW = 0.95, 0.9, 0.85  # different sources, in parts of perfect
CONSECUTIVE = 0.1
DRIFT = 0.05
_LUCK = 4  # standard deviations of perfect shuffles that say nothing yet
_TRIED_SAMPLES = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Another choice of lanes or block, and what it was found to give.

    Attributes:
        lanes: sequential runs open at a time.
        block: samples of a block.
        block_bytes: what to ask for to get such blocks.
        batch, rank, window: different sources in a batch, in one rank's and in ten batches, in parts of perfect.
    """

    lanes: int
    block: int
    block_bytes: int
    batch: float
    rank: float
    window: float

    @property
    def worst(self) -> float:
        """The least of the three."""
        return min(self.batch, self.rank, self.window)


class Source(NamedTuple):
    """What samples are told apart by: its name in the plural, and the source of each sample."""

    of: str
    source_of: Callable[[Ints], Ints]


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """How well an order mixes.

    Attributes:
        batches: what was looked at.
        sources: what samples were told apart by, the last of them is what matters most.
        mixings: of each of them.
        places: whether places tell sources.
        by: what the judgement goes by; None where nothing can be bad.
        complaints: what is poor, nothing where it is fine.
        proposals: what would be better.
    """

    batches: Batches
    sources: tuple[Source, ...]
    mixings: tuple[Mixing, ...]
    places: Drift
    by: str | None
    complaints: tuple[str, ...] = ()
    proposals: tuple[Proposal, ...] = ()


def judge(run: Run, batches: Batches, *, labels: str | None = None) -> Judgement:
    """Measure the batches of an epoch, and say what is poor and what would be better.

    Args:
        run: the epoch.
        batches: those of it that are looked at.
        labels: the field with the class; all labels of the dataset are read unless they were before.
    """
    samples = run.plan.samples
    rounds = ROUNDS if batches.samples.size <= 1 << 18 else ROUNDS // 2  # of more samples fewer tell as much
    sources = sources_of(run.dataset, labels)
    mixings = tuple(mixing(batches, each.source_of, of=each.of, samples=samples, rounds=rounds) for each in sources)
    places = drift(batches, samples=samples, rounds=rounds)
    # In dataset order nothing is to be mixed; of shuffled shards any order mixes, unless the classes say otherwise.
    settled = not run.plan.shuffle or (labels is None and run.dataset.shuffled is True)
    measured = Judgement(
        batches=batches, sources=sources, mixings=mixings, places=places, by=None if settled else sources[-1].of
    )
    if settled:
        return measured
    # Blocks of one sample are dealt to the lanes in an order that is a perfect shuffle: what looks poor is luck.
    perfect = run.plan.block == 1
    said = () if perfect else complaints(mixings[-1], places, samples=samples, world_size=run.world_size)
    better = proposals(run, sources[-1].source_of) if said else ()
    return replace(measured, complaints=said, proposals=better)


def sources_of(dataset: Dataset, labels: str | None) -> tuple[Source, ...]:
    """Shards; and classes, or in their place runs of the dataset where it may be sorted."""
    found = []
    if len(dataset.urls) > 1:
        found.append(Source("shards", lambda samples: np.searchsorted(dataset.starts, samples, side="right") - 1))
    if labels is not None:
        codes = read_labels(dataset, labels).codes  # -1 is a class of its own: the samples without a label
        found.append(Source("classes", lambda samples: codes[samples].astype(np.int64) + 1))
    elif dataset.shuffled is not True or not found:
        total = len(dataset)
        runs = max(1, min(RUNS, total // RUN_SAMPLES))
        found.append(Source("runs", lambda samples: samples * runs // total))
    return tuple(found)


def complaints(found: Mixing, places: Drift, *, samples: int, world_size: int) -> tuple[str, ...]:
    """What is poor about an order, a sentence each; nothing where it is fine."""
    said = []
    for name, bound, figure in (
        ("a batch", BATCH, found.batch),
        ("one rank's batch", RANK, found.rank),
        ("ten batches in a row", WINDOW, found.window),
    ):
        # A figure that perfect shuffles have too is luck: of few samples, it is as far below their mean now and then.
        by_chance = figure.value >= figure.least or figure.value >= figure.perfect - _LUCK * figure.spread
        if figure.share < bound and not by_chance and not (name == "one rank's batch" and world_size == 1):
            verb = "hold" if name.startswith("ten") else "holds"
            said.append(
                f"{name} {verb} {figure.value:.1f} different {found.of}, of a perfect shuffle {figure.perfect:.1f}"
            )
    consecutive = found.consecutive
    if consecutive.value > max(CONSECUTIVE, consecutive.greatest, consecutive.perfect + _LUCK * consecutive.spread):
        said.append(
            f"consecutive batches are alike: their counts of {found.of} correlate by {found.consecutive.value:.2f}"
        )
    luck = _LUCK / samples**0.5
    if abs(places.drift.value) > max(DRIFT, luck):
        said.append(
            f"the place in the epoch tells the place in the dataset: they correlate by {places.drift.value:.2f}"
        )
    if abs(places.neighbours.value) > max(DRIFT, luck):
        said.append(f"neighbours come from neighbouring places: they correlate by {places.neighbours.value:.2f}")
    return tuple(said)


def proposals(run: Run, source_of: Callable[[Ints], Ints]) -> tuple[Proposal, ...]:
    """Shorter blocks, more lanes, and both; those that are better than the plan, tried on some batches of the epoch."""
    now = _tried(run, run.plan, source_of)
    tried = (_tried(run, other, source_of) for other in _others(run.plan, run.world_size))
    return tuple(each for each in tried if each.worst > now.worst + 0.02)


def _others(plan: Plan, world_size: int) -> Iterator[Plan]:
    shortest = block_samples(plan.samples, plan.bytes, lanes=plan.lanes, block_bytes=1)  # of so many samples
    shorter = max(shortest, plan.block // 4)
    more = nearest_lanes(4 * plan.lanes, world_size)
    if shorter < plan.block:
        yield replace(plan, block=shorter)
    if more <= plan.samples // 2:
        block = max(shortest, min(plan.block, plan.samples // (4 * more)))
        yield replace(plan, lanes=more, block=block)
        if min(shorter, block) < block:
            yield replace(plan, lanes=more, block=min(shorter, block))


def _tried(run: Run, plan: Plan, source_of: Callable[[Ints], Ints]) -> Proposal:
    batches = batches_of_plan(
        plan, plan.epoch(run.order.epoch), batch_size=run.batch_size, world_size=run.world_size, most=_TRIED_SAMPLES
    )
    found = mixing(batches, source_of, of="", samples=plan.samples, rounds=1)
    return Proposal(
        lanes=plan.lanes,
        block=plan.block,
        block_bytes=_bytes_for(plan),
        batch=found.batch.share,
        rank=found.rank.share,
        window=found.window.share,
    )


def _bytes_for(plan: Plan) -> int:
    """The least round number of bytes that gives blocks of this size."""
    for step in (1 << 16, 1 << 12, 1 << 8, 1):
        nbytes = -(-int(plan.block * plan.sample_bytes) // step) * step
        if block_samples(plan.samples, plan.bytes, lanes=plan.lanes, block_bytes=nbytes) == plan.block:
            break
    return nbytes

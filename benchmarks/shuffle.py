"""How well orders mix sorted data: ours, webdataset's shuffle buffers, and a perfect shuffle, in one table.

Only the order is looked at, so no shard is read: webdataset's own shard list, shard shuffle (100, as its documentation
has it) and sample shuffle run over lists of numbers in place of tars, shards split over ranks and workers as it does.
Samples count as 110 KB, of which our blocks hold two; the small pictures of small sets as 3 KB. A worker process of
webdataset makes batches of its own, from its share of the shards; "16 workers" has as many, the other rows one. Nothing
is timed.

The measures are those of `loaders.quality`. The goals are for ours: as many classes as the least of 32 perfect
shuffles, correlations of at most 0.05 (the ratio is in parts of it), else parts of perfect.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.material import Material
from benchmarks.table import OURS, Row
from benchmarks.timing import Watch
from loaders.plan import DEFAULT_BLOCK_BYTES, DEFAULT_LANES, Plan, block_samples
from loaders.quality import Batches, Figure, batches_of_plan, drift, mixing

__all__ = ["Case", "shuffle", "webdataset_batches"]

SAMPLE_BYTES, SMALL_BYTES = 110_000, 3_000
SHARD_SHUFFLE = 100
BUFFERS = (1000, 4096)
WORKERS = 16
PERFECT = "perfect shuffle"
CORRELATION = 0.05


@dataclass(frozen=True, kw_only=True)
class Case:
    """A dataset and how it is read.

    Attributes:
        samples, classes, shards: of the dataset.
        batch, world: samples of a rank's batch, and ranks.
        goals: by measure (see `Mixing` and `Drift`), in parts of perfect; of a correlation, in parts of 0.05.
        sample_bytes: of each sample in its shard.
        packed: whether samples lie in shuffled order in their shards, else sorted by class.
    """

    samples: int
    classes: int
    shards: int
    batch: int
    goals: Mapping[str, float]
    world: int = 1
    sample_bytes: int = SAMPLE_BYTES
    packed: bool = False

    def __str__(self) -> str:
        order = "in shuffled shards" if self.packed else "sorted"
        batch = f"{self.batch} x {self.world}" if self.world > 1 else f"{self.batch}"
        return f"{self.samples:,} of {self.classes:,} classes {order}, {batch}"

    def labels(self) -> npt.NDArray[np.int64]:
        """The class of each sample."""
        numbers = np.arange(self.samples)
        if self.packed:
            numbers = np.random.default_rng(0).permutation(self.samples)
        return numbers * self.classes // self.samples


ALL = {"batch": 1.0, "batch_worst": 1.0, "drift": 1.0, "neighbours": 1.0}
CASES = (
    Case(samples=10_000, classes=100, shards=100, batch=256, goals=ALL),
    Case(samples=100_000, classes=1000, shards=100, batch=256, goals=ALL),
    Case(samples=256_000, classes=1000, shards=256, batch=256, goals={"consecutive": 1.0, "window": 0.85}),
    Case(samples=256_000, classes=1000, shards=256, batch=64, world=8, goals={"rank": 0.95}),
    Case(samples=256_000, classes=1000, shards=256, batch=64, world=64, goals={"rank": 0.60}),
    Case(samples=256_000, classes=1000, shards=256, batch=64, world=64, goals={"rank": 0.95}, packed=True),
    *(
        Case(
            samples=samples,
            classes=classes,
            shards=shards,
            batch=batch,
            sample_bytes=SMALL_BYTES,
            goals={"batch": 0.97},
        )
        for samples, classes, shards in ((200, 10, 1), (2_000, 20, 2), (50_000, 100, 5))
        for batch in (32, 64)
    ),
)
MEASURES = {
    "batch": "classes in a batch",
    "batch_worst": "classes in the worst batch",
    "rank": "classes in one rank's batch",
    "window": "classes in ten batches",
    "consecutive": "correlation of one batch and the next",
    "drift": "correlation of place and source",
    "neighbours": "correlation of neighbours",
}


def shuffle(material: Material, watch: Watch) -> list[Row]:
    """All cases; the first alone where the figures mean nothing."""
    del material
    return [row for case in (CASES if watch.machine else CASES[:1]) for row in _rows(case)]


def _rows(case: Case) -> Iterator[Row]:
    contestants = {OURS: _ours(case)}
    for buffer in BUFFERS:
        contestants[f"webdataset shuffle({buffer})"] = webdataset_batches(case, buffer=buffer)
    if case.world == 1 and case.shards >= WORKERS:
        name = f"webdataset shuffle({BUFFERS[-1]}), {WORKERS} workers"
        contestants[name] = webdataset_batches(case, buffer=BUFFERS[-1], workers=WORKERS)
    found = {who: _measured(case, batches) for who, batches in contestants.items()}
    for measure, goal in case.goals.items():
        ours, work = found[OURS][measure], f"{MEASURES[measure]}: {case}"
        correlation = measure in ("consecutive", "drift", "neighbours")
        yield _row(work, OURS, ours, goal, correlation=correlation)
        yield Row(work=work, who=PERFECT, value=abs(ours.perfect), unit=_unit(correlation=correlation))
        for who, figures in found.items():
            if who != OURS:
                value = abs(figures[measure].value)
                ratio = None if correlation else ours.value / value
                yield Row(work=work, who=who, value=value, unit=_unit(correlation=correlation), ratio=ratio)


def _row(work: str, who: str, figure: Figure, goal: float, *, correlation: bool) -> Row:
    if correlation:
        value, ratio = abs(figure.value), abs(figure.value) / CORRELATION
    else:
        value, ratio = figure.value, figure.value / (figure.least if goal == 1 else figure.perfect)
    unit = _unit(correlation=correlation)
    return Row(work=work, who=who, value=value, unit=unit, ratio=ratio, goal=goal, at_most=correlation)


def _unit(*, correlation: bool) -> str:
    return "" if correlation else "classes"


def _measured(case: Case, batches: Batches) -> dict[str, Figure]:
    labels = case.labels()
    rounds = 32 if case.goals is ALL else 8
    found = mixing(batches, lambda samples: labels[samples], of="classes", samples=case.samples, rounds=rounds)
    places = drift(batches, samples=case.samples, rounds=rounds)
    return {**vars(found), **vars(places)}


def _ours(case: Case) -> Batches:
    counts = np.full(case.shards, case.samples // case.shards, dtype=np.int64)
    sizes = counts * case.sample_bytes
    block = block_samples(case.samples, int(sizes.sum()), lanes=DEFAULT_LANES, block_bytes=DEFAULT_BLOCK_BYTES)
    plan = Plan(counts=counts, sizes=sizes, block=block)
    return batches_of_plan(plan, plan.epoch(0), batch_size=case.batch, world_size=case.world, most=case.samples)


def webdataset_batches(case: Case, *, buffer: int, workers: int = 1) -> Batches:
    """The batches of webdataset's loader with this shuffle buffer: those of all ranks at a step as one.

    A rank has every world-th shard, one of its workers every workers-th of these; batches come from its workers in
    turn. What does not fill a batch is left out, and so is what other ranks have no batch beside.
    """
    ranks = [
        _in_turn(
            [
                _cut(
                    _webdataset_order(
                        case, range(rank + case.world * worker, case.shards, case.world * workers), buffer
                    ),
                    case,
                )
                for worker in range(workers)
            ]
        )
        for rank in range(case.world)
    ]
    steps = min(map(len, ranks))
    samples = np.array([[rank[step] for rank in ranks] for step in range(steps)], dtype=np.int64)
    return Batches(
        samples=samples.reshape(1, steps, -1), first=np.zeros(1, np.int64), of=steps, ranks=case.world, dealt=False
    )


def _webdataset_order(case: Case, shards: range, buffer: int) -> npt.NDArray[np.int64]:
    """Numbers of samples in the order of one of webdataset's pipelines."""
    from webdataset import filters
    from webdataset.pipeline import DataPipeline
    from webdataset.shardlists import SimpleShardList

    each = case.samples // case.shards

    def expand(urls: Iterator[dict[str, str]]) -> Iterator[int]:
        for url in urls:
            yield from range(int(url["url"]) * each, (int(url["url"]) + 1) * each)

    pipeline = DataPipeline(
        SimpleShardList([str(shard) for shard in shards]),
        filters.shuffle(SHARD_SHUFFLE, rng=random.Random(shards.start)),
        expand,
        filters.shuffle(buffer, rng=random.Random(shards.start)),
    )
    return np.array(list(pipeline), dtype=np.int64)


def _cut(row: npt.NDArray[np.int64], case: Case) -> list[npt.NDArray[np.int64]]:
    return [row[begin : begin + case.batch] for begin in range(0, len(row) - case.batch + 1, case.batch)]


def _in_turn(workers: list[list[npt.NDArray[np.int64]]]) -> list[npt.NDArray[np.int64]]:
    longest = max(map(len, workers))
    return [batches[step] for step in range(longest) for batches in workers if step < len(batches)]

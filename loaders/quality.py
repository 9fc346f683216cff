"""How well an order mixes: measured, and beside each figure what a perfect shuffle of the same samples gives.

An order is a row of samples cut into batches; each sample has a source, such as its class, its shard, or the run of the
dataset that it lies in. Measured are

- how many different sources are in a batch, in one rank's part of it, and in ten batches in a row: on average and in
  the worst one;
- whether a batch tells what the next one holds: the correlation of the counts by source of consecutive batches, as
  deviations from what is expected, over all pairs together. Short runs of a class that several batches share show here;
- whether the place in the epoch tells the place in the dataset (`drift`), and whether neighbours in a batch are
  neighbours in the dataset (`neighbours`): correlations of sample numbers.

A perfect shuffle is no deck of cards dealt evenly: a batch of 256 holds 92 of 100 classes. So the same is measured on
shuffles of the same samples (`ROUNDS` of them, drawn from a counter-based generator, so that a figure is the same each
time), and their mean, least and greatest stand beside ours.

Of a long epoch not all batches are looked at but stretches of `STRETCH` consecutive ones, spread evenly. Pure: numpy
only, no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loaders.line import Ints
from loaders.selection import AnyOrder, AnyPlan
from wds_tools.permutation import permutation

__all__ = [
    "ROUNDS",
    "SAMPLES_LOOKED_AT",
    "STRETCH",
    "WINDOW",
    "Batches",
    "Drift",
    "Figure",
    "Mixing",
    "batches_of",
    "batches_of_plan",
    "distinct",
    "drift",
    "mixing",
    "perfect",
]

WINDOW = 10  # batches in a row that are looked at together
STRETCH = 2 * WINDOW
ROUNDS = 8  # perfect shuffles; 250,000 samples cost a second
SAMPLES_LOOKED_AT = 1 << 19

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measure of an order, and what perfect shuffles of the same samples have.

    Attributes:
        value: of the order.
        perfect: the mean over the perfect shuffles.
        least, greatest: of any of them.
    """

    value: float
    perfect: float
    least: float
    greatest: float

    @property
    def spread(self) -> float:
        """The standard deviation of perfect shuffles, as their range tells it (Tippett 1925: 2 to 3 deviations)."""
        return (self.greatest - self.least) / 2.5

    @property
    def share(self) -> float:
        """The value in parts of perfect."""
        return self.value / self.perfect if self.perfect else 1.0


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """How the samples of different sources are mixed.

    Attributes:
        of: what the sources are, in the plural.
        kinds: how many there are.
        batch, batch_worst: different sources in a global batch, on average and in the worst.
        rank, rank_worst: in the part of it that one rank gets.
        window, window_worst: in ten batches in a row; of all there are, where there are fewer.
        consecutive: correlation of the counts by source of one batch and the next.
    """

    of: str
    kinds: int
    batch: Figure
    batch_worst: Figure
    rank: Figure
    rank_worst: Figure
    window: Figure
    window_worst: Figure
    consecutive: Figure


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Whether places tell sources.

    Attributes:
        drift: correlation of the place in the epoch and in the dataset.
        neighbours: correlation of the places in the dataset of consecutive places of the epoch.
    """

    drift: Figure
    neighbours: Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """The batches of an order that are looked at.

    Attributes:
        samples: numbers of samples, int64 (stretches, batches in each, samples of a global batch).
        first: number in the epoch of the first batch of each stretch, int64 (stretches,).
        of: batches that the epoch has.
        ranks: how many parts a batch has.
        dealt: whether rank r has every ranks-th sample from the r-th on; else the r-th run of samples.
    """

    samples: Ints
    first: Ints
    of: int
    ranks: int = 1
    dealt: bool = True

    @property
    def looked_at(self) -> int:
        """Batches looked at."""
        return int(self.samples.shape[0] * self.samples.shape[1])

    def positions(self) -> Ints:
        """The place in the epoch of each sample, in the same shape."""
        stretches, batches, size = self.samples.shape
        inside = np.arange(batches * size).reshape(1, batches, size)
        places: Ints = (self.first * size).reshape(stretches, 1, 1) + inside
        return places

    def parts(self, sources: Ints) -> Ints:
        """What the ranks get of sources in the same shape: (batches * ranks, samples of a rank's batch)."""
        size = sources.shape[-1] // self.ranks * self.ranks
        if self.dealt:
            cut = sources[..., :size].reshape(-1, size // self.ranks, self.ranks).swapaxes(1, 2)
        else:
            cut = sources[..., :size].reshape(-1, self.ranks, size // self.ranks)
        return cut.reshape(-1, size // self.ranks)


def batches_of(samples: Ints, size: int, *, ranks: int = 1) -> Batches:
    """All whole batches of a row of sample numbers, as any loader gave them out; at least one."""
    count = len(samples) // size
    return Batches(
        samples=samples[: count * size].reshape(1, count, size), first=np.zeros(1, np.int64), of=count, ranks=ranks
    )


def batches_of_plan(
    plan: AnyPlan, order: AnyOrder, *, batch_size: int, world_size: int, most: int = SAMPLES_LOOKED_AT
) -> Batches:
    """The whole global batches of an epoch: all where these are at most `most` samples, else stretches of them.

    The epoch must have one.
    """
    size = batch_size * world_size
    count = plan.samples // size
    if count * size <= most:
        first, length = np.zeros(1, np.int64), count
    else:
        length = min(STRETCH, count)
        stretches = max(1, min(most // (length * size), count // length))
        first = np.linspace(0, count - length, stretches).astype(np.int64)
    inside = np.arange(length * size)
    places = (first[:, None] * size + inside).reshape(-1)
    found = np.concatenate([order.samples(part) for part in np.array_split(places, max(1, len(places) >> 18))])
    return Batches(
        samples=found.reshape(len(first), length, size), first=first, of=count, ranks=world_size, dealt=plan.shuffle
    )


def perfect(batches: Batches, *, samples: int) -> Batches:
    """The same batches of a perfect shuffle of a dataset of so many samples."""
    row = next(_shuffles(_pool(samples, batches.samples.size), batches.samples.size, 1))
    return replace(batches, samples=row.reshape(batches.samples.shape))


def mixing(
    batches: Batches, source_of: Callable[[Ints], Ints], *, of: str, samples: int, rounds: int = ROUNDS
) -> Mixing:
    """How the batches mix sources, beside perfect shuffles of a dataset of so many samples.

    Args:
        batches: what is looked at.
        source_of: numbers of samples, int64 (n,), to their sources, int64 (n,) of 0, 1, 2 ...
        of: what the sources are, for the report.
        samples: of the whole dataset; its sample numbers are 0 to samples - 1.
        rounds: perfect shuffles.
    """
    shape = batches.samples.shape
    ours = source_of(batches.samples.reshape(-1)).astype(np.int64)
    pool = source_of(_pool(samples, ours.size)).astype(np.int64)
    kinds = int(max(ours.max(), pool.max())) + 1
    expected = np.bincount(pool, minlength=kinds) / pool.size * shape[-1]
    found = _measures(ours.reshape(shape), batches, expected)
    shuffles = np.array(
        [_measures(each.reshape(shape), batches, expected) for each in _shuffles(pool, ours.size, rounds)]
    )
    names = ("batch", "batch_worst", "rank", "rank_worst", "window", "window_worst", "consecutive")
    figures = dict(zip(names, _figures(found, shuffles), strict=True))
    return Mixing(of=of, kinds=int(np.count_nonzero(expected)), **figures)


def drift(batches: Batches, *, samples: int, rounds: int = ROUNDS) -> Drift:
    """Whether places in the epoch tell places in the dataset; see the module."""
    shape, places = batches.samples.shape, batches.positions().reshape(-1)

    def measures(numbers: Ints) -> list[float]:
        rows = numbers.reshape(shape[0], -1)
        return [_correlation(places, numbers), _correlation(rows[:, :-1].reshape(-1), rows[:, 1:].reshape(-1))]

    found = measures(batches.samples.reshape(-1))
    pool = _pool(samples, batches.samples.size)
    shuffles = np.array([measures(each) for each in _shuffles(pool, batches.samples.size, rounds)])
    first, second = _figures(found, shuffles)
    return Drift(drift=first, neighbours=second)


def _figures(found: list[float], shuffles: Floats) -> Iterator[Figure]:
    for value, column in zip(found, shuffles.T.tolist(), strict=True):
        yield Figure(value=value, perfect=sum(column) / len(column), least=min(column), greatest=max(column))


def _measures(sources: Ints, batches: Batches, expected: Floats) -> list[float]:
    length, size = sources.shape[1:]
    whole = distinct(sources.reshape(-1, size))
    ranks = distinct(batches.parts(sources))
    window = min(WINDOW, length)
    windows = distinct(sources[:, : length // window * window].reshape(-1, window * size))
    return [
        float(whole.mean()),
        float(whole.min()),
        float(ranks.mean()),
        float(ranks.min()),
        float(windows.mean()),
        float(windows.min()),
        _consecutive(sources, expected),
    ]


def distinct(rows: Ints) -> Ints:
    """How many different numbers each row has: (n, k) to (n,)."""
    if rows.shape[1] == 0:
        return np.zeros(len(rows), dtype=np.int64)
    ordered = np.sort(rows, axis=1)
    different: Ints = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    return different


def _consecutive(sources: Ints, expected: Floats) -> float:
    """The correlation of the deviations of each batch and the next, over all pairs of batches together."""
    together = before = after = 0.0
    for stretch in sources:
        last: Floats | None = None
        for batch in stretch:
            counts = np.bincount(batch, minlength=len(expected)) - expected
            if last is not None:
                together += _dot(last, counts)
                before += _dot(last, last)
                after += _dot(counts, counts)
            last = counts
    spread = float(np.sqrt(before * after))
    return together / spread if spread > 1e-9 else 0.0


def _dot(a: Floats, b: Floats) -> float:
    """Without BLAS, which wakes its threads for so few numbers: 3 ms in place of 0.02 ms on a busy machine."""
    return float(np.einsum("i,i->", a, b))


def _correlation(a: Ints, b: Ints) -> float:
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _pool(samples: int, count: int) -> Ints:
    """Samples that perfect shuffles are made of: all, or where these are far too many, some drawn at random."""
    if samples <= max(2 * count, SAMPLES_LOOKED_AT):
        return np.arange(samples)
    raw = np.random.Philox(key=np.array(_key(0), dtype=np.uint64)).random_raw(2 * count)
    return (raw % np.uint64(samples)).astype(np.int64)


def _shuffles(pool: Ints, count: int, rounds: int) -> Iterator[Ints]:
    for number in range(1, rounds + 1):
        yield pool[permutation(len(pool), _key(number)).astype(np.int64)][:count]


def _key(number: int) -> tuple[int, int]:
    """No key of an epoch's order, see `draws.key_of`: those have an epoch below 2**56 and a small purpose above it."""
    return number, (1 << 64) - 1

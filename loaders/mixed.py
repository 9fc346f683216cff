"""The order of a mix, as a pure function of (seed, epoch, position); see `mix` for what it is for.

A run is one line of positions: position p of epoch e is position P = e * E + p of the run, E being the samples of an
epoch. P is lane P mod L, place P div L, in every epoch of the run.

1. There are M slots, of which each part has its whole number; M divides L. T is a permutation of them by seed that
   spreads each part: the i-th of its m slots is one of the i-th m-th part of the M.
2. Every M lanes (g*M to g*M + M - 1) get the shifts 0 to M - 1, permuted by seed: s(l) is a lane's shift.
3. Place q of lane l is of the part T[(q + s(l)) mod M].
4. A part's own epochs laid end to end are its stream, of which lane l has every L-th sample from the l-th on, and takes
   the next one whenever it is the part's turn: after c turns, sample c * L + l of the stream, which is sample
   (c * L + l) mod N of the part's own epoch (c * L + l) div N. c is a count in closed form.
   A part of fewer than 64 * L samples is taken in turn through all lanes: after c turns in the run, sample c of its
   stream. Its blocks are read by several ranks then, but they are small, and its epochs end to the sample where they
   should: lanes are up to three turns apart, which of a part with three samples a lane would be most of an epoch.

So M consecutive places of a lane hold the proportions exactly, and M lanes side by side at the same place too, through
the whole run: T does not change at an epoch's start, since that would cut a round of M places in two, in every lane at
another slot, and what a part has given by then would be no count in closed form unless an epoch were a multiple of L*M
samples long. Within a part's own epoch the lanes are those of the part alone, dealt anew (rotated by its length) from
one own epoch to the next: every sample comes exactly once per own epoch.

The shifts are permuted because s(l) = l mod M, the plain way, gives a rank of W all its lanes of few residues: with two
parts, half and half, every batch of a rank would hold one part alone at W = 2 to 8. Standard deviation of a part's
share in a rank's batch of 32, simulated, the worst of W = 2, 4, 6, 8 and three seeds:

    parts              1:1    3:1    5:3    7:3    2:1    9:1
    plain shifts       0.50   0.42   0.46   0.10   0.47   0.10
    permuted shifts    0.12   0.08   0.09   0.08   0.10   0.05
    each sample drawn  0.09   0.08   0.09   0.08   0.08   0.05
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from loaders.draws import Purpose, check_seed, key_of, permutation, uniforms
from loaders.line import Ints
from loaders.order import Pieces, others_by_lane, single_pieces
from loaders.plan import Tail, check_enough, count_batches
from loaders.selection import AnyOrder, AnyPlan, PartProgress
from wds_tools import philox
from wds_tools.errors import UsageError

__all__ = ["FEW_PLACES", "MixedOrder", "MixedPlan", "part_seed"]

FEW_PLACES = 64  # in a lane of a part's own epoch: with fewer, what lanes are apart is too much of an epoch


def part_seed(seed: int, part: int) -> int:
    """The seed of a part's own order: that of the mix for the first, so that a mix of one is that dataset."""
    if part == 0:
        return seed
    place = np.array([part], dtype=np.uint64)
    return int(philox.words(key_of(seed, 2, Purpose.MIX), place, np.zeros_like(place), np.ones_like(place))[0, 0])


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedPlan:
    """What decides the order of a mix.

    Attributes:
        parts: the parts' own plans, all with these lanes.
        firsts: the number that each part's first sample has in the joined dataset.
        slots: how many of M each part has.
        names, weights: as the user wrote them, weights of 1 in all; only reported.
        samples: positions of an epoch.
        seed, lanes, block, tail: as for `plan.Plan`.
    """

    parts: tuple[AnyPlan, ...]
    firsts: tuple[int, ...]
    slots: tuple[int, ...]
    names: tuple[str, ...]
    weights: tuple[float, ...]
    samples: int
    seed: int
    lanes: int
    block: int
    tail: Tail

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.lanes % self.total:
            raise UsageError(f"{self.total} slots do not divide {self.lanes} lanes")

    @property
    def shuffle(self) -> Literal[True]:
        """A mix has no other order."""
        return True

    @property
    def total(self) -> int:
        """M."""
        return sum(self.slots)

    @property
    def shards(self) -> int:
        """Shards of all parts."""
        return sum(part.shards for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return sum(part.bytes for part in self.parts)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of a sample, the parts weighed by their slots."""
        return sum(part.sample_bytes * own for part, own in zip(self.parts, self.slots, strict=True)) / self.total

    @cached_property
    def fingerprint(self) -> str:
        """Over the parts' fingerprints, their slots, and the length of an epoch."""
        return _digest([*(part.fingerprint for part in self.parts), *map(str, self.slots), str(self.samples)])

    @cached_property
    def data(self) -> str:
        """Over the parts' shards alone, so that a list of bad samples outlives a change of weights."""
        return _digest([part.data for part in self.parts])

    def batches(self, global_batch: int, *, position: int = 0) -> int:
        """Global batches from `position` to the end of the epoch."""
        return count_batches(self.samples, global_batch, position=position, tail=self.tail)

    def check(self, global_batch: int) -> None:
        """Raise TooFewSamplesError where an epoch would have no batch, the same on every rank."""
        check_enough(self.samples, global_batch, tail=self.tail, what="an epoch of the mix")

    def epoch(self, epoch: int) -> MixedOrder:
        """The order of one epoch."""
        return MixedOrder(self, epoch)

    def progress(self, epoch: int, position: int) -> tuple[PartProgress, ...]:
        """How far a run at this place has come in each part."""
        line = epoch * self.samples + position
        lanes = np.arange(self.lanes, dtype=np.int64)
        places = line // self.lanes + (lanes < line % self.lanes)
        taken = [int(self._turns.count(part, places, lanes).sum()) for part in range(len(self.parts))]
        return tuple(
            PartProgress(name, weight, own / self.total, part.samples, count)
            for name, weight, own, part, count in zip(
                self.names, self.weights, self.slots, self.parts, taken, strict=True
            )
        )

    def _stream(self, parts: Ints, places: Ints, lanes: Ints, *, small: npt.NDArray[np.bool_]) -> Ints:
        """Where in its part's stream each place is."""
        stream = self._turns.count(parts, places, lanes) * self.lanes + lanes
        if small.any():
            stream[small] = self._turns.count_all(parts[small], places[small], lanes[small])
        return stream

    @cached_property
    def _turns(self) -> _Turns:
        return _Turns(self.slots, seed=self.seed, lanes=self.lanes)

    @cached_property
    def _orders(self) -> tuple[_Orders, ...]:
        return tuple(map(_Orders, self.parts))


class _Turns:
    """Whose turn it is at each place of each lane, and how often it was before."""

    def __init__(self, slots: tuple[int, ...], *, seed: int, lanes: int) -> None:
        self._total = sum(slots)
        self._lanes = lanes
        self._slots = np.array(slots, dtype=np.int64)
        self._table = _spread(slots, seed)
        is_of = self._table == np.arange(len(slots))[:, None]
        self._before = np.zeros((len(slots), self._total + 1), dtype=np.int64)  # slots of a part ahead of a slot
        np.cumsum(is_of, axis=1, out=self._before[:, 1:])
        ranks = permutation(lanes, key_of(seed, 1, Purpose.MIX)).reshape(-1, self._total)
        self._shift = np.argsort(ranks, axis=1).astype(np.int64).reshape(-1)

    def part(self, places: Ints, lanes: Ints) -> Ints:
        """The part of each (place, lane)."""
        found: Ints = self._table[(places + self._shift[lanes]) % self._total]
        return found

    def count(self, parts: Ints | int, places: Ints, lanes: Ints) -> Ints:
        """How often it was the part's turn in the lane before the place, int64 (n,)."""
        shift = self._shift[lanes]
        rounds, slot = np.divmod(places + shift, self._total)
        count: Ints = rounds * self._slots[parts] + self._before[parts, slot] - self._before[parts, shift]
        return count

    def count_all(self, parts: Ints, places: Ints, lanes: Ints) -> Ints:
        """How often it was the turn of the place's own part (`parts`) in any lane before it in the run, int64 (n,)."""
        groups = (places * self._lanes + lanes) // self._total
        count: Ints = groups * self._slots[parts] + self._beside[lanes, places % self._total]
        return count

    @cached_property
    def _beside(self) -> npt.NDArray[np.int32]:
        """For each lane and place (mod M): how many lanes of the same M before it have the same part there."""
        total = self._total
        table = self._table[(np.arange(total) + self._shift[:, None]) % total].reshape(-1, total, total)
        # Sorted by part, each M lanes have m of a part, so that a part begins at the same rank in all of them.
        ranks = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1)
        before: npt.NDArray[np.int32] = (ranks - (np.cumsum(self._slots) - self._slots)[table]).astype(np.int32)
        return before.reshape(-1, total)


def _spread(slots: tuple[int, ...], seed: int) -> npt.NDArray[np.int64]:
    """The part of each slot: a part's i-th of m slots is drawn from the i-th of m equal stretches of the M."""
    parts = np.repeat(np.arange(len(slots)), slots)
    nth = np.arange(len(parts)) - np.repeat(np.cumsum(slots) - slots, slots)
    draws = uniforms(key_of(seed, 0, Purpose.MIX), np.arange(len(parts)), 1)[:, 0]
    return parts[np.argsort((nth + draws) / np.array(slots)[parts], kind="stable")]


class _Orders:
    """The own epochs of a part that are under way; of small parts many are at a time."""

    def __init__(self, plan: AnyPlan) -> None:
        self._plan = plan
        self._keep = max(3, min(256, (1 << 20) // plan.samples))
        self._lock = threading.Lock()
        self._orders: OrderedDict[int, AnyOrder] = OrderedDict()

    def get(self, epoch: int) -> AnyOrder:
        with self._lock:
            order = self._orders.pop(epoch, None) or self._plan.epoch(epoch)
            self._orders[epoch] = order
            if len(self._orders) > self._keep:
                self._orders.popitem(last=False)
        return order

    def __reduce__(self) -> tuple[type[_Orders], tuple[AnyPlan]]:
        return _Orders, (self._plan,)


class MixedOrder:
    """One epoch of a mix: positions to samples of the joined dataset. Safe for many threads."""

    def __init__(self, plan: MixedPlan, epoch: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self._base = epoch * plan.samples
        if not 0 <= self._base < 1 << 61:
            raise UsageError(f"epoch {epoch} of {plan.samples} samples is beyond what can be counted")

    def samples(self, positions: Ints) -> Ints:
        """The sample at each position: int64 (n,) of [0, E) to int64 (n,) of the joined dataset."""
        found = np.empty_like(positions)
        for chosen, part, order, places in self._by_order(positions):
            found[chosen] = self.plan.firsts[part] + order.samples(places)
        return found

    def runs(self, positions: Ints) -> tuple[Ints, Ints]:
        """What is read from here on, as (first sample, samples); see `plan.Order.runs`."""
        firsts, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for _, part, order, places in self._by_order(positions):
            begin, length = order.runs(places)
            firsts.append(self.plan.firsts[part] + begin)
            lengths.append(length)
        return np.concatenate(firsts), np.concatenate(lengths)

    def pieces(self, positions: Ints) -> Pieces:
        """What is fetched in one go; see `plan.Order.pieces`.

        The lanes of a large part are whole lanes of the mix. A small part is taken in turn through all lanes, and so by
        all ranks: each of its samples is fetched by itself.
        """
        found = Pieces(*(np.empty_like(positions) for _ in Pieces._fields))
        for chosen, part, order, places in self._by_order(positions):
            small = self.plan.parts[part].samples < FEW_PLACES * self.plan.lanes
            pieces = single_pieces(order.samples(places)) if small else order.pieces(places)
            for column, of_part in zip(found, pieces, strict=True):
                column[chosen] = of_part
            found.first[chosen] += self.plan.firsts[part]
        return found

    def parts(self, positions: Ints) -> Ints:
        """The part of each position."""
        places, lanes = np.divmod(self._base + positions, self.plan.lanes)
        return self.plan._turns.part(places, lanes)  # noqa: SLF001 - the plan's other half

    def replacements(self, position: int) -> Iterator[int]:
        """Where to look when the sample at `position` is bad: as in `plan.Order`, those of the same part first.

        So the proportions stay exact for as long as the part has good samples in this epoch of the mix.
        """
        own = self._part(position)
        for same in (True, False):
            others = others_by_lane(position, samples=self.plan.samples, lanes=self.plan.lanes)
            for _ in range(self.plan.samples - 1):
                other = next(others)
                if (self._part(other) == own) is same:
                    yield other

    def _part(self, position: int) -> int:
        return int(self.parts(np.array([position], dtype=np.int64))[0])

    def _by_order(self, positions: Ints) -> Iterator[tuple[npt.NDArray[np.intp], int, AnyOrder, Ints]]:
        """The positions by part and own epoch: which of them, the part, that epoch's order, and where in it."""
        plan = self.plan
        places, lanes = np.divmod(self._base + positions, plan.lanes)
        parts = plan._turns.part(places, lanes)  # noqa: SLF001 - the plan's other half
        sizes = np.array([part.samples for part in plan.parts], dtype=np.int64)[parts]
        stream = plan._stream(parts, places, lanes, small=sizes < FEW_PLACES * plan.lanes)  # noqa: SLF001
        epochs, at = np.divmod(stream, sizes)
        by_epoch = np.lexsort((epochs, parts))
        changes = (np.diff(parts[by_epoch]) != 0) | (np.diff(epochs[by_epoch]) != 0)
        for chosen in np.split(by_epoch, np.flatnonzero(changes) + 1):
            if len(chosen):
                chosen.sort()
                part = int(parts[chosen[0]])
                yield chosen, part, plan._orders[part].get(int(epochs[chosen[0]])), at[chosen]  # noqa: SLF001


def _digest(texts: list[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()

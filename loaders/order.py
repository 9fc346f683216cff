"""One epoch: which sample stands at which position. `plan` says how the order is made; here it is looked up.

Nothing is computed for samples that are not asked for but the permutation of the blocks, so that resuming in the
middle of an epoch costs what its start costs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loaders.draws import Purpose, key_of, permutation
from loaders.line import Blocks, Ints, Line
from wds_tools import philox

__all__ = ["Order", "Pieces", "lane_length", "others_by_lane", "single_pieces"]


class Laid(Protocol):
    """What an order has to know of its plan."""

    @property
    def counts(self) -> Ints: ...
    @property
    def samples(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def shuffle(self) -> bool: ...


class Pieces(NamedTuple):
    """For each of some positions the piece that it lies in: what is worth fetching in one go for it.

    Attributes:
        first: int64 (n,), the first sample of the piece; the others follow it in one shard.
        length: int64 (n,), samples of the piece.
        left: int64 (n,), places of the lane from this position to the end of the piece, this one included.
    """

    first: Ints
    length: Ints
    left: Ints


def single_pieces(samples: Ints) -> Pieces:
    """Each sample as a piece of its own."""
    ones = np.ones_like(samples)
    return Pieces(samples, ones, ones)


@dataclass(eq=False)
class _Pieces:
    """For each lane the piece that was asked for last, already permuted, so that a piece is sorted once."""

    begin: Ints
    samples: npt.NDArray[np.int64] = field(repr=False)


class Order:
    """One epoch of a plan: positions to samples. Safe for many threads."""

    def __init__(self, plan: Laid, epoch: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self._lock = threading.Lock()  # each lane's latest piece is remembered
        if plan.shuffle:
            self._lay_line()

    def _lay_line(self) -> None:
        plan, n = self.plan, self.plan.samples
        self._blocks = Blocks(plan.counts, plan.block)
        self._line = permutation(self._blocks.count, key_of(plan.seed, self.epoch, Purpose.BLOCKS))
        self._ends = Line(self._blocks, self._line)
        lanes = np.arange(plan.lanes, dtype=np.int64)
        short, longer = divmod(n, plan.lanes)
        self._cuts = lanes * short + np.minimum(lanes, longer)
        deal = key_of(plan.seed, self.epoch, Purpose.DEAL)
        shorter = permutation(plan.lanes - longer, (deal[0], deal[1] | 1 << 63))
        self._deal = np.concatenate((permutation(longer, deal).astype(np.int64), longer + shorter.astype(np.int64)))
        self._pieces = _Pieces(np.full(plan.lanes, -1), np.empty((0, 0), dtype=np.int64))

    def lane_length(self, lane: int) -> int:
        """Samples of a lane."""
        return lane_length(lane, samples=self.plan.samples, lanes=self.plan.lanes if self.plan.shuffle else 1)

    def samples(self, positions: Ints) -> Ints:
        """The sample at each position: int64 (n,) of [0, N) to int64 (n,) of [0, N)."""
        if not self.plan.shuffle:
            return positions
        lanes, cuts, at = self._find(positions)
        if self.plan.block == 1:
            return self._line[at].astype(np.int64)
        blocks, begin = self._piece(cuts, at)
        with self._lock:
            return self._inside(lanes, cuts, blocks, begin, at)

    def runs(self, positions: Ints) -> tuple[Ints, Ints]:
        """What is read from here on: the pieces that begin at one of these positions, as (first sample, samples).

        A piece is one contiguous range of one shard. Without shuffling, the runs that the positions themselves form.
        """
        if not self.plan.shuffle:
            breaks = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
            return positions[breaks], np.diff(np.append(breaks, len(positions)))
        _, cuts, at = self._find(positions)
        if self.plan.block == 1:
            return self._line[at].astype(np.int64), np.ones_like(at)
        blocks, begin = self._piece(cuts, at)
        opening = at == begin
        cuts, blocks, begin = cuts[opening], blocks[opening], begin[opening]
        return self._first_sample(blocks, begin), self._piece_end(cuts, blocks) - begin

    def pieces(self, positions: Ints) -> Pieces:
        """The piece that each position lies in. Without shuffling each sample is one: neighbours come together."""
        if not self.plan.shuffle:
            return single_pieces(positions)
        _, cuts, at = self._find(positions)
        if self.plan.block == 1:
            return single_pieces(self._line[at].astype(np.int64))
        blocks, begin = self._piece(cuts, at)
        end = self._piece_end(cuts, blocks)
        return Pieces(self._first_sample(blocks, begin), end - begin, end - at)

    def _find(self, positions: Ints) -> tuple[Ints, Ints, Ints]:
        """Lane, cut and place in the line of each position."""
        places, lanes = np.divmod(positions, self.plan.lanes)
        cuts = self._deal[lanes]
        return lanes, cuts, self._cuts[cuts] + places

    def _piece(self, cuts: Ints, at: Ints) -> tuple[Ints, Ints]:
        """The block (its number in the line) of each place, and where in the line the piece of it begins."""
        blocks = self._ends.blocks(at)
        return blocks, np.maximum(self._ends.begins(blocks), self._cuts[cuts])

    def _piece_end(self, cuts: Ints, blocks: Ints) -> Ints:
        short, longer = divmod(self.plan.samples, self.plan.lanes)
        return np.minimum(self._ends.begins(blocks + 1), self._cuts[cuts] + short + (cuts < longer))

    def _first_sample(self, blocks: Ints, begin: Ints) -> Ints:
        return self._blocks.sample_of(self._line[blocks].astype(np.int64)) + begin - self._ends.begins(blocks)

    def _inside(self, lanes: Ints, cuts: Ints, blocks: Ints, begin: Ints, at: Ints) -> Ints:
        result = np.empty_like(at)
        known = self._pieces.begin[lanes] == begin
        if known.any():
            result[known] = self._pieces.samples[lanes[known], (at - begin)[known]]
        new = np.flatnonzero(~known)
        if len(new):
            result[new] = self._permuted(lanes[new], cuts[new], blocks[new], begin[new], at[new])
        return result

    def _permuted(self, lanes: Ints, cuts: Ints, blocks: Ints, begin: Ints, at: Ints) -> Ints:
        """Sort the pieces that these positions fall in, remember each lane's last, and look the positions up."""
        _, first, which = np.unique(begin, return_index=True, return_inverse=True)  # a piece begins where no other does
        lanes, cuts, blocks, begin = lanes[first], cuts[first], blocks[first], begin[first]
        lengths = self._piece_end(cuts, blocks) - begin
        starts = np.cumsum(lengths) - lengths
        key = key_of(self.plan.seed, self.epoch, Purpose.INSIDE)
        order = _shuffled(key, self._line[blocks].astype(np.int64), lanes, lengths)
        flat = np.repeat(self._first_sample(blocks, begin), lengths) + order
        self._remember(lanes, begin, starts, lengths, flat)
        found: Ints = flat[starts[which] + at - begin[which]]
        return found

    def _remember(self, lanes: Ints, begin: Ints, starts: Ints, lengths: Ints, flat: Ints) -> None:
        pieces = self._pieces
        if not pieces.samples.size:
            pieces.samples = np.empty((self.plan.lanes, self.plan.block), dtype=np.int64)
        last = np.full(self.plan.lanes, -1)
        np.maximum.at(last, lanes, np.arange(len(lanes)))  # begin is sorted, so a lane's last piece has the last index
        kept = last[last >= 0]
        pieces.begin[lanes[kept]] = begin[kept]
        rows, columns = np.repeat(lanes[kept], lengths[kept]), _counting(lengths[kept])
        pieces.samples[rows, columns] = flat[np.repeat(starts[kept], lengths[kept]) + columns]

    def replacements(self, position: int) -> Iterator[int]:
        """Where to look, one after the other, when the sample at `position` is bad: positions, without end.

        The next places of the same lane, cyclically, then those of the following lanes: a function of the data alone,
        so that every world size agrees.
        """
        return others_by_lane(position, samples=self.plan.samples, lanes=self.plan.lanes if self.plan.shuffle else 1)


def others_by_lane(position: int, *, samples: int, lanes: int) -> Iterator[int]:
    """Positions of an epoch of so many samples from one on, without end; see `Order.replacements`."""
    place, lane = divmod(position, lanes)
    own = lane_length(lane, samples=samples, lanes=lanes)
    for step in range(1, own):
        yield (place + step) % own * lanes + lane
    while True:
        lane = (lane + 1) % lanes
        for other in range(lane_length(lane, samples=samples, lanes=lanes)):
            yield other * lanes + lane


def lane_length(lane: int, *, samples: int, lanes: int) -> int:
    """Samples of a lane: the first are one longer where the lanes do not divide the samples."""
    return samples // lanes + (lane < samples % lanes)


def _counting(lengths: Ints) -> Ints:
    """0 to length - 1 for each length, end to end."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _shuffled(key: tuple[int, int], blocks: Ints, lanes: Ints, lengths: Ints) -> Ints:
    """A permutation of 0 to length - 1 for each (block, lane), end to end: the ranks of raw draws."""
    groups = -(-lengths // 4)  # philox gives four words at a time
    words = philox.words(
        key,
        np.repeat(blocks, groups).astype(np.uint64),
        np.repeat(lanes, groups).astype(np.uint64),
        _counting(groups).astype(np.uint64) + np.uint64(1),
    ).T.reshape(-1)
    inside = _counting(lengths)
    draws = words[np.repeat((np.cumsum(groups) - groups) * 4, lengths) + inside]
    piece = np.repeat(np.arange(len(lengths)), lengths)
    return inside[np.lexsort((draws, piece))]  # stable, so even equal draws have one order

"""The order of an epoch, as a pure function of (seed, epoch, position). No file, no clock, no thread; numpy only.

1. Each shard is cut into blocks of B consecutive samples.
2. The blocks are permuted by (seed, epoch) and laid end to end: the line of N samples.
3. The line is cut into L lanes of N div L samples, the first N mod L of them one longer; the cuts are dealt to lane
   numbers by a permutation that keeps the longer ones first, so that neighbouring lanes are no neighbours in the line.
4. The samples of a block that fall in one lane, its piece, are permuted by (seed, epoch, block, lane).
5. Position p of the epoch is lane p mod L, place p div L.

So L blocks are open at any time, a lane reads its blocks one after the other, and G consecutive positions are made of
G different places of the dataset. Which rank, worker or thread makes a position is nobody's business here: `share`
deals positions to ranks, and a rank's batch is a slice of them.

Without shuffling there is one lane in dataset order, and a position is a sample.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from loaders.draws import Purpose, check_seed, key_of, permutation, philox
from wds_tools.errors import TooFewSamplesError, UsageError

__all__ = [
    "DEFAULT_BLOCK_BYTES",
    "DEFAULT_LANES",
    "TAILS",
    "Ints",
    "Order",
    "Plan",
    "Tail",
    "block_samples",
    "check_enough",
    "count_batches",
    "lane_length",
    "others_by_lane",
    "share",
]

Ints = npt.NDArray[np.int64]
Tail = Literal["drop", "pad", "exact"]

TAILS: tuple[Tail, ...] = ("drop", "pad", "exact")
DEFAULT_LANES = 960  # divisible by every usual world size up to 120, see DESIGN in docs: 240 MiB of open blocks in all
DEFAULT_BLOCK_BYTES = 256 * 1024
MAX_BLOCKS = 10_000_000  # 0.3 s and 80 MB to permute


def block_samples(samples: int, nbytes: int, *, lanes: int, block_bytes: int) -> int:
    """Samples per block: block_bytes worth, yet at least four blocks a lane, and at most ten million blocks in all."""
    if samples == 0:
        return 1
    wanted = int(block_bytes * samples // max(nbytes, 1))
    return max(1, min(wanted, samples // (4 * lanes)), -(-samples // MAX_BLOCKS))


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What decides the order: the dataset's counts, and the options. Frozen; an epoch of it is an `Order`.

    Attributes:
        counts: samples of each shard, int64 (S,).
        sizes: bytes of each shard, int64 (S,); only compared and summed.
        seed: 0 to 2**64 - 1.
        lanes: sequential runs that are open at a time.
        block: samples per block.
        shuffle: False gives dataset order.
        tail: what happens to the samples behind the last full global batch.
    """

    counts: Ints
    sizes: Ints
    seed: int = 0
    lanes: int = DEFAULT_LANES
    block: int = 1
    shuffle: bool = True
    tail: Tail = "drop"

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.tail not in TAILS:
            raise UsageError(f"tail is {self.tail!r}, expected one of {', '.join(TAILS)}")
        for name, value in (("lanes", self.lanes), ("samples per block", self.block)):
            if value < 1:
                raise UsageError(f"{name} is {value}, expected at least 1")

    @cached_property
    def samples(self) -> int:
        """Samples in all."""
        return int(self.counts.sum())

    @cached_property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return int(self.sizes.sum())

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits over each shard's (samples, bytes) in order: the same for a copy of the dataset elsewhere."""
        pairs = np.stack((self.counts, self.sizes)).astype("<i8")
        return hashlib.blake2b(pairs.tobytes(), digest_size=8).hexdigest()

    @property
    def data(self) -> str:
        """The same as the fingerprint: here nothing but the shards makes the order."""
        return self.fingerprint

    @property
    def shards(self) -> int:
        """Shards in all."""
        return len(self.counts)

    @property
    def sample_bytes(self) -> float:
        """Mean bytes of a sample."""
        return self.bytes / max(1, self.samples)

    def batches(self, global_batch: int, *, position: int = 0) -> int:
        """Global batches from `position` to the end of the epoch."""
        return count_batches(self.samples, global_batch, position=position, tail=self.tail)

    def check(self, global_batch: int) -> None:
        """Raise TooFewSamplesError where an epoch would have no batch, the same on every rank."""
        check_enough(self.samples, global_batch, tail=self.tail)

    def progress(self, epoch: int, position: int) -> tuple[()]:
        """Nothing: the dataset is one."""
        del epoch, position
        return ()

    def epoch(self, epoch: int) -> Order:
        """The order of one epoch. With ten million blocks 0.7 s and 40 MB that stay, else less."""
        return Order(self, epoch)


def count_batches(samples: int, global_batch: int, *, position: int, tail: Tail) -> int:
    """Global batches from `position` to the end of an epoch of so many samples."""
    left = max(0, samples - position)
    return left // global_batch if tail == "drop" else -(-left // global_batch)


def check_enough(samples: int, global_batch: int, *, tail: Tail, what: str = "the dataset") -> None:
    """Raise TooFewSamplesError where an epoch of so many samples has no batch, the same on every rank."""
    if count_batches(samples, global_batch, position=0, tail=tail) == 0:
        raise TooFewSamplesError(
            f"{what} has {samples} samples, less than one global batch of {global_batch}",
            cure='Lower batch_size, or pass tail="pad" (repeats, marked) or tail="exact" (short batches).'
            if samples
            else "Add shards that hold samples.",
        )


class _Blocks:
    """The blocks of all shards, numbered shard by shard."""

    def __init__(self, counts: Ints, size: int) -> None:
        self.size = size
        self.starts = np.concatenate(([0], np.cumsum(counts)))  # first sample of each shard
        self.firsts = np.concatenate(([0], np.cumsum(-(-counts // size))))  # first block of each shard
        self.count = int(self.firsts[-1])

    def sample_of(self, blocks: Ints) -> Ints:
        """The first sample of each of these blocks."""
        if self.size == 1:
            return blocks
        shards = np.searchsorted(self.firsts, blocks, side="right") - 1
        return self.starts[shards] + (blocks - self.firsts[shards]) * self.size

    def short(self) -> tuple[Ints, Ints]:
        """The blocks that have less than `size` samples, some shards' last, and how many they lack."""
        counts = np.diff(self.starts)
        lacking = -counts % self.size
        short = lacking > 0
        return self.firsts[1:][short] - 1, lacking[short]


class _Line:
    """Where in the line each block ends: i blocks hold i * size samples, but for what the short ones lack.

    There are at most as many short blocks as shards, so that no array is as long as the line: 20 million samples in ten
    million blocks are laid out in 0.1 s where a running sum over all blocks took 0.4 s, and 40 MB.
    """

    def __init__(self, blocks: _Blocks, line: npt.NDArray[np.int64] | npt.NDArray[np.uint32]) -> None:
        self._size = blocks.size
        short, lacking = blocks.short()
        lack = np.zeros(blocks.count if len(short) else 0, dtype=bool)
        lack[short] = True
        self._at = np.flatnonzero(lack[line]) if len(short) else np.zeros(0, dtype=np.int64)
        lacks = lacking[np.searchsorted(short, line[self._at])]
        self._lacked = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lacks)))  # before each stretch
        # A stretch is what lies from behind one short block up to and with the next.
        self._begins = np.concatenate((np.zeros(1, dtype=np.int64), self._at + 1))
        self._starts = self._begins * self._size - self._lacked

    def begins(self, blocks: Ints) -> Ints:
        """Samples before the block with this number in the line; before number i + 1, those up to the end of i."""
        begins: Ints = blocks * self._size - self._lacked[np.searchsorted(self._at, blocks, side="left")]
        return begins

    def blocks(self, at: Ints) -> Ints:
        """The number in the line of the block that each place lies in."""
        stretch = np.searchsorted(self._starts, at, side="right") - 1
        found: Ints = self._begins[stretch] + (at - self._starts[stretch]) // self._size
        return found


@dataclass(eq=False)
class _Pieces:
    """For each lane the piece that was asked for last, already permuted, so that a piece is sorted once."""

    begin: Ints
    samples: npt.NDArray[np.int64] = field(repr=False)


class Order:
    """One epoch of a plan: positions to samples. Safe for many threads."""

    def __init__(self, plan: Plan, epoch: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self._lock = threading.Lock()  # each lane's latest piece is remembered
        if plan.shuffle:
            self._lay_line()

    def _lay_line(self) -> None:
        plan, n = self.plan, self.plan.samples
        self._blocks = _Blocks(plan.counts, plan.block)
        self._line = permutation(self._blocks.count, key_of(plan.seed, self.epoch, Purpose.BLOCKS))
        self._ends = _Line(self._blocks, self._line)
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
    words = philox(
        key,
        np.repeat(blocks, groups).astype(np.uint64),
        np.repeat(lanes, groups).astype(np.uint64),
        _counting(groups).astype(np.uint64) + np.uint64(1),
    ).T.reshape(-1)
    inside = _counting(lengths)
    draws = words[np.repeat((np.cumsum(groups) - groups) * 4, lengths) + inside]
    piece = np.repeat(np.arange(len(lengths)), lengths)
    return inside[np.lexsort((draws, piece))]  # stable, so even equal draws have one order


def share(
    position: int, *, samples: int, rank: int, world_size: int, batch_size: int, shuffle: bool, tail: Tail
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Which positions of the global batch that begins at `position` belong to a rank.

    Returns:
        positions: int64 (n,) of [0, samples), in the order of the rank's batch; n is batch_size but for the last batch
            under tail="exact".
        valid: bool (n,), False where tail="pad" repeats a sample.
    """
    size = batch_size * world_size
    if tail == "exact":
        size = min(size, samples - position)
    if shuffle:
        mine = np.arange(position + (rank - position) % world_size, position + size, world_size, dtype=np.int64)
    else:
        each, more = divmod(size, world_size)
        begin = position + rank * each + min(rank, more)
        mine = np.arange(begin, begin + each + (rank < more), dtype=np.int64)
    return mine % samples, mine < samples

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
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from loaders.draws import check_seed
from loaders.line import Ints
from loaders.order import Order
from wds_tools.errors import TooFewSamplesError, UsageError

__all__ = [
    "DEFAULT_BLOCK_BYTES",
    "DEFAULT_LANES",
    "REMOTE_BLOCK_BYTES",
    "REMOTE_LANES",
    "TAILS",
    "Plan",
    "Tail",
    "block_samples",
    "check_enough",
    "count_batches",
    "share",
]

Tail = Literal["drop", "pad", "exact"]

TAILS: tuple[Tail, ...] = ("drop", "pad", "exact")
DEFAULT_LANES = 960  # divisible by every usual world size up to 120; 240 MiB of open blocks in all
DEFAULT_BLOCK_BYTES = 256 * 1024
REMOTE_LANES = 240  # for remote shards in shuffled order: 1 to 6, 8, 10, 12, 16, 20, 24, 30, 40, 48 ranks divide it
REMOTE_BLOCK_BYTES = 4 << 20
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

"""What an epoch will be, before it is run: batches, tail, what each rank reads, memory. For `wds plan`.

All of it follows from the plan; nothing is read but where the samples lie. Up to `COUNTED` samples an epoch, what each
rank reads is counted sample by sample; beyond that it is taken from the batches that `quality` looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from loaders.lanes import nearest_lanes, ranks_per_block
from loaders.line import Ints
from loaders.order import Order
from loaders.plan import Plan, share
from loaders.quality import Batches
from loaders.reading import Reading
from wds_tools import addresses
from wds_tools.dataset import Dataset

__all__ = ["COUNTED", "Forecast", "Memory", "RankReads", "Run", "forecast"]

COUNTED = 1_500_000  # samples; ImageNet-1k's training set takes three seconds
_STEP = 1 << 18


@dataclass(frozen=True, kw_only=True)
class RankReads:
    """What the ranks read in the epoch.

    Attributes:
        least_bytes, most_bytes: of the encoded samples, by rank.
        least_shards, most_shards: different shards, by rank; where not all was counted, at least so many.
        counted: whether every sample was counted; else bytes are scaled up from some batches.
    """

    least_bytes: int
    most_bytes: int
    least_shards: int
    most_shards: int
    counted: bool


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What one rank's loader holds, in bytes.

    Attributes:
        slabs: batches being made, waiting and handed out, with pictures of the stated size.
        order: the epoch's order.
        offsets: where each sample lies: a mapped file, shared by all processes of a machine.
        read_ahead: encoded bytes of the open blocks, for local shards in the page cache.
    """

    slabs: int
    order: int
    offsets: int
    read_ahead: int


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One epoch.

    Attributes:
        samples, shards, bytes: of the dataset.
        batches: of each rank.
        global_batch: samples of all ranks' batches together.
        dropped: samples at the end of the epoch that no rank gets.
        repeated: samples that come twice, to fill the last batch.
        last_batch: samples of the last batch of all ranks together.
        block: samples of a block.
        blocks: of the epoch.
        ranks_per_block: how many ranks read from each block.
        nearest_lanes: the number of lanes with which it is one.
        requests: ranged reads of all ranks in the epoch, for shards that are not local; else None.
        reads: what the ranks read.
        memory: of one rank.
    """

    samples: int
    shards: int
    bytes: int
    batches: int
    global_batch: int
    dropped: int
    repeated: int
    last_batch: int
    block: int
    blocks: int
    ranks_per_block: int
    nearest_lanes: int
    requests: int | None
    reads: RankReads
    memory: Memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """An epoch of a job.

    Attributes:
        dataset: what the plan was made for.
        plan: the options.
        order: the epoch.
        batch_size: samples of a rank's batch.
        world_size: ranks.
    """

    dataset: Dataset
    plan: Plan
    order: Order
    batch_size: int
    world_size: int

    @property
    def global_batch(self) -> int:
        """Samples of all ranks' batches together."""
        return self.batch_size * self.world_size

    def handed_out(self) -> Iterator[tuple[Ints, Ints]]:
        """Every sample of the epoch that is handed out, and to which rank; in steps."""
        plan, size = self.plan, self.global_batch
        whole = plan.samples // size * size
        for begin in range(0, whole, _STEP):
            places = np.arange(begin, min(begin + _STEP, whole), dtype=np.int64)
            ranks = places % self.world_size if plan.shuffle else places % size // self.batch_size
            yield self.order.samples(places), ranks
        if plan.batches(size) * size > whole:
            for rank in range(self.world_size):
                mine, _ = share(
                    whole,
                    samples=plan.samples,
                    rank=rank,
                    world_size=self.world_size,
                    batch_size=self.batch_size,
                    shuffle=plan.shuffle,
                    tail=plan.tail,
                )
                yield self.order.samples(mine), np.full(len(mine), rank)


def forecast(
    run: Run,
    *,
    side: int = 224,
    looked_at: Batches | None = None,
    read: Reading = Reading(),  # noqa: B008 - frozen
) -> Forecast:
    """What the epoch will be.

    Args:
        run: the epoch.
        side: pixels of the sides of the pictures in a batch, for the memory.
        looked_at: some of the epoch's batches, used where it has more than `COUNTED` samples.
        read: how far ahead is read.

    Raises:
        TooFewSamplesError: the epoch has no batch.
    """
    plan, size, urls = run.plan, run.global_batch, run.dataset.urls
    plan.check(size)
    batches = plan.batches(size)
    left = plan.samples - (batches - 1) * size  # for the last batch, and behind it
    blocks = int((-(-plan.counts // plan.block)).sum())
    ranks = ranks_per_block(lanes=plan.lanes, block=plan.block, world_size=run.world_size) if plan.shuffle else 1
    remote = any(addresses.scheme(url) not in (None, "file") for url in (urls[0], urls[-1]))
    return Forecast(
        samples=plan.samples,
        shards=plan.shards,
        bytes=plan.bytes,
        batches=batches,
        global_batch=size,
        dropped=left - size if plan.tail == "drop" else 0,
        repeated=max(0, size - left) if plan.tail == "pad" else 0,
        last_batch=min(size, left) if plan.tail == "exact" else size,
        block=plan.block,
        blocks=blocks,
        ranks_per_block=ranks,
        nearest_lanes=nearest_lanes(plan.lanes, run.world_size),
        requests=(blocks + plan.lanes - 1) * ranks if remote and plan.shuffle else None,
        reads=_reads(run, looked_at),
        memory=_memory(run, blocks, side, read),
    )


def _memory(run: Run, blocks: int, side: int, read: Reading) -> Memory:
    plan = run.plan
    lanes = -(-plan.lanes // run.world_size) if plan.shuffle else 1
    ahead = int(1.5 * min(lanes * plan.block, plan.samples) * plan.sample_bytes)
    line = blocks * (4 if blocks <= 1 << 32 else 8) + (8 * plan.lanes * plan.block if plan.block > 1 else 0)
    return Memory(
        slabs=(read.prefetch + 2) * run.batch_size * side * side * 3,
        order=line if plan.shuffle else 0,
        offsets=8 * (plan.samples + plan.shards),
        read_ahead=read.prefetch_bytes or ahead,
    )


def _reads(run: Run, looked_at: Batches | None) -> RankReads:
    world_size = run.world_size
    counted, scale, parts = True, 1.0, run.handed_out()
    if looked_at is not None and run.plan.samples > COUNTED:
        counted, scale, parts = False, looked_at.of / looked_at.looked_at, _looked_at(looked_at)
    nbytes = np.zeros(world_size)
    seen = np.zeros((world_size, run.plan.shards), dtype=bool)
    for samples, ranks in parts:
        shards, begins, ends = run.dataset.locate(samples)
        nbytes += np.bincount(ranks, weights=ends - begins, minlength=world_size)
        seen[ranks, shards] = True
    shard_counts = seen.sum(axis=1)
    return RankReads(
        least_bytes=int(nbytes.min() * scale),
        most_bytes=int(nbytes.max() * scale),
        least_shards=int(shard_counts.min()),
        most_shards=int(shard_counts.max()),
        counted=counted,
    )


def _looked_at(batches: Batches) -> Iterator[tuple[Ints, Ints]]:
    parts = batches.parts(batches.samples)
    ranks = np.arange(len(parts)) % batches.ranks
    yield parts.reshape(-1), np.repeat(ranks, parts.shape[1])

"""A loader at work: the plan, the threads, the open shards. Made on first use, so that constructors only store.

    schedule (feeder thread) ──jobs──► engine ──chunks──► make (decode threads) ──finished jobs──► take

Jobs are drawn from the plan without end, epoch after epoch; the loader hands their batches out and knows where the run
stands. Nothing here refers to the loader, so that a loader that is let go ends its session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from loaders.decoded.store import DecodedCounts
from loaders.engine import Engine, Observer, Span
from loaders.job import BatchJob, Cursor
from loaders.kept import announcing_what_is_not_kept, kept_of
from loaders.make import Maker, Worker
from loaders.read import SampleReader
from loaders.recipe import Recipe
from loaders.report import Report
from loaders.schedule import Schedule
from loaders.selection import AnyPlan
from loaders.slab import Allocate, Slabs
from loaders.stats import Stats
from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError

__all__ = ["Session"]


class _Both(NamedTuple):
    """Two observers as one."""

    first: Observer[BatchJob, Worker]
    second: Observer[BatchJob, Worker]

    def planned(self, job: BatchJob, span: Span) -> None:
        for each in self:
            each.planned(job, span)

    def worked(self, job: BatchJob, low: int, high: int, state: Worker, span: Span) -> None:
        for each in self:
            each.worked(job, low, high, state, span)

    def finished(self, job: BatchJob, span: Span) -> None:
        for each in self:
            each.finished(job, span)

    def taken(self, job: BatchJob, span: Span, ready: int) -> None:
        for each in self:
            each.taken(job, span, ready)


class Session:
    """See the module. Built by the loader on first use; `close` ends it.

    Args:
        dataset: where the plan's samples lie.
        plan: the order.
        recipe: what a batch holds.
        rank, world_size: whose batches.
        allocate: makes the memory of batches.
        reuse: take memory back when a batch is let go; not where another process maps it.
        observer: is told what is done, beside the loader's own counts.
        owner: a process for whose life decoded pictures stay in memory, beside this session's.
    """

    def __init__(
        self,
        dataset: Dataset,
        plan: AnyPlan,
        recipe: Recipe,
        *,
        rank: int,
        world_size: int,
        allocate: Allocate,
        reuse: bool = True,
        observer: Observer[BatchJob, Worker] | None = None,
        owner: int | None = None,
    ) -> None:
        plan.check(recipe.batch_size * world_size)
        recipe.read.check(plan, world_size)
        self.plan = plan
        self.recipe = recipe
        self.rank, self.world_size = rank, world_size
        self.stats = Stats()
        self.slabs = Slabs(allocate, keep=(recipe.read.prefetch + 2) * len(recipe.specs) if reuse else 0)
        self._reader = SampleReader(dataset, recipe.read, budget=recipe.read.budget(plan, world_size))
        self._store = kept_of(dataset, recipe, owner)
        begin = announcing_what_is_not_kept(self._reader.begin, self._store)
        locate = self._reader.located
        self._schedule = Schedule(
            plan, recipe, rank=rank, world_size=world_size, slabs=self.slabs, begin=begin, locate=locate
        )
        maker = Maker(plan, recipe, self._reader, self._store)
        self._quarantine = maker.quarantine
        self._engine: Engine[BatchJob, Worker] = Engine(
            maker.chunk,
            maker.worker,
            threads=recipe.threads,
            ahead=recipe.read.prefetch,
            observer=self.stats if observer is None else _Both(self.stats, observer),
        )
        self._next: Cursor | None = None
        self._part: object = None

    @property
    def global_batch(self) -> int:
        """Samples of one batch of all ranks."""
        return self._schedule.global_batch

    def take(self, cursor: Cursor) -> BatchJob:
        """The finished batch at `cursor`. Goes on where the last call ended, or begins anew."""
        self.stats.begin()
        if cursor != self._next:
            self._part = None
            self._engine.start(self._schedule.jobs(cursor))
        self._next = None  # if it raises, the next call begins anew
        job = self._engine.take()
        self._next = job.after
        return job

    def part(self, cursor: Cursor, *, first: int, step: int) -> Iterator[BatchJob]:
        """One worker's share of an epoch: of its batches from `cursor` on, number `first` and every `step`-th after it.

        Work begins with the call. Nothing of the next epoch is begun, so that a transform's random numbers do not
        depend on how far ahead it ran.
        """
        self.stats.begin()
        self._next, self._part = None, (part := object())
        self._engine.start(self._schedule.epoch_jobs(cursor.epoch, cursor.position, first=first, step=step))
        return self._taken(part)

    def _taken(self, part: object) -> Iterator[BatchJob]:
        while True:
            if self._part is not part:
                raise UsageError("the batches were iterated anew while this iteration ran", cure="Use one at a time.")
            try:
                job = self._engine.take()
            except StopIteration:
                return
            yield job
            del job

    def report(self, cursor: Cursor, *, missing: str) -> Report:
        """What was done up to `cursor`; `missing` says what the decode kernel lacks."""
        recipe = self.recipe
        report = self.stats.report(
            threads=recipe.threads,
            slabs_made=self.slabs.made,
            slabs_reused=self.slabs.reused,
            skipped=self._quarantine.counts,
            backend=recipe.backend,
            prefetch=recipe.read.prefetch,
            transformed=recipe.transform is not None or recipe.collate is not None,
            missing=missing,
            parts=self.plan.progress(cursor.epoch, cursor.position),
            traffic=self._reader.traffic,
        )
        cache = self._store.report() if self._store is not None else DecodedCounts()
        return replace(
            report,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            cache_kept=cache.kept,
            cache_damaged=cache.damaged + cache.stale,
            cache_bytes=cache.bytes,
        )

    def close(self) -> None:
        """End the threads and close the shards; twice does nothing."""
        self._engine.check_thread()
        self._reader.stop()  # or a decode thread would wait for the network
        self._engine.close()
        self._reader.close()
        if self._store is not None:
            self._store.close()

    def abandon(self) -> None:
        """As close, without waiting: for a finalizer."""
        self._engine.abandon()
        self._reader.abandon()

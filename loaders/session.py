"""A loader at work: the plan, the threads, the open shards. Made on first use, so that constructors only store.

The session draws jobs from the plan without end, epoch after epoch; the loader hands their batches out and knows where
the run stands. Nothing here refers to the loader, so that a loader that is let go ends its session.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders import draws as random_draws
from loaders.crops import DRAW_STEPS, Geometry, Mask
from loaders.decode import SampleDecoder
from loaders.engine import Engine
from loaders.fields import FieldSpec
from loaders.job import CHUNK, BatchJob, Cursor, transformed
from loaders.plan import share
from loaders.policy import MAX_FAILURES_IN_A_ROW, SKIP_CURE, SKIPPED, OnError, Quarantine, read_exclude
from loaders.read import Encoded, Reading, SampleReader, Scratch
from loaders.selection import AnyOrder, AnyPlan
from loaders.slab import Allocate, Slabs
from loaders.stats import Stats
from wds_tools.dataset import Dataset
from wds_tools.errors import DataError, ShardstreamError, TooManyFailuresError, UsageError
from wds_tools.pictures.options import Pictures
from wds_tools.sample import KEY

__all__ = ["Recipe", "Session"]

_AHEAD = 1024  # samples planned and announced beyond the batch being scheduled


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a session makes of a dataset and a plan; the loader's arguments, checked."""

    batch_size: int
    specs: tuple[FieldSpec, ...]
    transform: Callable[[dict[str, Any]], dict[str, Any]] | None
    collate: Callable[[list[dict[str, Any]]], Any] | None
    on_error: OnError
    exclude: str | os.PathLike[str] | Sequence[int] | None
    quarantine: Path | None
    threads: int
    read: Reading
    pictures: Pictures


@dataclass
class _Worker:
    """What one decode thread has to itself."""

    decoder: SampleDecoder
    scratch: Scratch = field(default_factory=Scratch)
    nbytes: int = 0
    read_seconds: float = 0.0


class Session:
    """See the module. Built by the loader on first use; `close` ends it."""

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
    ) -> None:
        plan.check(recipe.batch_size * world_size)
        recipe.read.check(plan, world_size)
        self.plan = plan
        self.recipe = recipe
        self.rank, self.world_size = rank, world_size
        self.stats = Stats()
        # Memory that another process maps is given away, never taken back.
        self.slabs = Slabs(allocate, keep=recipe.read.prefetch + 2 if reuse else 0)
        self.excluded = read_exclude(recipe.exclude, fingerprint=plan.data)
        self.quarantine = Quarantine(recipe.quarantine, fingerprint=plan.data)
        self._reader = SampleReader(dataset)
        self._leader = next((s.image for s in recipe.specs if s.image and not isinstance(s.image, Mask)), None)
        self._random = any(isinstance(s.image, Geometry) and s.image.random for s in recipe.specs)
        self._engine: Engine[BatchJob, _Worker] = Engine(
            self._make_chunk, self._worker, threads=recipe.threads, ahead=recipe.read.prefetch
        )
        self._next: Cursor | None = None
        self._part: object = None

    @property
    def global_batch(self) -> int:
        """Samples of one batch of all ranks."""
        return self.recipe.batch_size * self.world_size

    def take(self, cursor: Cursor) -> BatchJob:
        """The finished batch at `cursor`. Goes on where the last call ended, or begins anew."""
        self.stats.begin()
        if cursor != self._next:
            self._part = None
            self._engine.start(self._jobs(cursor))
        begun = time.perf_counter()
        self._next = None  # if it raises, the next call begins anew
        job = self._engine.take()
        self._next = job.after
        self.stats.handed_out(job.slots - len(job.dropped), time.perf_counter() - begun)
        return job

    def part(self, cursor: Cursor, *, first: int, step: int) -> Iterator[BatchJob]:
        """One worker's share of an epoch: of its batches from `cursor` on, number `first` and every `step`-th after it.

        Work begins with the call. Nothing of the next epoch is begun, so that a transform's random numbers do not
        depend on how far ahead it ran.
        """
        self.stats.begin()
        self._next, self._part = None, (part := object())
        self._engine.start(self._epoch_jobs(self.plan.epoch(cursor.epoch), cursor.position, first=first, step=step))
        return self._taken(part)

    def _taken(self, part: object) -> Iterator[BatchJob]:
        while True:
            if self._part is not part:
                raise UsageError("the batches were iterated anew while this iteration ran", cure="Use one at a time.")
            begun = time.perf_counter()
            try:
                job = self._engine.take()
            except StopIteration:
                return
            self.stats.handed_out(job.slots - len(job.dropped), time.perf_counter() - begun)
            yield job
            del job

    def close(self) -> None:
        """End the threads and close the shards; twice does nothing."""
        self._engine.close()
        self._reader.close()

    def abandon(self) -> None:
        """As close, without waiting: for a finalizer."""
        self._engine.abandon()
        self._reader.close()

    # What follows runs in the feeder thread.

    def _jobs(self, cursor: Cursor) -> Iterator[BatchJob]:
        epoch, position = cursor.epoch, cursor.position
        while True:
            yield from self._epoch_jobs(self.plan.epoch(epoch), position)
            epoch, position = epoch + 1, 0

    def _epoch_jobs(self, order: AnyOrder, position: int, *, first: int = 0, step: int = 1) -> Iterator[BatchJob]:
        """The batches of one epoch from a position on; planned and announced about a thousand samples ahead."""
        last = self.plan.batches(self.global_batch, position=position) - 1
        numbers = range(first, last + 1, step)
        stride = 1 + _AHEAD // self.recipe.batch_size  # batches whose samples are looked up at once
        ahead: deque[BatchJob] = deque()
        begin = 0
        while begin < len(numbers):
            end = min(begin + (stride if begin else 1), len(numbers))  # one batch first, since somebody waits for it
            ahead.extend(self._planned(order, position, numbers[begin:end], last))
            while len(ahead) > (stride if begin and end < len(numbers) else 0):
                yield self._with_memory(ahead.popleft())
            begin = end

    def _planned(self, order: AnyOrder, position: int, numbers: range, last: int) -> list[BatchJob]:
        size = self.global_batch
        shares = [self._share(position + number * size) for number in numbers]
        positions = np.concatenate([mine for mine, _ in shares])
        self._reader.announce(*order.runs(positions))
        samples = order.samples(positions)
        rows = self._draws(order.epoch, positions)
        jobs, at = [], 0
        for number, (mine, valid) in zip(numbers, shares, strict=True):
            upto = at + len(mine)
            after = Cursor(order.epoch, position + (number + 1) * size) if number < last else Cursor(order.epoch + 1, 0)
            draws = rows[at:upto] if rows is not None else None
            jobs.append(self._job(order, (mine, samples[at:upto], valid), draws, after))
            at = upto
        return jobs

    def _share(self, position: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        return share(
            position,
            samples=self.plan.samples,
            rank=self.rank,
            world_size=self.world_size,
            batch_size=self.recipe.batch_size,
            shuffle=self.plan.shuffle,
            tail=self.plan.tail,
        )

    def _draws(self, epoch: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
        if not self._random:
            return None
        key = random_draws.key_of(self.plan.seed, epoch, random_draws.Purpose.AUGMENT)
        return random_draws.uniforms(key, positions, DRAW_STEPS)

    def _job(
        self,
        order: AnyOrder,
        slots: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]],
        draws: npt.NDArray[np.float64] | None,
        after: Cursor,
    ) -> BatchJob:
        recipe = self.recipe
        positions, samples, valid = slots
        return BatchJob(
            order=order,
            positions=positions,
            samples=samples,
            draws=draws,
            valid=valid,
            mark_valid=self.plan.tail == "pad",
            names=tuple(spec.name for spec in recipe.specs),
            empties=[spec.empty(self._leader) for spec in recipe.specs],
            slabs=[None] * len(recipe.specs),
            transformed=recipe.transform is not None or recipe.collate is not None,
            collate=recipe.collate,
            after=after,
            last=after.epoch != order.epoch,
            chunk=max(1, min(CHUNK, -(-len(samples) // recipe.threads))),
        )

    def _with_memory(self, job: BatchJob) -> BatchJob:
        if not job.transformed:
            job.slabs = [self._slab(spec, job.slots) for spec in self.recipe.specs]
        return job

    def _slab(self, spec: FieldSpec, slots: int) -> npt.NDArray[np.uint8] | None:
        shape = spec.slab_shape
        return self.slabs.take((slots, *shape)) if shape is not None and slots else None

    # What follows runs in the decode threads.

    def _worker(self) -> _Worker:
        return _Worker(SampleDecoder(self.recipe.specs, self.recipe.pictures))

    def _make_chunk(self, job: BatchJob, low: int, high: int, worker: _Worker) -> None:
        begun = time.perf_counter()
        worker.nbytes, worker.read_seconds = 0, 0.0
        rows = job.draws[low:high].tolist() if job.draws is not None else [()] * (high - low)
        bad: list[tuple[int, DataError | None]] = []
        slots = list(range(low, high))
        if self.excluded:
            bad = [(slot, None) for slot in slots if int(job.samples[slot]) in self.excluded]
            slots = [slot for slot in slots if int(job.samples[slot]) not in self.excluded]
        read = self._reader.read(job.samples[slots], worker.scratch)
        for slot in slots:
            try:
                self._make(job, slot, self._next_of(read, worker), rows[slot - low], worker)
            except SKIPPED as error:
                if self.recipe.on_error == "raise":
                    raise error.at(cure=SKIP_CURE) from error.__cause__
                bad.append((slot, error))
        for slot, failure in bad:
            self._replace(job, slot, failure, rows[slot - low], worker)
        spent = time.perf_counter() - begun
        self.stats.made(
            nbytes=worker.nbytes, read_seconds=worker.read_seconds, decode_seconds=spent - worker.read_seconds
        )

    def _next_of(self, read: Iterator[Encoded], worker: _Worker) -> Encoded:
        begun = time.perf_counter()
        encoded = next(read)
        worker.read_seconds += time.perf_counter() - begun
        worker.nbytes += len(encoded.data)
        return encoded

    def _make(self, job: BatchJob, slot: int, encoded: Encoded, row: Sequence[float], worker: _Worker) -> None:
        url, offset = encoded.url, encoded.offset
        try:
            raw = encoded.parse()
            job.keys[slot] = raw[KEY]
            slots = [slab[slot] if slab is not None else None for slab in job.slabs]
            values = worker.decoder.values(raw, row, slots)
        except ShardstreamError as error:
            raise error.at(url=url, offset=offset) from error.__cause__
        transform = self.recipe.transform
        job.values[slot] = (
            transformed(transform, job.names, values, key=raw[KEY], url=url) if job.transformed else values
        )

    def _replace(
        self, job: BatchJob, slot: int, error: DataError | None, row: Sequence[float], worker: _Worker
    ) -> None:
        """Fill a bad slot with the next good sample of its lane, or leave it out where every sample comes just once."""
        instead = None
        if self.plan.tail == "exact":
            job.dropped.append(slot)
        else:
            instead = self._find_good(job, slot, error, row, worker)
            if self.plan.tail == "pad":
                job.valid[slot] = False
        if error is not None:
            self.quarantine.add(int(job.samples[slot]), error, instead=instead)

    def _find_good(
        self, job: BatchJob, slot: int, error: DataError | None, row: Sequence[float], worker: _Worker
    ) -> str | None:
        last, failures = error, int(error is not None)
        for position in itertools.islice(job.order.replacements(int(job.positions[slot])), self.plan.samples - 1):
            sample = job.order.samples(np.array([position]))
            if int(sample[0]) in self.excluded:
                continue
            try:
                self._make(job, slot, next(self._reader.read(sample, worker.scratch)), row, worker)
            except SKIPPED as failure:
                last, failures = failure, failures + 1
                if failures == MAX_FAILURES_IN_A_ROW:
                    break
            else:
                return job.keys[slot]
        raise TooManyFailuresError(
            f"{failures} bad samples in a row and no good one to take their place; the last one: {last}",
            url=last.url if last else None,
            key=last.key if last else None,
            cure="Check the shards with `wds verify --decode`, and that `fields` names what they hold.",
        ) from last

"""A job's slots to samples: read, parse, decode, transform, and mend what is bad. Runs in the decode threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from loaders.decode import SampleDecoder
from loaders.job import BatchJob, transformed
from loaders.policy import MAX_FAILURES_IN_A_ROW, SKIP_CURE, SKIPPED, Quarantine, read_exclude
from loaders.read import Encoded, SampleReader, Scratch
from loaders.recipe import Recipe
from loaders.selection import AnyPlan
from loaders.stacked import ArrayColumn
from loaders.straight import Hole, Straight
from wds_tools.errors import DataError, ShardstreamError, TooManyFailuresError, UsageError
from wds_tools.sample import KEY

__all__ = ["Maker", "Worker"]


@dataclass
class Worker:
    """What one decode thread has to itself, and what it says of the chunk that it made last (`stats.Chunk`)."""

    decoder: SampleDecoder
    straight: Straight | None = None
    scratch: Scratch = field(default_factory=Scratch)
    nbytes: int = 0
    read_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def looked_at(self) -> tuple[int, int, int] | None:
        return self.decoder.looked_at


class Maker:
    """Makes chunks of jobs; shared by all threads, each of which brings its own Worker."""

    def __init__(self, plan: AnyPlan, recipe: Recipe, reader: SampleReader) -> None:
        self.plan = plan
        self.recipe = recipe
        self.excluded = read_exclude(recipe.exclude, fingerprint=plan.data)
        self.quarantine = Quarantine(recipe.quarantine, fingerprint=plan.data)
        self._reader = reader

    def worker(self) -> Worker:
        straight = (Straight(i, spec.alternatives) for i, spec in enumerate(self.recipe.specs) if spec.stacked)
        return Worker(SampleDecoder(self.recipe.specs, self.recipe.pictures), next(straight, None))

    def chunk(self, job: BatchJob, low: int, high: int, worker: Worker) -> None:
        begun_cpu = time.thread_time()
        worker.nbytes, worker.read_seconds, worker.decoder.looked_at = 0, 0.0, None
        rows = job.draws[low:high].tolist() if job.draws is not None else [()] * (high - low)
        bad: list[tuple[int, DataError | None]] = []
        slots = list(range(low, high))
        if self.excluded:
            bad = [(slot, None) for slot in slots if int(job.samples[slot]) in self.excluded]
            slots = [slot for slot in slots if int(job.samples[slot]) not in self.excluded]
            job.release(slot for slot, _ in bad)
        claims = [job.claims[slot] for slot in slots] if job.claims is not None else None
        read = self._reader.read(job.samples[slots], worker.scratch, claims, _hole(job, slots, worker))
        for slot in slots:
            try:
                self._make(job, slot, self._next_of(read, worker), rows[slot - low], worker)
            except SKIPPED as error:
                if self.recipe.on_error == "raise":
                    raise error.at(cure=SKIP_CURE) from error.__cause__
                bad.append((slot, error))
        for slot, failure in bad:
            self._replace(job, slot, failure, rows[slot - low], worker)
        worker.cpu_seconds = time.thread_time() - begun_cpu

    def _next_of(self, read: Iterator[Encoded], worker: Worker) -> Encoded:
        begun = time.perf_counter()
        encoded = next(read)
        worker.read_seconds += time.perf_counter() - begun
        worker.nbytes += len(encoded.data)
        return encoded

    def _make(self, job: BatchJob, slot: int, encoded: Encoded, row: Sequence[float], worker: Worker) -> None:
        url, offset = encoded.url, encoded.offset
        try:
            raw = encoded.parse()
            if worker.straight is not None:
                worker.straight.learn(encoded.data, raw, guessed=encoded.hole is not None)
            job.keys[slot], job.urls[slot] = raw[KEY], url
            values = worker.decoder.values(raw, row, job.memory(slot))
        except ShardstreamError as error:
            raise error.at(url=url, offset=offset) from error.__cause__
        transform = self.recipe.transform
        job.values[slot] = (
            transformed(transform, job.names, values, key=raw[KEY], url=url) if job.transformed else values
        )

    def _replace(self, job: BatchJob, slot: int, error: DataError | None, row: Sequence[float], worker: Worker) -> None:
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
        self, job: BatchJob, slot: int, error: DataError | None, row: Sequence[float], worker: Worker
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
        if last is None:
            raise UsageError(
                f"exclude= leaves no sample to take the place of sample {job.samples[slot]}: all are excluded",
                cure="Exclude fewer, or look for what made the list so long: the quarantine file says it.",
            )
        raise TooManyFailuresError(
            f"{failures} bad samples in a row and no good one to take their place; the last one: {last}",
            url=last.url,
            key=last.key,
            cure="Check the shards with `wds verify --decode`, and that `fields` names what they hold.",
        ) from last


def _hole(job: BatchJob, slots: Sequence[int], worker: Worker) -> Callable[[int, int], Hole | None] | None:
    """What of each of these samples goes straight to its place in the batch, given which and how many bytes it has."""
    straight, scratch = worker.straight, worker.scratch
    column = job.slabs[straight.column] if straight is not None else None
    if straight is None or not isinstance(column, ArrayColumn):
        return None
    return lambda at, nbytes: straight.hole(column, slots[at], nbytes, scratch.address)

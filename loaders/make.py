"""A job's slots to samples: read, parse, decode, transform, and mend what is bad. Runs in the decode threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from loaders.decode import SampleDecoder
from loaders.decoded.store import DecodedStore
from loaders.job import BatchJob, transformed
from loaders.policy import MAX_FAILURES_IN_A_ROW, SKIP_CURE, SKIPPED, Quarantine, read_exclude
from loaders.quick import Quick
from loaders.read import Encoded, SampleReader, Scratch
from loaders.recipe import Recipe
from loaders.selection import AnyPlan
from loaders.stacked import ArrayColumn
from loaders.straight import Hole, Straight
from wds_tools.errors import DataError, ShardstreamError, TooManyFailuresError, UsageError
from wds_tools.sample import KEY, SPECIAL, URL, RawSample

__all__ = ["Maker", "Worker"]

Bad: TypeAlias = tuple[int, DataError | None]
"""A slot, and what was wrong with its sample; None where it is excluded."""
Rows: TypeAlias = Mapping[int, Sequence[float]]
"""The random numbers of each slot."""


@dataclass
class Worker:
    """What one decode thread has to itself, and what it says of the chunk that it made last (`stats.Chunk`)."""

    decoder: SampleDecoder
    straight: Straight | None = None
    quick: Quick | None = None
    scratch: Scratch = field(default_factory=Scratch)
    nbytes: int = 0
    read_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def looked_at(self) -> tuple[int, int, int] | None:
        return self.decoder.looked_at


class Maker:
    """Makes chunks of jobs; shared by all threads, each of which brings its own Worker."""

    def __init__(self, plan: AnyPlan, recipe: Recipe, reader: SampleReader, store: DecodedStore | None = None) -> None:
        self._store = store
        self.plan = plan
        self.recipe = recipe
        self.excluded = read_exclude(recipe.exclude, fingerprint=plan.data)
        self.quarantine = Quarantine(recipe.quarantine, fingerprint=plan.data)
        self._reader = reader

    def worker(self) -> Worker:
        # what is kept must be in the sample, and not in the batch already
        columns = enumerate(self.recipe.specs) if self._store is None else ()
        straight = (Straight(i, spec.alternatives) for i, spec in columns if spec.stacked)
        guessed = next(straight, None)
        decoder = SampleDecoder(self.recipe.specs, self.recipe.pictures, self.recipe.kept_size)
        quick = Quick.of(self.recipe.specs, self.recipe.pictures, guessed) if self._store is None else None
        return Worker(decoder, guessed, quick)

    def chunk(self, job: BatchJob, low: int, high: int, worker: Worker) -> None:
        begun_cpu = time.thread_time()
        worker.nbytes, worker.read_seconds, worker.decoder.looked_at = 0, 0.0, None
        bad: list[Bad] = []
        slots = list(range(low, high))
        if self.excluded:
            bad = [(slot, None) for slot in slots if int(job.samples[slot]) in self.excluded]
            slots = [slot for slot in slots if int(job.samples[slot]) not in self.excluded]
            job.release(slot for slot, _ in bad)
        if self._store is not None:
            slots = self._from_store(job, slots, _rows(job, slots), bad, worker)
        slots = [slots[at] for at in self._reader.spread(job.samples[slots], low // job.chunk)]
        if worker.quick is not None:
            slots = worker.quick.make(job, slots, self._reader, worker)
            worker.decoder.looked_at = worker.quick.looked_at
        if slots or bad:  # nearly never: and all that is not run is one thing less that decoding drove out of the cache
            self._make_singly(job, slots, bad, worker)
        worker.cpu_seconds = time.thread_time() - begun_cpu

    def _make_singly(self, job: BatchJob, slots: list[int], bad: list[Bad], worker: Worker) -> None:
        """Make these slots, and find others for the bad ones."""
        rows = _rows(job, [*slots, *(slot for slot, _ in bad)])
        claims = [job.claims[slot] for slot in slots] if job.claims is not None else None
        read = self._reader.read(job.samples[slots], worker.scratch, claims, _hole(job, slots, worker))
        for slot in slots:
            try:
                self._make(job, slot, self._next_of(read, worker), rows[slot], worker)
            except SKIPPED as error:
                bad.append((slot, self._skipped(error)))
        for slot, failure in bad:
            self._replace(job, slot, failure, rows[slot], worker)

    def _next_of(self, read: Iterator[Encoded], worker: Worker) -> Encoded:
        begun = time.perf_counter()
        encoded = next(read)
        worker.read_seconds += time.perf_counter() - begun
        worker.nbytes += len(encoded.data)
        return encoded

    def _make(self, job: BatchJob, slot: int, encoded: Encoded, row: Sequence[float], worker: Worker) -> None:
        try:
            raw = encoded.parse()
            if worker.straight is not None:
                worker.straight.learn(encoded.data, raw, guessed=encoded.hole is not None)
            values = self._values(job, slot, raw, row, worker)
        except ShardstreamError as error:
            raise error.at(url=encoded.url, offset=encoded.offset) from error.__cause__
        if self._store is not None:
            found = [name for spec in self.recipe.specs if (name := spec.find(raw)) is not None and name not in SPECIAL]
            self._store.put(encoded.number, raw, found)
        self._place(job, slot, values)

    def _from_store(self, job: BatchJob, slots: Sequence[int], rows: Rows, bad: list[Bad], worker: Worker) -> list[int]:
        """Make the samples whose pictures are decoded already; returns the slots of the others."""
        missing: list[int] = []
        store, samples = self._store, job.samples[slots]
        if store is None:
            return list(slots)
        for slot, sample, kept in zip(slots, samples.tolist(), store.has(samples).tolist(), strict=True):
            raw = store.get(sample, worker.scratch.take) if kept else None
            if raw is None:
                missing.append(slot)
                continue
            job.release((slot,))
            try:
                self._place(job, slot, self._values(job, slot, raw, rows[slot], worker))
            except SKIPPED as error:
                bad.append((slot, self._skipped(error)))
        store.note(hits=len(slots) - len(missing), misses=len(missing))
        return missing

    def _skipped(self, error: DataError) -> DataError:
        """The error of a bad sample, raised unless such samples are replaced."""
        if self.recipe.on_error == "raise":
            raise error.at(cure=SKIP_CURE) from error.__cause__
        return error

    def _values(self, job: BatchJob, slot: int, raw: RawSample, row: Sequence[float], worker: Worker) -> list[Any]:
        job.keys[slot], job.urls[slot] = raw[KEY], raw[URL]
        return worker.decoder.values(raw, row, job.memory(slot))

    def _place(self, job: BatchJob, slot: int, values: list[Any]) -> None:
        transform = self.recipe.transform
        job.values[slot] = (
            transformed(transform, job.names, values, key=job.keys[slot], url=job.urls[slot])
            if job.transformed
            else values
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


def _rows(job: BatchJob, slots: Sequence[int]) -> Rows:
    if job.draws is None or not slots:
        return dict.fromkeys(slots, ())
    return dict(zip(slots, job.draws[slots].tolist(), strict=True))


def _hole(job: BatchJob, slots: Sequence[int], worker: Worker) -> Callable[[int, int], Hole | None] | None:
    """What of each of these samples goes straight to its place in the batch, given which and how many bytes it has."""
    straight, scratch = worker.straight, worker.scratch
    column = job.slabs[straight.column] if straight is not None else None
    if straight is None or not isinstance(column, ArrayColumn):
        return None
    return lambda at, nbytes: straight.hole(column, slots[at], nbytes, scratch.address)

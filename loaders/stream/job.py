"""One batch of a stream, and how the decode threads make it.

A bad sample (`on_error="skip"`) is replaced by the next good one of its batch, else by one of the sixteen read behind
the batch, else by one in front of it: whoever decodes, and without a change to what the stream gives next, so that a
resumed run need not decode what it passes over. Under tail="exact" the batch is shorter instead.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders.arguments import MOST_PREFETCHED, MOST_SAMPLES, MOST_THREADS, check_count
from loaders.decode import SampleDecoder
from loaders.job import Assembly, transformed
from loaders.policy import MAX_FAILURES_IN_A_ROW, SKIP_CURE, SKIPPED, Quarantine
from loaders.stats import Stats
from loaders.stream.flow import Item, Streams
from wds_tools.errors import DataError, TooManyFailuresError
from wds_tools.pictures.options import Pictures
from wds_tools.sample import KEY, URL

__all__ = ["Maker", "Making", "StreamJob"]


@dataclass(frozen=True, kw_only=True)
class Making:
    """What batches are made of samples, and how far ahead."""

    batch_size: int
    transform: Callable[[dict[str, Any]], dict[str, Any]] | None
    collate: Callable[[list[dict[str, Any]]], Any] | None
    threads: int
    prefetch: int
    pictures: Pictures

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, most=MOST_SAMPLES)
        check_count("threads", self.threads, most=MOST_THREADS)
        check_count("prefetch", self.prefetch, most=MOST_PREFETCHED)


@dataclass(eq=False, kw_only=True)
class StreamJob(Assembly):
    """A batch of samples that came by.

    Attributes:
        items: the sample of each slot.
        spares: samples that may take the place of bad ones.
        places: int64 (n,), the positions in the epoch of the whole job.
    """

    items: Sequence[Item]
    spares: Sequence[Item]
    places: npt.NDArray[np.int64]


class Maker:
    """Makes chunks of jobs. Safe for many threads; each brings its own decoder."""

    def __init__(self, streams: Streams, making: Making, *, stats: Stats, quarantine: Quarantine) -> None:
        self._streams, self._making = streams, making
        self._stats = stats
        self._quarantine = quarantine

    def make_chunk(self, job: StreamJob, low: int, high: int, decoder: SampleDecoder) -> None:
        """Decode slots [low, high)."""
        begun = time.perf_counter()
        for slot in range(low, high):
            try:
                self._make(job, slot, job.items[slot], decoder)
            except SKIPPED as error:
                if self._streams.on_error == "raise":
                    raise error.at(cure=SKIP_CURE) from error.__cause__
                self._mend(job, slot, error, decoder)
        nbytes = sum(item.nbytes for item in job.items[low:high])
        self._stats.made(nbytes=nbytes, read_seconds=0.0, decode_seconds=time.perf_counter() - begun)

    def _make(self, job: StreamJob, slot: int, item: Item, decoder: SampleDecoder) -> None:
        if item.fault is not None:
            raise item.fault
        row = job.draws[slot].tolist() if job.draws is not None else ()
        values = decoder.values(item.sample, row, job.memory(slot))
        key, transform = item.sample[KEY], self._making.transform
        job.keys[slot], job.urls[slot] = key, item.sample[URL]
        job.values[slot] = (
            transformed(transform, job.names, values, key=key, url=item.sample[URL]) if job.transformed else values
        )

    def _mend(self, job: StreamJob, slot: int, error: DataError, decoder: SampleDecoder) -> None:
        instead = None
        if self._streams.tail == "exact":
            job.dropped.append(slot)
        else:
            instead = self._replace(job, slot, error, decoder)
        self._quarantine.add(int(job.places[slot]), error, instead=instead)

    def _replace(self, job: StreamJob, slot: int, error: DataError, decoder: SampleDecoder) -> str | None:
        """Put another sample in a bad one's place; the key of that one."""
        last, failures = error, 1
        others = itertools.chain(job.items[slot + 1 :], job.spares, reversed(job.items[:slot]))
        for item in others:
            if item is job.items[slot]:
                continue
            try:
                self._make(job, slot, item, decoder)
            except SKIPPED as failure:
                last, failures = failure, failures + 1
                if failures == MAX_FAILURES_IN_A_ROW:
                    break
            else:
                return job.keys[slot]
        raise TooManyFailuresError(
            f"{failures} bad samples in a row and no good one to take their place; the last one: {last}",
            url=last.url,
            key=last.key,
            cure="Check the shards with `wds verify --decode`, and that `fields` names what they hold.",
        ) from last

"""What the threads of a loader do, span by span: a recorder to give to `ShardLoader.observe`, and what it heard.

    trace = Trace()
    loader.observe(trace)
    for batch in loader: ...
    trace.write("trace.json")      # for https://ui.perfetto.dev or chrome://tracing

One row a thread: the feeder (planning a batch), the decode threads (their chunks, with the batch's number and how much
of a chunk was reading), and the consumer (waiting, and at work in between). Two counters: finished batches that wait,
and samples a second. Batches are numbered as they are planned, from 0 for each recorder.

Only the newest spans are kept, so that a run of any length can be recorded: at 1,500 pictures a second the default is
ten minutes. Recording costs a microsecond a span, of which there are seven for a batch of 64.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from loaders.arguments import check_count
from loaders.engine import Span
from loaders.job import BatchJob
from loaders.make import Worker
from wds_tools.atomic import write_atomic

__all__ = ["Event", "Trace"]

CONSUMER = "consumer"
_RATE_S = 0.25  # a counter's stretch


class Event(NamedTuple):
    """One span.

    Attributes:
        thread: name of who did it.
        what: "plan", "decode", "batch" (make one of its samples) or "wait" (of the consumer).
        span: from when to when.
        batch: its number.
        samples: of the chunk, or of the batch.
        nbytes: encoded bytes read for the chunk.
        read_seconds: of the span, reading.
        ready: of "wait", finished batches when it began.
    """

    thread: str
    what: str
    span: Span
    batch: int
    samples: int
    nbytes: int = 0
    read_seconds: float = 0.0
    ready: int = 0


class Trace:
    """Records what it is told; see the module. Safe for many threads.

    Args:
        most: spans that are kept, the newest.

    Attributes:
        dropped: spans that were let go for newer ones.
    """

    def __init__(self, *, most: int = 100_000) -> None:
        check_count("most", most)
        self.most = most
        self.begun = time.perf_counter()
        self._events: deque[Event] = deque(maxlen=most)
        self._count = itertools.count()
        self._numbers: WeakKeyDictionary[BatchJob, int] = WeakKeyDictionary()
        self._next = itertools.count()
        self._seen = 0

    @property
    def dropped(self) -> int:
        return max(0, self._seen - self.most)

    def planned(self, job: BatchJob, span: Span) -> None:
        self._numbers[job] = number = next(self._next)
        self._add(Event(_me(), "plan", span, number, job.slots))

    def worked(self, job: BatchJob, low: int, high: int, state: Worker, span: Span) -> None:
        number = self._numbers.get(job, -1)
        self._add(Event(_me(), "decode", span, number, high - low, state.nbytes, state.read_seconds))

    def finished(self, job: BatchJob, span: Span) -> None:
        self._add(Event(_me(), "batch", span, self._numbers.get(job, -1), job.slots))

    def taken(self, job: BatchJob, span: Span, ready: int) -> None:
        samples = job.slots - len(job.dropped)
        self._add(Event(CONSUMER, "wait", span, self._numbers.get(job, -1), samples, ready=ready))

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._seen = next(self._count) + 1

    @property
    def events(self) -> list[Event]:
        """What was heard, by when it began."""
        return sorted(self._events.copy(), key=lambda event: event.span)

    def queue(self) -> list[tuple[float, int]]:
        """How many finished batches waited for the consumer: (moment, batches from then on)."""
        moments = sorted(_moments(self._events.copy()), key=lambda each: each[0])
        waiting, steps = 0, []
        for moment, known, change in moments:
            waiting = max(0, waiting + change) if known is None else known
            steps.append((moment, waiting))
        return steps

    def rates(self, seconds: float = 1.0) -> list[tuple[float, float]]:
        """Samples a second that the consumer got: (end of a stretch of so many seconds, rate), whole stretches only."""
        taken = [(event.span.ended, event.samples) for event in self.events if event.what == "wait"]
        if not taken:
            return []
        first, last = taken[0][0], taken[-1][0]
        counts = [0] * int((last - first) / seconds)
        for moment, samples in taken[1:]:
            stretch = math.ceil((moment - first) / seconds) - 1
            if stretch < len(counts):
                counts[stretch] += samples
        return [(first + (number + 1) * seconds, count / seconds) for number, count in enumerate(counts)]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to a file that Perfetto and Chrome open (the JSON of Chrome's trace event format).

        Raises:
            UnavailableError: it cannot be written.
        """
        pieces = itertools.chain([b'{"displayTimeUnit":"ms","traceEvents":[\n'], self._lines(), [b"\n]}\n"])
        write_atomic(Path(path), pieces, durable=False)

    def _lines(self) -> Iterator[bytes]:
        """The events as JSON, each but the first behind a comma."""
        for number, event in enumerate(self._described()):
            yield (b",\n" if number else b"") + json.dumps(event, separators=(",", ":")).encode()

    def _described(self) -> Iterator[dict[str, Any]]:
        events, process = self.events, os.getpid()
        rows = {name: number for number, name in enumerate(sorted({event.thread for event in events}, key=_order))}
        about = {"dropped": self.dropped, "kept": len(events)}
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": "shardstream", **about}}
        for name, row in rows.items():
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": row, "args": {"sort_index": row}}
        for event in [*events, *_steps(events)]:
            begun, ended = event.span
            place = {"pid": process, "tid": rows[event.thread], "ts": self._us(begun), "dur": (ended - begun) * 1e6}
            yield {"ph": "X", "name": event.what, **place, "args": _details(event)}
        counters = (("batches ready", self.queue()), ("samples a second", self.rates(_RATE_S)))
        for name, values in counters:
            for moment, value in values:
                yield {"ph": "C", "name": name, "pid": process, "ts": self._us(moment), "args": {"value": value}}

    def _us(self, moment: float) -> float:
        return (moment - self.begun) * 1e6


def _me() -> str:
    return threading.current_thread().name


def _order(name: str) -> tuple[int, int, str]:
    """The consumer first, then the feeder, then the decode threads by their numbers."""
    number = name.rpartition("-")[2]
    return (0 if name == CONSUMER else 1 if "feed" in name else 2), (int(number) if number.isdigit() else 0), name


def _moments(events: Iterable[Event]) -> Iterator[tuple[float, int | None, int]]:
    """When the number of waiting batches changed: (moment, the number where it is known, the change)."""
    for event in events:
        if event.what == "batch":
            yield event.span.ended, None, 1
        elif event.what == "wait":
            yield event.span.begun, event.ready, 0
            yield event.span.ended, None, -1


def _steps(events: Sequence[Event]) -> Iterator[Event]:
    """What the consumer did between two waits: with the batch that it had got."""
    waits = [event for event in events if event.what == "wait"]
    for had, following in itertools.pairwise(waits):
        yield had._replace(what="step", span=Span(had.span.ended, following.span.begun))


def _details(event: Event) -> dict[str, Any]:
    details: dict[str, Any] = {"batch": event.batch, "samples": event.samples}
    if event.what == "decode":
        details |= {"bytes": event.nbytes, "reading_us": round(event.read_seconds * 1e6)}
    elif event.what == "wait":
        details["ready"] = event.ready
    return details

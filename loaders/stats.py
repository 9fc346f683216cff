"""The running counts behind a report: a few additions a chunk, no locks a sample."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loaders.engine import Span
from loaders.fetch import Traffic
from loaders.report import Report
from loaders.selection import PartProgress
from wds_tools.cores import usable_cores

__all__ = ["Chunk", "Counted", "Stats"]


class Chunk(Protocol):
    """What a thread says of the chunk that it made last.

    Attributes:
        nbytes: encoded bytes read.
        read_seconds: wall clock, reading.
        cpu_seconds: of the thread, on a core.
        looked_at: (width, height) of one of its pictures as shown, and the shorter side that would do for its crop.
    """

    nbytes: int
    read_seconds: float
    cpu_seconds: float

    @property
    def looked_at(self) -> tuple[int, int, int] | None: ...


class Counted(Protocol):
    """A batch as it is counted: samples planned, and those of them that nothing replaced."""

    slots: int
    dropped: list[int]


@dataclass
class Stats:
    """An observer of the engine that adds up. `made` and `worked` are called by decode threads.

    Attributes:
        begun: when the first batch was asked for.
        begun_cpu: the CPU time of the process by then.
    """

    begun: float | None = None
    begun_cpu: float = 0.0
    samples: int = 0
    batches: int = 0
    wait_seconds: float = 0.0
    ready: int = 0
    plan_seconds: float = 0.0
    bytes: int = 0
    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    decode_cpu_seconds: float = 0.0
    batch_seconds: float = 0.0
    looked_at: int = 0
    pixels: float = 0.0
    small_pixels: float = 0.0
    small_side: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Start the clock, once."""
        if self.begun is None:
            self.begun, self.begun_cpu = time.perf_counter(), time.process_time()

    def planned(self, job: Counted, span: Span) -> None:
        del job
        self.plan_seconds += span.seconds

    def worked(self, job: Counted, low: int, high: int, state: Chunk, span: Span) -> None:
        del job, low, high
        read = state.read_seconds
        self.made(nbytes=state.nbytes, read_seconds=read, decode_seconds=span.seconds - read, chunk=state)

    def made(self, *, nbytes: int, read_seconds: float, decode_seconds: float, chunk: Chunk | None = None) -> None:
        """Count one chunk."""
        with self._lock:
            self.bytes += nbytes
            self.read_seconds += read_seconds
            self.decode_seconds += decode_seconds
            if chunk is None:
                return
            self.decode_cpu_seconds += chunk.cpu_seconds
            if chunk.looked_at is not None:
                self._look(*chunk.looked_at)

    def _look(self, width: int, height: int, side: int) -> None:
        self.looked_at += 1
        self.pixels += width * height
        self.small_pixels += width * height * min(1.0, side / min(width, height)) ** 2
        self.small_side = side

    def finished(self, job: Counted, span: Span) -> None:
        del job
        with self._lock:
            self.batch_seconds += span.seconds

    def taken(self, job: Counted, span: Span, ready: int) -> None:
        self.ready += ready
        self.handed_out(job.slots - len(job.dropped), span.seconds)

    def handed_out(self, samples: int, waited: float) -> None:
        """Count one batch."""
        self.samples += samples
        self.batches += 1
        self.wait_seconds += waited

    def report(
        self,
        *,
        threads: int,
        slabs_made: int,
        slabs_reused: int,
        skipped: Mapping[str, int],
        backend: str,
        prefetch: int = 0,
        readers: int = 0,
        transformed: bool = False,
        missing: str = "",
        parts: Sequence[PartProgress] = (),
        traffic: Traffic = Traffic(),  # noqa: B008 - only read
    ) -> Report:
        """The counts so far."""
        begun = self.begun is not None
        return Report(
            seconds=time.perf_counter() - self.begun if self.begun is not None else 0.0,
            cpu_seconds=time.process_time() - self.begun_cpu if begun else 0.0,
            samples=self.samples,
            batches=self.batches,
            bytes=self.bytes,
            wait_seconds=self.wait_seconds,
            ready=self.ready,
            plan_seconds=self.plan_seconds,
            decode_seconds=self.decode_seconds,
            decode_cpu_seconds=self.decode_cpu_seconds,
            read_seconds=self.read_seconds,
            batch_seconds=self.batch_seconds,
            looked_at=self.looked_at,
            pixels=self.pixels,
            small_pixels=self.small_pixels,
            small_side=self.small_side,
            threads=threads,
            cores=usable_cores(),
            prefetch=prefetch,
            readers=readers,
            transformed=transformed,
            slabs_made=slabs_made,
            slabs_reused=slabs_reused,
            skipped=dict(skipped),
            backend=backend,
            missing=missing,
            parts=tuple(parts),
            requests=traffic.requests,
            fetched_bytes=traffic.bytes,
            fetch_wait_seconds=traffic.wait_seconds,
        )

"""What the loader did and where its time went, counted as it goes: a few additions a chunk, no locks a sample."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loaders.fetch import Traffic
from loaders.selection import PartProgress

__all__ = ["Report", "Stats"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A loader's counts since it was made. `str` of it is one readable paragraph.

    Attributes:
        seconds: wall clock since the first batch was asked for.
        samples: handed out by this rank.
        batches: handed out by this rank.
        bytes: encoded bytes read by this rank, of batches made, handed out or not.
        wait_seconds: how long the consumer waited inside the loader.
        wait_share: wait_seconds / seconds.
        decode_seconds: thread seconds in decoding, transforming and batching, waiting for the interpreter included.
        read_seconds: thread seconds in reading.
        threads: decode threads.
        slabs_made: slabs allocated, since the caller kept the others.
        slabs_reused: slabs used again.
        skipped: bad samples by kind of error, of batches made, handed out or not: those made ahead count too, and
            with them the first ones of the next epoch.
        backend: what decodes pictures.
        parts: of a mix, how far the run has come in each of its datasets.
        requests: ranges that were fetched of remote shards, not counting what was tried again.
        fetched_bytes: what these brought.
        fetch_wait_seconds: thread seconds in which decode threads waited for them, a part of read_seconds.
    """

    seconds: float
    samples: int
    batches: int
    bytes: int
    wait_seconds: float
    wait_share: float
    decode_seconds: float
    read_seconds: float
    threads: int
    slabs_made: int
    slabs_reused: int
    skipped: Mapping[str, int]
    backend: str
    parts: Sequence[PartProgress] = ()
    requests: int = 0
    fetched_bytes: int = 0
    fetch_wait_seconds: float = 0.0

    @property
    def fetch_wait_share(self) -> float:
        """The part of the decode threads' time in which they waited for remote bytes, 0 to 1."""
        return self.fetch_wait_seconds / (self.seconds * self.threads) if self.seconds else 0.0

    def __str__(self) -> str:
        rate = self.samples / self.seconds if self.seconds else 0.0
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(self.skipped.items()))
        return (
            f"{self.samples:,} samples in {self.batches:,} batches, {rate:,.0f} a second, {self.bytes / 1e6:,.1f} MB; "
            f"the consumer waited {self.wait_share:.0%} of {_time(self.seconds)}; {self.threads} threads spent "
            f"{_time(self.read_seconds)} reading and {_time(self.decode_seconds)} decoding ({self.backend})"
            + (f"; {self._fetched()}" if self.requests else "")
            + (f"; skipped: {skipped}" if skipped else "")
            + "".join(f"; {part}" for part in self.parts)
        )

    def _fetched(self) -> str:
        rate = self.fetched_bytes / self.seconds if self.seconds else 0.0
        return (
            f"{self.fetched_bytes / 1e6:,.1f} MB fetched in {self.requests:,} requests, "
            f"{rate / 1e6:,.1f} MB a second, for which the threads waited {self.fetch_wait_share:.0%} of their time"
        )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@dataclass
class Stats:
    """The running counts behind a Report. `made` is called by decode threads, the rest by the consumer."""

    begun: float | None = None
    samples: int = 0
    batches: int = 0
    wait_seconds: float = 0.0
    bytes: int = 0
    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def made(self, *, nbytes: int, read_seconds: float, decode_seconds: float) -> None:
        """Count one chunk."""
        with self._lock:
            self.bytes += nbytes
            self.read_seconds += read_seconds
            self.decode_seconds += decode_seconds

    def handed_out(self, samples: int, waited: float) -> None:
        """Count one batch."""
        self.samples += samples
        self.batches += 1
        self.wait_seconds += waited

    def begin(self) -> None:
        """Start the clock, once."""
        if self.begun is None:
            self.begun = time.perf_counter()

    def report(
        self,
        *,
        threads: int,
        slabs_made: int,
        slabs_reused: int,
        skipped: Mapping[str, int],
        backend: str,
        parts: Sequence[PartProgress] = (),
        traffic: Traffic = Traffic(),  # noqa: B008 - only read
    ) -> Report:
        """The counts so far."""
        seconds = time.perf_counter() - self.begun if self.begun is not None else 0.0
        return Report(
            seconds=seconds,
            samples=self.samples,
            batches=self.batches,
            bytes=self.bytes,
            wait_seconds=self.wait_seconds,
            wait_share=self.wait_seconds / seconds if seconds else 0.0,
            decode_seconds=self.decode_seconds,
            read_seconds=self.read_seconds,
            threads=threads,
            slabs_made=slabs_made,
            slabs_reused=slabs_reused,
            skipped=dict(skipped),
            backend=backend,
            parts=tuple(parts),
            requests=traffic.requests,
            fetched_bytes=traffic.bytes,
            fetch_wait_seconds=traffic.wait_seconds,
        )

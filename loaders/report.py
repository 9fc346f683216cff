"""What a loader did and where its time went: the counts, as attributes, a few lines or a table, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, Self

from loaders.bottleneck import Figures, Verdict, judged
from loaders.selection import PartProgress

__all__ = ["Report", "Stage"]

_COUNTED = (
    *("seconds", "samples", "batches", "bytes", "wait_seconds", "read_seconds", "fetch_wait_seconds"),
    *("decode_seconds", "decode_cpu_seconds", "batch_seconds", "plan_seconds", "cpu_seconds", "ready"),
    *("looked_at", "pixels", "small_pixels", "slabs_made", "slabs_reused", "requests", "fetched_bytes"),
    *("cache_hits", "cache_misses", "cache_kept", "cache_damaged"),
)


class Stage(NamedTuple):
    """Where time went.

    Attributes:
        name: what was done.
        seconds: so long, by all who did it together.
        share: of what these had.
        microseconds: a sample.
    """

    name: str
    seconds: float
    share: float
    microseconds: float


@dataclass(frozen=True, kw_only=True)
class Report(Figures):
    """A loader's counts since it was made, or between two reports.

    `str` of it is a few lines, the second of them what sets the pace. The clock runs from the first batch that is asked
    for, whatever the caller does in between: for an epoch or a part of one take `loader.report().since(before)`.
    Counting costs 3 microseconds a chunk of 16 samples, and 0.15 for each sample that is read (two looks at the clock):
    a third of a microsecond a sample, 0.05% of decoding a crop.

    Attributes:
        slabs_made: memory of batches that was allocated, since the caller kept the others.
        slabs_reused: memory of batches that was used again.
        skipped: bad samples by kind of error, of batches made, handed out or not: those made ahead count too, and
            with them the first ones of the next epoch.
        backend: what decodes pictures.
        missing: why the decode kernel is not used to its full, and the cure; "" where it is, and in all reports of a
            loader but the first.
        parts: of a mix, how far the run has come in each of its datasets.
        fetched_bytes: what these brought.
        cache_hits: samples whose pictures came decoded from the cache (`decoded_cache=`).
        cache_misses: samples that were decoded, while there is such a cache.
        cache_kept: of these, what was put into it.
        cache_damaged: what of it was not as it was written, and was decoded.
        cache_bytes: what it holds now, by all processes that share it.
    """

    slabs_made: int
    slabs_reused: int
    skipped: Mapping[str, int]
    backend: str
    missing: str = ""
    parts: Sequence[PartProgress] = field(default=())
    fetched_bytes: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_kept: int = 0
    cache_damaged: int = 0
    cache_bytes: int = 0

    @property
    def verdict(self) -> Verdict:
        """What sets the pace, in one sentence; see `bottleneck` for how it is found."""
        return judged(self)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Where the time of the threads went, and then that of the consumer; the shares of each add up to 1.

        Decoding and resizing are one stage: the kernel does both in one pass over a picture.
        """
        threads = (
            ("reading", self.read_seconds - self.fetch_wait_seconds),
            ("waiting for remote bytes", self.fetch_wait_seconds),
            ("decoding", self.decode_seconds),
            ("making batches", self.batch_seconds),
            ("without work", self.idle_seconds),
        )
        consumer = (
            ("consumer waiting", self.wait_seconds),
            ("consumer at work", max(0.0, self.seconds - self.wait_seconds)),
        )
        return (
            *(self._stage(name, seconds, self.thread_seconds) for name, seconds in threads),
            self._stage("planning", self.plan_seconds, self.seconds),
            *(self._stage(name, seconds, self.seconds) for name, seconds in consumer),
        )

    def _stage(self, name: str, seconds: float, of: float) -> Stage:
        each = seconds / self.samples * 1e6 if self.samples else 0.0
        return Stage(name, seconds, seconds / of if of else 0.0, each)

    def since(self, before: Report) -> Self:
        """What was counted after an earlier report of the same loader."""
        counts = {name: getattr(self, name) - getattr(before, name) for name in _COUNTED}
        return replace(self, **counts, skipped=dict(Counter(self.skipped) - Counter(before.skipped)))

    def as_dict(self) -> dict[str, object]:
        """All of it as JSON knows it."""
        facts: dict[str, object] = {each.name: getattr(self, each.name) for each in fields(self)}
        derived = ("samples_per_second", "bytes_per_second", "wait_share", "busy_share", "cores_used", "queue")
        facts |= {name: getattr(self, name) for name in derived}
        facts["skipped"] = dict(self.skipped)
        facts["parts"] = [part._asdict() for part in self.parts]
        facts["stages"] = [stage._asdict() for stage in self.stages]
        bound, sentence = self.verdict
        return facts | {"bound": bound, "verdict": sentence}

    def __str__(self) -> str:
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(self.skipped.items()))
        lines = (
            self._made(),
            str(self.verdict) if self.batches else "",
            self._spent(),
            self._fetched() if self.requests else "",
            self._cached() if self.cache_hits or self.cache_misses else "",
            f"skipped: {skipped}" if skipped else "",
            *map(str, self.parts),
            self.missing,
        )
        return "\n".join(filter(None, lines))

    def _made(self) -> str:
        return (
            f"{self.samples:,} samples in {self.batches:,} batches, {self.samples_per_second:,.0f} a second, "
            f"{self.bytes / 1e6:,.1f} MB, {self.bytes_per_second / 1e6:,.1f} MB a second"
        )

    def _spent(self) -> str:
        return (
            f"the consumer waited {self.wait_share:.0%} of {_time(self.seconds)}, {self.queue:.1f} of {self.prefetch} "
            f"batches ready when it came; {self.threads} threads spent {_time(self.read_seconds)} reading, "
            f"{_time(self.decode_seconds)} decoding ({self.backend}), {_time(self.idle_seconds)} without work; "
            f"{self.cores_used:.1f} of {self.cores} cores used; "
            f"{self.slabs_made} slabs made, {self.slabs_reused} reused"
        )

    def _fetched(self) -> str:
        rate = self.fetched_bytes / self.seconds if self.seconds else 0.0
        return (
            f"{self.fetched_bytes / 1e6:,.1f} MB fetched in {self.requests:,} requests, "
            f"{rate / 1e6:,.1f} MB a second, for which the threads waited {self.fetch_wait_share:.0%} of their time"
        )

    def _cached(self) -> str:
        damaged = f", {self.cache_damaged:,} of it damaged" if self.cache_damaged else ""
        share = self.cache_hits / (self.cache_hits + self.cache_misses)
        return (
            f"{share:.0%} of the samples came decoded from the cache, "
            f"{self.cache_kept:,} were added to its {self.cache_bytes / 1e6:,.1f} MB{damaged}"
        )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"

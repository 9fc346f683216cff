"""A loader measured on the user's own shards: how fast, where time goes, what sets the pace, would a step wait.

    with ShardLoader("shards/", batch_size=256, image=RandomResizedCrop(224)) as loader:
        print(bench(loader, seconds=10, step_seconds=0.05).report.verdict)

The loader is iterated epoch after epoch, as training would. The first batch is timed by itself; then follow `warmup`
seconds that are thrown away (files come into the page cache, threads start, memory is allocated), and the seconds that
count. Rates are those of the consumer: batches that it got over the time in which it got them. Their spread is that of
a tenth of the time each.

A step is a sleep: the device computes, the process does not. What a real step takes of the cores comes on top.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from loaders.arguments import check_count
from loaders.bottleneck import Verdict, judged
from loaders.loader import ShardLoader
from loaders.report import Report
from loaders.trial import SmallerPictures, try_smaller
from wds_tools.errors import UsageError

__all__ = ["Bench", "bench"]

_PARTS = 10


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What was measured.

    Attributes:
        report: the loader's, of the time that counted.
        first_batch_seconds: from asking for it to having it: opening the shards, planning and decoding.
        batch_size: samples of a batch, on average.
        slow, fast: samples a second, of the slowest and of the fastest tenth of the time.
        step_seconds: of the step after each batch; 0 for none.
        smaller: what smaller pictures would give; None where that was not tried, or there are none.
    """

    report: Report
    first_batch_seconds: float
    batch_size: float
    slow: float
    fast: float
    step_seconds: float = 0.0
    smaller: SmallerPictures | None = None

    def as_dict(self) -> dict[str, object]:
        """All of it as JSON knows it: the report's facts, and what is found beside."""
        facts = {name: getattr(self, name) for name in ("first_batch_seconds", "batch_size", "slow", "fast")}
        facts |= {name: getattr(self, name) for name in ("step_seconds", "step_wait_seconds", "step_share")}
        facts["smaller"] = None if self.smaller is None else asdict(self.smaller)
        bound, sentence = self.verdict
        return {**self.report.as_dict(), **facts, "bound": bound, "verdict": sentence}

    @property
    def verdict(self) -> Verdict:
        """The report's, with what was tried in place of what it estimates."""
        return judged(self.report, tried=None if self.smaller is None else self.smaller.gain(self.report))

    @property
    def step_wait_seconds(self) -> float:
        """How long the consumer waited for a batch, on average."""
        return self.report.wait_seconds / self.report.batches

    @property
    def step_share(self) -> float:
        """Of the rate that steps of this length would have without waiting, the part that was reached; 1 without."""
        best = self.batch_size / self.step_seconds if self.step_seconds else 0.0
        return min(1.0, self.report.samples_per_second / best) if best else 1.0


def bench(
    loader: ShardLoader,
    *,
    seconds: float = 10.0,
    warmup: float = 2.0,
    batches: int | None = None,
    step_seconds: float = 0.0,
    smaller: bool = True,
    progress: Callable[[], object] = lambda: None,
) -> Bench:
    """Measure a loader.

    Args:
        loader: as training would make it. It goes on from where it stands, and is left somewhere else.
        seconds: that count, at most.
        warmup: seconds before these.
        batches: end after so many that count.
        step_seconds: pretend that the device computes for so long after each batch.
        smaller: try what smaller pictures would give, on some (see `trial`).
        progress: called after each batch.

    Raises:
        UsageError: no time to measure in.
        ShardstreamError: whatever the loader raises.
    """
    _check(seconds, warmup, step_seconds, batches)
    consumer = _Consumer(loader, step_seconds, progress)
    began = time.perf_counter()
    consumer.take()
    first = consumer.marks[0] - began
    consumer.take_for(warmup)
    before, began = loader.report(), time.perf_counter()
    consumer.marks.clear()
    consumer.take()
    consumer.take_for(seconds, most=None if batches is None else batches - 1)
    report = loader.report().since(before)
    each = report.samples / report.batches
    slow, fast = (rate * each for rate in _spread(began, consumer.marks))
    return Bench(
        report=report,
        first_batch_seconds=first,
        batch_size=each,
        slow=slow,
        fast=fast,
        step_seconds=step_seconds,
        smaller=try_smaller(loader) if smaller else None,
    )


def _check(seconds: float, warmup: float, step_seconds: float, batches: int | None) -> None:
    for name, value in (("seconds", seconds), ("warmup", warmup), ("step_seconds", step_seconds)):
        if not 0 <= value < float("inf") or (name == "seconds" and not value):
            raise UsageError(f"{name} is {value!r}, expected seconds", cure="For example seconds=10, warmup=2.")
    if batches is not None:
        check_count("batches", batches)


class _Consumer:
    """Takes batches, each followed by a step.

    Attributes:
        marks: when each batch was had.
    """

    def __init__(self, loader: ShardLoader, step_seconds: float, progress: Callable[[], object]) -> None:
        self.marks: list[float] = []
        self._batches = itertools.chain.from_iterable(itertools.repeat(loader))
        self._step_seconds = step_seconds
        self._progress = progress

    def take(self) -> None:
        """One batch."""
        next(self._batches)
        self.marks.append(time.perf_counter())
        self._progress()
        if self._step_seconds:
            time.sleep(self._step_seconds)

    def take_for(self, seconds: float, *, most: int | None = None) -> None:
        """Batches for so long, and so many at most."""
        until = time.perf_counter() + seconds
        for _ in range(most) if most is not None else itertools.count():
            if time.perf_counter() >= until:
                break
            self.take()


def _spread(begun: float, marks: list[float]) -> tuple[float, float]:
    """Batches a second in the slowest and in the fastest tenth of the time; the mean where there are too few."""
    seconds = marks[-1] - begun
    if len(marks) < 2 * _PARTS:
        return len(marks) / seconds, len(marks) / seconds
    counts = np.histogram(marks, bins=_PARTS, range=(begun, marks[-1]))[0] * _PARTS / seconds
    return float(counts.min()), float(counts.max())

"""Settings of a loader found by measuring: in turn, within a budget of time and memory, the simpler one if in doubt.

1. A first field of candidates (`first_field`: numbers of threads, worker processes) is measured twice, each for a short
   while, in one direction and then in the other: what else runs on the machine then meets all of them.
2. Who is clearly slower is dropped (its best below 0.85 of the leader's median). Next to the leader its neighbours
   (`neighbours`: more batches ahead, and, if asked for, another order) join the field.
3. Those left are measured in turn until the budget is used up, five times at most.

The noise is the median of the candidates' own half spreads, 2% at least, and 25% where one of them was measured only
once: seven such measurements of the same candidate had half spreads of 14 to 24% (half a second for four candidates, a
busy machine). The winner is the simplest candidate within the noise of the fastest: fewer processes, then the loader's
own order, then fewer batches ahead, then fewer threads. Where some were measured only once it is the loader's own
choice if that is within the noise, however simple others are. Who was dropped as slower and has at least the rate of
that winner after all, since the machine was busy at another time, is taken back, and wins if it is simpler.
A step between batches (`step`) makes many as fast as training needs, and so the cheapest of them the winner.

The budget is kept, however small: a first measurement takes its share of what is left, from opening on, even if that is
two batches. Who cannot be begun any more is not measured, nor worker processes where they would only just have started;
so the first field begins with the loader's own number of threads.

What would need more memory than there may be is not tried: batches ahead by the size of a batch that was seen, workers
by what importing torch takes. What was measured to hold more is dropped. Nothing here knows torch, or a clock that
cannot be replaced.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from loaders.arguments import check_count
from wds_tools.errors import UsageError

__all__ = ["WORKERS_START_S", "Candidate", "Opener", "Tried", "Tuned", "first_field", "neighbours", "tune"]

WORKERS_START_S = 10.0
"""What worker processes take to start and to end: 9 seconds were measured on two cores, most of it importing torch."""

_ROUNDS, _FIRST_ROUNDS = 5, 2
_SLOWER = "slower"
_BEHIND = 0.85
_NOISE, _NOISE_OF_ONE = 0.02, 0.25
_MEASURED = 0.6  # of the budget; the rest is for opening, and for the first batches
_SHORTEST_S, _LONGEST_S = 0.25, 5.0
_WORKER_BYTES = 300_000_000  # a worker that has imported torch and holds nothing yet
_SENT_AHEAD = 2  # batches that DataLoader lets each worker send ahead


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One choice of settings.

    Attributes:
        threads: decode threads; of each worker where there are workers.
        prefetch: batches made ahead; of each worker.
        workers: processes of a DataLoader over a ShardDataset; 0 for a ShardLoader.
        block_bytes, lanes: where they are not the loader's own, which makes another order.
    """

    threads: int
    prefetch: int = 2
    workers: int = 0
    block_bytes: int | None = None
    lanes: int | None = None

    @property
    def reordered(self) -> bool:
        """Whether the order of samples is another one."""
        return self.block_bytes is not None or self.lanes is not None

    @property
    def effort(self) -> tuple[int, ...]:
        """Less is simpler."""
        return self.workers, int(self.reordered), self.prefetch, self.threads

    @property
    def batches_held(self) -> int:
        """In memory at once, the one that the caller has included."""
        if self.workers:
            return self.workers * (self.prefetch + _SENT_AHEAD + 1) + 1
        return self.prefetch + 2

    def needs(self, batch_bytes: int) -> int:
        """Bytes that it is bound to hold, of what a batch has."""
        return self.batches_held * batch_bytes + self.workers * _WORKER_BYTES

    def __str__(self) -> str:
        said = [f"workers={self.workers}"] if self.workers else []
        said += [f"threads={self.threads}", f"prefetch={self.prefetch}"]
        said += [f"block_bytes={self.block_bytes}"] if self.block_bytes is not None else []
        said += [f"lanes={self.lanes}"] if self.lanes is not None else []
        return ", ".join(said)


Opener: TypeAlias = Callable[[Candidate], AbstractContextManager[Iterator[Any]]]
"""Gives a candidate's batches, without end; called anew for each time that it is measured."""


@dataclass(kw_only=True)
class Tried:
    """What was found of a candidate.

    Attributes:
        candidate: it.
        rates: samples a second, one for each time that it was measured.
        held_bytes: the most that it held while it ran, beyond what the process held before, worker processes
            included; None where nobody could say.
        dropped: why it was not measured, or not any more; "" where it was to the end.
    """

    candidate: Candidate
    rates: list[float] = field(default_factory=list)
    held_bytes: int | None = None
    dropped: str = ""

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates) if self.rates else 0.0

    @property
    def half_spread(self) -> float:
        """Half the way from the slowest to the fastest, in parts of the median."""
        return (max(self.rates) - min(self.rates)) / 2 / self.rate if self.rates else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "candidate": vars(self.candidate), "rate": self.rate}


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What came out.

    Attributes:
        tried: all candidates, in the order in which they joined.
        winner: what to use.
        fastest: whose median is the highest.
        noise: differences below this part say nothing.
        hurried: some were measured only once, since the budget was used up, and the noise is a guess.
    """

    tried: Sequence[Tried]
    winner: Tried
    fastest: Tried
    noise: float
    hurried: bool = False

    @property
    def why(self) -> str:
        """Why the winner won, a sentence; and how far it is to be believed."""
        once = ". Some were measured only once: in a longer budget smaller differences show" if self.hurried else ""
        return self._reason() + once

    def _reason(self) -> str:
        if self.hurried and self.winner is self.tried[0]:
            return (
                f"{self.winner.candidate}: the loader's own, and nothing is faster beyond the noise ({self.noise:.0%})"
            )
        if self.winner is self.fastest:
            return (
                f"{self.winner.candidate}: the fastest, and nothing simpler comes within the noise ({self.noise:.0%})"
            )
        return (
            f"{self.winner.candidate}: within the noise ({self.noise:.0%}) of the fastest ({self.fastest.candidate}), "
            "and simpler"
        )


def first_field(cores: int, *, workers: bool) -> list[Candidate]:
    """Who is measured first, the loader's own choice to begin with.

    Args:
        cores: that the process may use.
        workers: whether worker processes may be tried.
    """
    others = sorted({1, max(1, cores // 2), max(1, cores - 1), cores + 1, 2 * cores} - {cores})
    found = [Candidate(threads=count) for count in (cores, *others)]
    return [*found, Candidate(threads=1, workers=cores)] if workers else found


def neighbours(leader: Candidate, *, order: bool) -> list[Candidate]:
    """Who is measured next to the leader of the first field.

    Args:
        leader: it.
        order: whether another order may be tried: fewer and longer blocks, which disks and far hosts read faster.
    """
    found = [replace(leader, prefetch=leader.prefetch * times) for times in (2, 4)]
    if order:
        found += [replace(leader, block_bytes=size, lanes=lanes) for size, lanes in ((1 << 20, 480), (4 << 20, 240))]
    return found


def tune(
    candidates: Sequence[Candidate],
    open_batches: Opener,
    *,
    budget_seconds: float,
    memory_bytes: int | None = None,
    more: Callable[[Candidate], Sequence[Candidate]] = lambda _: (),
    step: Callable[[], object] | None = None,
    held: Callable[[Candidate], int | None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[], object] = lambda: None,
) -> Tuned:
    """Measure candidates against each other.

    Args:
        candidates: the first field, the loader's own choice to begin with; where the budget is too small for all, the
            first of them are measured.
        open_batches: gives the batches of a candidate.
        budget_seconds: how long it may take, opening included. Two batches of one candidate are taken even so.
        memory_bytes: that a candidate may hold; None for no limit.
        more: who joins next to a leader.
        step: what the caller does after each batch.
        held: bytes that the process holds at this moment, and its workers where the candidate has some.
        clock: seconds.
        progress: called after each measurement.

    Raises:
        UsageError: nobody fits into the memory, or there is no budget.
    """
    if not 0 < budget_seconds < math.inf:
        raise UsageError(f"budget_seconds is {budget_seconds!r}, expected seconds", cure="For example 60.")
    if memory_bytes is not None:
        check_count("memory_bytes", memory_bytes)
    run = _Run(open_batches, memory_bytes, step, held, clock, progress)
    run.join(candidates)
    until = clock() + budget_seconds
    for number in range(_ROUNDS):
        if number == _FIRST_ROUNDS:
            run.drop_slow()
            run.join(more(run.fastest().candidate))
        field_of_round = run.alive()[:: -1 if number % 2 else 1]
        share = (until - clock()) / max(1, len(field_of_round) * (_ROUNDS - number)) * _MEASURED
        for left, tried in zip(range(len(field_of_round), 0, -1), field_of_round, strict=True):
            if run.has_time(tried, until - clock()):
                run.measure(tried, min(_LONGEST_S, max(_SHORTEST_S, share)), until=clock() + (until - clock()) / left)
            elif not tried.rates:
                tried.dropped = "no time left"
        if clock() >= until:
            break
    return run.result()


@dataclass
class _Run:
    """The field, and how it is measured."""

    open_batches: Opener
    memory_bytes: int | None
    step: Callable[[], object] | None
    held: Callable[[Candidate], int | None]
    clock: Callable[[], float]
    progress: Callable[[], object]
    tried: list[Tried] = field(default_factory=list)
    batch_bytes: int = 0

    def join(self, candidates: Sequence[Candidate]) -> None:
        known = {tried.candidate for tried in self.tried}
        self.tried += [Tried(candidate=each) for each in candidates if each not in known]

    def alive(self) -> list[Tried]:
        return [tried for tried in self.tried if not tried.dropped]

    def fastest(self) -> Tried:
        """Of those that were measured and not dropped.

        Raises:
            UsageError: there is none.
        """
        measured = [tried for tried in self.alive() if tried.rates]
        if not measured:
            least = min(tried.held_bytes or 0 for tried in self.tried)
            raise UsageError(
                f"nothing fits into {self.memory_bytes or 0:,} bytes: {least:,} are the least",
                cure="Allow more memory, or take smaller batches.",
            )
        return max(measured, key=lambda tried: tried.rate)

    def has_time(self, tried: Tried, seconds: float) -> bool:
        """Whether it can be measured in what is left. The first one is, whatever is left."""
        if not any(each.rates for each in self.tried):
            return True
        return seconds > (WORKERS_START_S if tried.candidate.workers and not tried.rates else 0.0)

    def measure(self, tried: Tried, seconds: float, until: float) -> None:
        """Once, for so long but not beyond `until`; or see that it is out of the question."""
        candidate = tried.candidate
        needed = candidate.needs(self.batch_bytes)
        if self.memory_bytes is not None and needed > self.memory_bytes:
            tried.held_bytes, tried.dropped = needed, "would need more memory"
            return
        before = self.held(Candidate(threads=1))
        with self.open_batches(candidate) as batches:
            begun = self.clock()
            self._take(batches)
            for _ in range(candidate.batches_held):  # those that were made while nobody looked
                now = self.clock()
                if now + (now - begun) >= until:  # the next may take as long, and one has to be measured
                    break
                begun = now
                self._take(batches)
            begun = self.clock()
            samples = self._take(batches)
            while self.clock() < min(begun + seconds, until):
                samples += self._take(batches)
            spent = self.clock() - begun
            tried.rates.append(samples / spent)
            after = self.held(candidate)
        if before is not None and after is not None:
            tried.held_bytes = max(tried.held_bytes or 0, after - before)
        if self.memory_bytes is not None and (tried.held_bytes or 0) > self.memory_bytes:
            tried.dropped = "holds more memory"
        self.progress()

    def _take(self, batches: Iterator[Any]) -> int:
        """One batch and its step; says how many samples it has."""
        batch = next(batches)
        self.batch_bytes = max(self.batch_bytes, sum(int(getattr(column, "nbytes", 0)) for column in batch))
        if self.step is not None:
            self.step()
        return len(batch[0])

    def drop_slow(self) -> None:
        """Who is clearly behind."""
        leader = self.fastest()
        for tried in self.alive():
            if tried.rates and max(tried.rates) < _BEHIND * leader.rate:
                tried.dropped = _SLOWER

    def result(self) -> Tuned:
        fastest = self.fastest()
        measured = [tried for tried in self.alive() if tried.rates]
        hurried = any(len(tried.rates) == 1 for tried in measured)
        least = _NOISE_OF_ONE if hurried else _NOISE
        noise = max(least, statistics.median(tried.half_spread for tried in measured))
        good = [tried for tried in measured if tried.rate >= fastest.rate * (1 - noise)]
        winner = self.tried[0] if hurried and self.tried[0] in good else min(good, key=_effort)
        back = [tried for tried in self.tried if tried.dropped == _SLOWER and tried.rate >= winner.rate]
        for tried in back:
            tried.dropped = ""
        winner = min([winner, *back], key=_effort)
        return Tuned(tried=tuple(self.tried), winner=winner, fastest=self.fastest(), noise=noise, hurried=hurried)


def _effort(tried: Tried) -> tuple[int, ...]:
    return tried.candidate.effort

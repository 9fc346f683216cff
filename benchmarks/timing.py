"""The one timing function of all benchmarks: contestants in turn, wall clock, on a machine that is watched.

Only ratios within a run mean anything: a machine that others share runs at half speed for minutes at a time. So the
contestants alternate, round by round and in the other direction every second round, and between two samples two
processes spin for a moment. Each must get 0.93 of a core (its CPU time over wall clock). A sample with a worse check
before or after it is thrown away and taken again, a few times; what is still disturbed then is kept and marked noisy.

A contestant is a function that returns an iterator of how much it did. Up to its first yield it sets up (starts
workers, waits for the first batch); the clock runs from there to its last. What the first yield says is not counted.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Contestant", "Timing", "Watch", "compare", "core_share"]

Contestant = Callable[[], Iterable[int]]

ENOUGH = 0.93
SPINNERS = 2
SPIN_SECONDS = 0.2
# CPU time of the spinner over its own wall clock; both begin when the interpreter is up.
SPIN = f"""
import time
wall, cpu = time.perf_counter(), time.process_time()
while time.perf_counter() - wall < {SPIN_SECONDS}: pass
print((time.process_time() - cpu) / (time.perf_counter() - wall))
"""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How much care is taken.

    Attributes:
        rounds: samples of each contestant; one more, before, warms caches and is thrown away.
        machine: whether to check the machine; without, nothing is repeated and nothing noisy.
        patience: how often a disturbed sample is taken again, and how often a check is before a sample is taken at all.
    """

    rounds: int = 5
    machine: bool = True
    patience: int = 4


@dataclass
class Timing:
    """What one contestant did.

    Attributes:
        rates: work a second, one for each sample.
        noisy: how many of these samples were disturbed and kept all the same.
    """

    rates: list[float] = field(default_factory=list)
    noisy: int = 0

    @property
    def rate(self) -> float:
        """The median of the samples."""
        return statistics.median(self.rates)

    @property
    def spread(self) -> tuple[float, float]:
        """The slowest and the fastest of them."""
        return min(self.rates), max(self.rates)


def compare(contestants: Mapping[str, Contestant], watch: Watch) -> dict[str, Timing]:
    """Time the contestants against each other; the result has their names in the same order."""
    timings = {name: Timing() for name in contestants}
    machine = _Machine(watch)
    for contestant in contestants.values():
        _sample(contestant)
    for number in range(watch.rounds):
        names = list(contestants)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            rate, quiet = machine.sample(contestants[name])
            timings[name].rates.append(rate)
            timings[name].noisy += not quiet
    return timings


def core_share() -> float:
    """The share of a core that the worse off of two spinning processes gets at this moment, 0 to 1."""
    spinners = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", SPIN], stdout=subprocess.PIPE, text=True)
        for _ in range(SPINNERS)
    ]
    return min(float(spinner.communicate()[0]) for spinner in spinners)


class _Machine:
    """Whether the machine is ours; the check after one sample is the check before the next."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._quiet = not watch.machine

    def sample(self, contestant: Contestant) -> tuple[float, bool]:
        """The rate, and whether nothing disturbed it."""
        for _ in range(self._watch.patience + 1):
            before = self._wait()
            rate = _sample(contestant)
            if self._look() and before:
                return rate, True
        return rate, False

    def _wait(self) -> bool:
        return self._quiet or any(self._look() for _ in range(self._watch.patience))

    def _look(self) -> bool:
        self._quiet = not self._watch.machine or core_share() >= ENOUGH
        return self._quiet


def _sample(contestant: Contestant) -> float:
    steps = iter(contestant())
    next(steps)
    began = time.perf_counter()
    done, ended = 0, began
    for count in steps:
        done, ended = done + count, time.perf_counter()
    return done / (ended - began)

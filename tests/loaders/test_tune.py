"""Settings found by measuring: candidates whose speed is known, against a clock that they move."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from loaders.tune import Candidate, Tuned, first_field, neighbours, tune
from wds_tools.errors import UsageError

BATCH = 10


@dataclass
class World:
    """Where a batch of a candidate takes BATCH / speed seconds, and a candidate holds so many bytes."""

    speed: Callable[[Candidate, int], float]
    holds: Callable[[Candidate], int | None] = lambda _: 0
    now: float = 0.0
    opened: list[Candidate] = field(default_factory=list)
    running: int = 0

    @contextlib.contextmanager
    def open(self, candidate: Candidate) -> Iterator[Iterator[Any]]:
        number = self.opened.count(candidate)
        self.opened.append(candidate)
        self.running += 1
        try:
            yield self._batches(candidate, number)
        finally:
            self.running -= 1

    def _batches(self, candidate: Candidate, number: int) -> Iterator[Any]:
        while True:
            self.now += BATCH / self.speed(candidate, number)
            yield (np.zeros((BATCH, 100), np.uint8), [0] * BATCH)

    def held(self, candidate: Candidate) -> int | None:
        return self.holds(candidate) if self.running else 0

    def tune(self, candidates: list[Candidate], **options: Any) -> Tuned:
        return tune(
            candidates, self.open, **{"budget_seconds": 1000.0, "clock": lambda: self.now, "held": self.held, **options}
        )


def by_threads(candidate: Candidate, _: int) -> float:
    return {1: 500.0, 2: 900.0, 3: 905.0, 4: 700.0}[candidate.threads]


FIELD = [Candidate(threads=count) for count in (1, 2, 3, 4)]


def test_the_simplest_within_the_noise_wins() -> None:
    found = World(by_threads).tune(FIELD)
    assert found.winner.candidate == Candidate(threads=2)
    assert found.fastest.candidate == Candidate(threads=3)
    assert found.noise == 0.02
    assert (
        found.why == "threads=2, prefetch=2: within the noise (2%) of the fastest (threads=3, prefetch=2), and simpler"
    )


def test_what_is_faster_beyond_the_noise_wins() -> None:
    found = World(lambda candidate, _: 100.0 * candidate.threads).tune(FIELD)
    assert found.winner is found.fastest
    assert found.winner.candidate.threads == 4
    assert found.why.endswith("the fastest, and nothing simpler comes within the noise (2%)")


def test_rates_are_what_they_are() -> None:
    found = World(by_threads).tune(FIELD)
    assert [round(tried.rate) for tried in found.tried] == [500, 900, 905, 700]
    assert [tried.dropped for tried in found.tried] == ["slower", "", "", "slower"]
    assert [len(tried.rates) for tried in found.tried] == [2, 5, 5, 2]


def test_they_are_measured_in_turn_in_both_directions() -> None:
    world = World(by_threads)
    world.tune(FIELD)
    assert world.opened[:8] == [*FIELD, *FIELD[::-1]]
    assert world.running == 0


def test_noise_is_seen() -> None:
    def speed(candidate: Candidate, number: int) -> float:
        return (920.0 if candidate.threads == 1 else 1000.0) * (0.85, 1.15, 1.0, 0.9, 1.1)[number]

    found = World(speed).tune(FIELD[:2])
    assert found.noise == pytest.approx(0.15, rel=0.05)
    assert found.winner.candidate.threads == 1


def test_who_was_dropped_is_taken_back_when_others_turn_out_no_faster() -> None:
    def busy(candidate: Candidate, number: int) -> float:
        if candidate.threads == 2:
            return 500.0  # dropped beside the 900 that three threads have in the first two rounds
        return {1: 100.0, 3: 900.0 if number < 2 else 300.0}[candidate.threads]

    found = World(busy).tune(FIELD[:3])
    assert found.noise > 0.15
    assert found.winner.candidate == Candidate(threads=2)
    assert [tried.dropped for tried in found.tried] == ["slower", "", ""]


def test_neighbours_join_the_leader() -> None:
    def speed(candidate: Candidate, _: int) -> float:
        return by_threads(candidate, 0) * (1.5 if candidate.prefetch >= 4 else 1.0)

    found = World(speed).tune(FIELD, more=lambda leader: neighbours(leader, order=False))
    assert found.winner.candidate == Candidate(threads=3, prefetch=4)
    assert [tried.candidate.prefetch for tried in found.tried] == [2, 2, 2, 2, 4, 8]


def test_another_order_only_where_it_is_faster() -> None:
    def more(leader: Candidate) -> list[Candidate]:
        return neighbours(leader, order=True)

    same = World(lambda *_: 100.0).tune(FIELD, more=more)
    assert not same.winner.candidate.reordered
    better = World(lambda candidate, _: 300.0 if candidate.lanes == 240 else 100.0).tune(FIELD, more=more)
    assert better.winner.candidate.reordered
    assert better.winner.candidate.block_bytes == 4 << 20


def test_processes_only_where_they_are_faster() -> None:
    workers = Candidate(threads=1, workers=2)
    assert World(lambda *_: 100.0).tune([Candidate(threads=1), workers]).winner.candidate == Candidate(threads=1)
    faster = World(lambda candidate, _: 200.0 if candidate.workers else 100.0)
    assert faster.tune([Candidate(threads=1), workers]).winner.candidate == workers


def test_a_step_makes_the_cheapest_win() -> None:
    world = World(by_threads)

    def step() -> None:
        world.now += 0.1

    def speed(candidate: Candidate, _: int) -> float:  # what is made ahead while the step runs costs no time
        return 1e9 if by_threads(candidate, 0) >= 100 else 1.0

    world.speed = speed
    found = world.tune(FIELD, step=step)
    assert found.winner.candidate == Candidate(threads=1)
    assert found.winner.rate == pytest.approx(100, rel=0.01)


def test_the_budget_is_kept_and_each_measured_once() -> None:
    world = World(by_threads)
    found = world.tune(FIELD, budget_seconds=0.1)
    assert [len(tried.rates) for tried in found.tried] == [1, 1, 1, 1]
    assert (found.noise, found.hurried) == (0.25, True)
    spent = World(by_threads)
    spent.tune(FIELD, budget_seconds=60)
    assert 30 < spent.now < 70


def test_measured_once_only_what_is_far_ahead_is_told_from_the_loader_s_own() -> None:
    def found(speed: float) -> Tuned:
        world = World(lambda candidate, _: 1000.0 if candidate.threads == 2 else speed)
        return world.tune([FIELD[1], FIELD[0], FIELD[2]], budget_seconds=0.1)

    near, far = found(1200.0), found(1500.0)
    assert near.hurried
    assert near.winner.candidate == FIELD[1]
    assert near.why.startswith("threads=2, prefetch=2: the loader's own, and nothing is faster beyond the noise (25%)")
    assert near.why.endswith("Some were measured only once: in a longer budget smaller differences show")
    assert far.winner.candidate == FIELD[0]
    assert not World(by_threads).tune(FIELD).hurried


@pytest.mark.parametrize("budget", [0.5, 7.0, 15.0, 40.0])
def test_batches_that_take_seconds_do_not_overrun_it(budget: float) -> None:
    world = World(lambda candidate, _: 5.0 * candidate.threads)  # a batch takes 2, 1, 2/3, 1/2 seconds
    found = world.tune([FIELD[3], *FIELD[:3]], budget_seconds=budget)
    assert world.now <= budget + 4.0  # two batches of the one that was begun last
    assert found.winner.candidate == FIELD[3]
    unseen = [tried for tried in found.tried if not tried.rates]
    assert all(tried.dropped == "no time left" for tried in unseen)
    assert bool(unseen) == (budget < 15.0)


def test_processes_are_not_started_for_a_moment() -> None:
    workers = Candidate(threads=1, workers=2)
    world = World(lambda *_: 100.0)
    assert world.tune([FIELD[0], workers], budget_seconds=9.0).tried[1].dropped == "no time left"
    assert workers not in world.opened
    assert World(lambda *_: 100.0).tune([FIELD[0], workers], budget_seconds=30.0).tried[1].rates


def test_memory_that_is_not_there() -> None:
    found = World(by_threads, holds=lambda candidate: candidate.threads * 1000).tune(FIELD, memory_bytes=15_000)
    assert [tried.dropped for tried in found.tried] == ["slower", "", "", "slower"]
    held = World(by_threads, holds=lambda candidate: candidate.threads * 4000).tune(FIELD, memory_bytes=9000)
    assert [tried.dropped for tried in held.tried] == ["slower", "", "holds more memory", "holds more memory"]
    assert held.winner.candidate.threads == 2
    workers = World(by_threads)
    found = workers.tune([FIELD[0], Candidate(threads=2, workers=64)], memory_bytes=1 << 30)
    assert found.tried[1].dropped == "would need more memory"
    assert workers.opened.count(Candidate(threads=2, workers=64)) == 0


def test_batches_ahead_are_weighed_by_the_size_of_a_batch() -> None:
    world = World(lambda *_: 100.0)
    found = world.tune([Candidate(threads=1), Candidate(threads=1, prefetch=50)], memory_bytes=20 * BATCH * 100)
    assert [tried.dropped for tried in found.tried] == ["", "would need more memory"]


def test_nothing_fits() -> None:
    with pytest.raises(UsageError, match="4,000 are the least"):
        World(by_threads, holds=lambda candidate: candidate.threads * 4000).tune(FIELD, memory_bytes=3000)


@pytest.mark.parametrize("wrong", [{"budget_seconds": 0.0}, {"budget_seconds": float("inf")}, {"memory_bytes": 0}])
def test_wrong_use(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        World(by_threads).tune(FIELD, **wrong)


def test_the_first_field() -> None:
    assert [each.threads for each in first_field(1, workers=False)] == [1, 2]
    assert [each.threads for each in first_field(8, workers=False)] == [8, 1, 4, 7, 9, 16]
    assert first_field(8, workers=True)[-1] == Candidate(threads=1, workers=8)

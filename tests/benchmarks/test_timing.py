"""The timing function: who is timed, in which order, what is counted, what happens on a machine that is disturbed."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import timing
from benchmarks.timing import Contestant, Watch, compare, core_share


class Clock:
    """Wall clock that moves when a contestant works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", clock)  # type: ignore[attr-defined]
    return clock


def worker(clock: Clock, log: list[str], name: str, seconds: float) -> Contestant:
    def run() -> Iterator[int]:
        log.append(name)
        clock.now += 100.0  # setting up is not timed
        yield 5
        for _ in range(2):
            clock.now += seconds
            yield 10
        clock.now += 100.0  # nor is taking down

    return run


def test_the_clock_runs_from_the_first_yield_to_the_last(clock: Clock) -> None:
    found = compare(
        {"a": worker(clock, [], "a", 0.5), "b": worker(clock, [], "b", 2.0)}, Watch(rounds=3, machine=False)
    )
    assert {name: each.rates for name, each in found.items()} == {"a": [20.0] * 3, "b": [5.0] * 3}
    assert found["a"].rate == 20.0
    assert list(found) == ["a", "b"]


def test_contestants_alternate_after_a_warming_round(clock: Clock) -> None:
    log: list[str] = []
    compare({name: worker(clock, log, name, 1.0) for name in "abc"}, Watch(rounds=2, machine=False))
    assert "".join(log) == "abc" + "abc" + "cba"


def checks(monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
    remaining = iter(shares)
    monkeypatch.setattr(timing, "core_share", lambda: next(remaining))


def test_a_disturbed_sample_is_taken_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(monkeypatch, 0.99, 0.50, 0.98, 0.97)
    # quiet before; disturbed after: thrown away; quiet before the second try and after it
    log: list[str] = []
    found = compare({"a": worker(clock, log, "a", 1.0)}, Watch(rounds=1))
    assert log == ["a"] * 3
    assert (len(found["a"].rates), found["a"].noisy) == (1, 0)


def test_what_stays_disturbed_is_kept_and_marked(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(monkeypatch, *[0.4] * 100)
    log: list[str] = []
    found = compare({"a": worker(clock, log, "a", 1.0)}, Watch(rounds=2, patience=1))
    assert log == ["a"] * (1 + 2 * 2)
    assert (len(found["a"].rates), found["a"].noisy) == (2, 2)


def test_the_check_after_a_sample_is_the_check_before_the_next(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    checks(monkeypatch, *[0.95] * 4)  # one before, and one after each of three samples
    found = compare({"a": worker(clock, [], "a", 1.0)}, Watch(rounds=3))
    assert found["a"].noisy == 0


def test_the_share_of_a_core_is_a_share() -> None:
    assert 0.0 < core_share() < 1.1


def test_the_frozen_options_are_what_they_say() -> None:
    options: Any = Watch()
    assert (options.rounds, options.machine, options.patience) == (5, True, 4)

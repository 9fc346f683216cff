import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter import jobs as module
from shardwriter.jobs import Width, check_jobs, in_order
from tests.builders import settle
from wds_tools.cores import usable_cores
from wds_tools.errors import UsageError

I = TypeVar("I")  # noqa: E741 - the item
R = TypeVar("R")


def each(work: Callable[[I], R]) -> Callable[[Sequence[I]], Iterable[R]]:
    return partial(map, work)


@given(
    st.lists(st.sampled_from([1, 1000, 300_000, 2_000_000, 9_000_000]), max_size=120),
    st.integers(1, 5),
    st.booleans(),
)
def test_results_come_in_order_and_each_item_is_worked_on_once(sizes: list[int], jobs: int, light: bool) -> None:
    done: list[int] = []

    def work(item: int) -> tuple[int, int]:
        done.append(item)
        return item, sizes[item]

    with closing(
        in_order(each(work), range(len(sizes)), jobs=jobs, size=lambda result: result[1], light=light)
    ) as results:
        assert list(results) == list(enumerate(sizes))
    assert sorted(done) == list(range(len(sizes)))


@pytest.mark.parametrize("jobs", [2, 3])
def test_no_more_is_begun_than_the_bounds_say(jobs: int) -> None:
    """Results of a MiB each: chunks are of one item, and no more chunks are ahead than stated."""
    begun = threading.Semaphore(0)

    def work(item: int) -> int:
        begun.release()
        return item

    most = 2 * jobs + 4
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in count():
            taken.append(item)
            yield item

    with closing(in_order(each(work), items(), jobs=jobs, size=lambda _: 1 << 20)) as results:
        for number in range(100):
            assert next(results) == number
            assert len(taken) <= number + 1 + most


def test_large_results_do_not_pile_up_in_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones first, so that chunks are long; then large ones, which are let go only as they are fetched."""
    held: list[int] = []
    lock = threading.Lock()
    most = 0

    def work(item: int) -> int:
        nonlocal most
        size = 100 if item < 500 else 5_000_000
        with lock:
            held.append(size)
            most = max(most, sum(held))
        return size

    with closing(in_order(each(work), range(700), jobs=2, size=lambda size: size)) as results:
        for size in results:
            with lock:
                held.remove(size)
    assert most <= 8 * (module.MOST_BYTES + 5_000_000)
    assert held == []


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_an_error_comes_out_at_its_place_and_no_thread_stays(jobs: int) -> None:
    settle()
    before = set(threading.enumerate())

    def work(item: int) -> int:
        if item == 40:
            raise ZeroDivisionError("at 40")
        return item

    got: list[int] = []
    with (
        pytest.raises(ZeroDivisionError, match="at 40"),
        closing(in_order(each(work), range(90), jobs=jobs, size=int)) as it,
    ):
        got.extend(it)
    assert got == list(range(len(got)))
    assert len(got) <= 40
    assert set(threading.enumerate()) <= before  # others' threads may end meanwhile


def test_stopping_early_leaves_no_thread() -> None:
    settle()
    before = set(threading.enumerate())
    with closing(in_order(each(lambda item: item), count(), jobs=3, size=int)) as results:
        assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert set(threading.enumerate()) - before
    assert set(threading.enumerate()) <= before  # others' threads may end meanwhile


def test_light_work_begins_in_the_calling_thread_and_all_others_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(module, "TRIAL_SECONDS", 0.0)
    work = each(lambda _: threading.get_ident())
    with closing(in_order(work, range(20_000), jobs=3, size=int, light=True)) as results:
        found = list(results)
    assert found[0] == threading.get_ident()
    assert set(found) > {threading.get_ident()}


def test_one_job_works_in_the_calling_thread() -> None:
    with closing(in_order(each(lambda _: threading.get_ident()), range(3), jobs=1, size=int)) as results:
        assert set(results) == {threading.get_ident()}


def run(width: Width, rates: dict[int, float], seconds: float, start: float = 0.0) -> dict[int, float]:
    """Let a width choose for so many seconds in a world where so many threads beside do so many chunks a second."""
    now, spent = start, dict.fromkeys(rates, 0.0)
    waiting: list[tuple[int, int]] = []
    while now < start + seconds:
        while len(waiting) < width.ahead:
            phase = width.begun(now)
            waiting.append((phase, width.threads))
        phase, threads = waiting.pop(0)
        now += 1 / rates[threads]
        spent[threads] += 1 / rates[threads]
        width.fetched(phase, 10, now)
    return spent


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize(("rates", "best"), [({0: 1000.0, 8: 600.0}, 0), ({0: 20.0, 8: 150.0}, 8)])
def test_most_of_the_time_goes_to_the_faster_number_of_threads(rates: dict[int, float], best: int, light: bool) -> None:
    width = Width(8, 0.0, light=light)
    assert width.threads == (0 if light else 8)
    spent = run(width, rates, 600.0)
    assert spent[best] > 0.95 * sum(spent.values())


@pytest.mark.parametrize("light", [False, True])
def test_a_run_of_a_moment_is_not_spent_on_trying(light: bool) -> None:
    width = Width(8, 0.0, light=light)
    spent = run(width, {0: 500.0, 8: 500.0}, 1.9)
    assert spent[8 if light else 0] == 0.0
    assert run(width, {0: 500.0, 8: 500.0}, 2.0, start=1.9)[8 if light else 0] > 0.2


def test_a_change_of_the_work_is_noticed() -> None:
    width = Width(8, 0.0)
    run(width, {0: 1000.0, 8: 600.0}, 60.0)
    spent = run(width, {0: 20.0, 8: 150.0}, 600.0, start=60.0)
    assert spent[8] > 0.8 * sum(spent.values())


def test_jobs_are_all_usable_cores_by_default() -> None:
    assert check_jobs(None) == usable_cores()
    assert check_jobs(7) == 7


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_numbers_that_cannot_be_are_refused(jobs: int) -> None:
    with pytest.raises(UsageError, match="jobs is"):
        check_jobs(jobs)

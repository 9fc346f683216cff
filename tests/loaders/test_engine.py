"""Jobs come out in order, bounded, errors in their turn, and no thread stays behind."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from loaders.engine import Engine
from wds_tools.errors import UnavailableError, UsageError


@dataclass
class Squares:
    """A job whose slots are squares of numbers."""

    number: int
    slots: int
    chunk: int = 3
    error: BaseException | None = None
    made: list[int] = field(default_factory=list)
    sum: int = -1

    def __post_init__(self) -> None:
        self.made = [-1] * self.slots

    def finish(self) -> None:
        self.sum = sum(self.made)


def work(job: Squares, low: int, high: int, state: list[int]) -> None:
    state.append(job.number)
    for slot in range(low, high):
        if job.number == 13:
            raise ValueError("thirteen")
        job.made[slot] = (job.number + slot) ** 2


def engine_of(threads: int = 3, ahead: int = 2) -> Engine[Squares, list[int]]:
    return Engine(work, list, threads=threads, ahead=ahead)


def names() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream"))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("slots", [0, 1, 7, 16])
def test_jobs_come_in_order_and_whole(threads: int, slots: int) -> None:
    engine = engine_of(threads)
    engine.start(Squares(number, slots) for number in range(10))
    jobs = [engine.take() for _ in range(10)]
    assert [job.number for job in jobs] == list(range(10))
    assert [job.sum for job in jobs] == [sum((job.number + s) ** 2 for s in range(slots)) for job in jobs]
    with pytest.raises(StopIteration):
        engine.take()
    engine.close()


def test_no_more_jobs_are_begun_than_wanted() -> None:
    drawn: list[int] = []
    third = threading.Event()

    def jobs() -> Iterator[Squares]:
        for number in itertools.count():
            drawn.append(number)
            if number == 2:
                third.set()
            yield Squares(number, 4)

    engine = engine_of(ahead=2)
    engine.start(jobs())
    assert engine.take().number == 0
    assert third.wait(30)  # one was taken, so a third is drawn, and no fourth
    engine.close()
    assert drawn == [0, 1, 2]


def test_an_error_is_raised_in_its_turn() -> None:
    engine = engine_of()
    engine.start(Squares(number, 5) for number in range(11, 20))
    assert [engine.take().number for _ in range(2)] == [11, 12]
    with pytest.raises(ValueError, match="thirteen"):
        engine.take()
    assert engine.take().number == 14
    engine.close()


def test_an_error_of_the_planner_is_raised_after_the_jobs_before_it() -> None:
    def jobs() -> Iterator[Squares]:
        yield Squares(1, 5)
        raise KeyError("plan")

    engine = engine_of()
    engine.start(jobs())
    assert engine.take().number == 1
    with pytest.raises(KeyError, match="plan"):
        engine.take()
    engine.close()


def test_an_error_of_finishing_is_raised() -> None:
    class Bad(Squares):
        def finish(self) -> None:
            raise OSError("finish")

    engine = engine_of()
    engine.start(iter([Bad(1, 5)]))
    with pytest.raises(OSError, match="finish"):
        engine.take()
    engine.close()


def test_an_error_of_a_threads_own_state_is_raised_and_not_waited_for() -> None:
    def no_state() -> list[int]:
        raise MemoryError("scratch")

    engine: Engine[Squares, list[int]] = Engine(work, no_state, threads=2, ahead=2)
    engine.start(Squares(number, 5) for number in itertools.count())
    for _ in range(3):
        with pytest.raises(MemoryError, match="scratch"):
            engine.take()
    engine.close()


@pytest.mark.parametrize("where", ["work", "finish", "plan"])
def test_a_stopiteration_is_an_error_and_no_end(where: str) -> None:
    class Ends(Squares):
        def finish(self) -> None:
            raise StopIteration(where)

    class Jobs(Iterator[Squares]):
        def __next__(self) -> Squares:
            return Ends(1, 5)

    class Unplanned(Squares):
        @property
        def chunk(self) -> int:
            raise StopIteration(where)

        @chunk.setter
        def chunk(self, value: int) -> None:
            pass

    def stops(job: Squares, low: int, high: int, state: list[int]) -> None:
        if where == "work":
            raise StopIteration(where)

    engine: Engine[Squares, list[int]] = Engine(stops, list, threads=2, ahead=2)
    engine.start(iter([Unplanned(1, 5)]) if where == "plan" else Jobs())
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        engine.take()
    assert isinstance(caught.value.__cause__, StopIteration)
    engine.close()


@pytest.mark.parametrize("call", ["start", "take", "close"])
def test_its_own_threads_are_told_instead_of_waiting_for_themselves(call: str) -> None:
    def reenters(job: Squares, low: int, high: int, state: list[int]) -> None:
        getattr(engine, call)(*[iter(())] * (call == "start"))

    engine: Engine[Squares, list[int]] = Engine(reenters, list, threads=2, ahead=2)
    engine.start(iter([Squares(1, 5)]))
    with pytest.raises(UsageError, match="thread of its own"):
        engine.take()
    engine.close()


def test_its_own_feeder_is_told_too() -> None:
    def jobs() -> Iterator[Squares]:
        engine.close()
        yield Squares(1, 5)

    engine = engine_of()
    engine.start(jobs())
    with pytest.raises(UsageError, match="thread of its own"):
        engine.take()
    engine.close()


def test_who_waits_is_told_that_another_thread_closed() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def waits(job: Squares, low: int, high: int, state: list[int]) -> None:
        begun.set()
        assert go_on.wait(30)

    engine: Engine[Squares, list[int]] = Engine(waits, list, threads=1, ahead=2)
    engine.start(Squares(number, 5) for number in range(9))
    assert begun.wait(30)
    closer = threading.Thread(target=engine.close)
    closer.start()
    with pytest.raises(UsageError, match="closed"):
        engine.take()  # begun before or after the close: it says so
    go_on.set()
    closer.join(30)
    assert not closer.is_alive()


def test_starting_anew_drops_what_was_begun() -> None:
    engine = engine_of()
    for first in (0, 100, 200):
        engine.start(Squares(number, 5) for number in itertools.count(first))
        assert [engine.take().number for _ in range(3)] == list(range(first, first + 3))
    engine.close()


def test_closing_leaves_no_thread_and_may_be_repeated() -> None:
    before = names()
    engine = engine_of(threads=4)
    engine.start(Squares(number, 5) for number in itertools.count())
    engine.take()
    assert len(names()) == len(before) + 5
    engine.close()
    engine.close()
    assert names() == before
    with pytest.raises(UsageError, match="closed"):
        engine.start(iter(()))


def test_abandoning_ends_all_threads() -> None:
    before = set(threading.enumerate())
    engine = engine_of(threads=4)
    engine.start(Squares(number, 5) for number in itertools.count())
    engine.take()
    engine.abandon()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_is_told_instead_of_waiting_for_ever() -> None:
    engine = engine_of()
    engine.start(Squares(number, 5) for number in itertools.count())
    engine.take()
    child = os.fork()
    if child == 0:
        try:
            engine.take()
        except UsageError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    engine.close()


def test_jobs_that_nobody_took_do_not_wait_for_the_collector() -> None:
    """Their batches are large, and a process that breaks its epochs off has few objects for the collector to count."""
    made: list[weakref.ref[Squares]] = []

    def jobs() -> Iterator[Squares]:
        for number in range(20, 40):
            job = Squares(number, 4)
            made.append(weakref.ref(job))
            yield job

    gc.collect()
    gc.disable()
    try:
        engine = engine_of(ahead=3)
        engine.start(jobs())
        engine.take()
        engine.start(iter(()))
        with pytest.raises(StopIteration):
            engine.take()
        engine.close()
        assert len(made) >= 2
        assert [job() for job in made] == [None] * len(made)
    finally:
        gc.enable()


@pytest.mark.parametrize("most", [0, 2, 3])
def test_where_no_more_threads_may_begin_it_says_so_and_ends(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    begin, left = threading.Thread.start, [None] * most

    def limited(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        begin(self)

    engine = engine_of(threads=3)
    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(UnavailableError, match="fewer threads="):
        engine.start(Squares(number, 4) for number in range(5))
    monkeypatch.undo()
    if most:  # once there is room again, it goes on
        engine.start(Squares(number, 4) for number in range(5))
        assert [engine.take().number for _ in range(5)] == list(range(5))
    engine.close()
    assert not names()

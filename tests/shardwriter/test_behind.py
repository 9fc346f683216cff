import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from shardwriter.behind import MOST, Behind


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_calls_are_done_in_order_by_the_other_thread(thread: ThreadPoolExecutor) -> None:
    done: list[tuple[int, int]] = []
    behind = Behind(thread)
    for number in range(50):
        behind.add(partial(lambda number: done.append((number, threading.get_ident())), number))
    behind.settle()
    behind.settle()
    assert [number for number, _ in done] == list(range(50))
    (ident,) = {ident for _, ident in done}
    assert ident != threading.get_ident()


def test_no_more_wait_than_stated(thread: ThreadPoolExecutor) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)
    behind = Behind(thread)
    for _ in range(MOST):
        behind.add(partial(gate.wait, 60))

    def add() -> None:
        behind.add(lambda: None)
        begun.release()

    late = threading.Thread(target=add)
    late.start()
    assert not begun.acquire(timeout=0.1)
    gate.set()
    assert begun.acquire(timeout=60)
    late.join()
    behind.settle()


def fail() -> None:
    raise ZeroDivisionError("here")


def test_what_a_call_raises_comes_out_later_and_once(thread: ThreadPoolExecutor) -> None:
    behind = Behind(thread)
    behind.add(fail)
    with pytest.raises(ZeroDivisionError, match="here"):
        behind.settle()
    behind.settle()
    behind.add(fail)
    with pytest.raises(ZeroDivisionError):
        for _ in range(MOST + 1):
            behind.add(lambda: None)


def test_dropping_waits_for_what_has_begun_and_does_no_more(thread: ThreadPoolExecutor) -> None:
    done: list[str] = []
    started, gate = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        gate.wait(60)
        done.append("slow")
        raise ZeroDivisionError

    behind = Behind(thread)
    behind.add(slow)
    behind.add(lambda: done.append("never"))
    assert started.wait(60)
    threading.Timer(0.05, gate.set).start()
    behind.drop()
    assert done == ["slow"]
    behind.drop()
    behind.settle()

"""Progress: plain lines in a log, a bar on a terminal, the same closing line in both."""

import io
import os
import pty
import threading

import pytest

from wds_tools import progress


class Clock:
    """Seconds that move when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_every_few_seconds_and_a_summary() -> None:
    log, clock = io.StringIO(), Clock()
    with progress.bar("packing", total=1000, unit="pictures", stream=log, clock=clock) as bar:
        for _ in range(10):
            clock.now += 1.0
            bar.advance(100)
    assert log.getvalue().splitlines() == [
        "packing: 500 of 1,000 pictures, 100/s, 5.0 s left",
        "packing: 1,000 of 1,000 pictures, 100/s",
        "packing: 1,000 pictures in 10 s, 100/s",
    ]


def test_a_note_stands_behind_the_count_in_a_log_and_in_the_summary() -> None:
    log, clock = io.StringIO(), Clock()
    with progress.bar("packing", total=200, unit="pictures", stream=log, clock=clock) as bar:
        bar.note("2 shards, 1 not packed")
        clock.now += 10.0
        bar.advance(100)
        bar.note("3 shards, 1 not packed")
    assert log.getvalue().splitlines() == [
        "packing: 100 of 200 pictures, 10/s, 10 s left; 2 shards, 1 not packed",
        "packing: 100 pictures in 10 s, 10/s; 3 shards, 1 not packed",
    ]


def test_what_an_earlier_run_did_is_no_part_of_the_rate() -> None:
    log, clock = io.StringIO(), Clock()
    with progress.bar("packing", total=1000, unit="pictures", stream=log, clock=clock) as bar:
        bar.skip(800)
        clock.now += 5.0
        bar.advance(50)
    assert log.getvalue().splitlines() == [
        "packing: 850 of 1,000 pictures, 10/s, 15 s left",
        "packing: 850 pictures (800 were there) in 5.0 s, 10/s",
    ]


def test_without_a_total_nothing_is_said_of_the_time_left() -> None:
    log, clock = io.StringIO(), Clock()
    with progress.bar("scanning", unit="shards", stream=log, clock=clock) as bar:
        clock.now += 6.0
        bar.advance(3)
    assert log.getvalue().splitlines() == ["scanning: 3 shards, 0.5/s", "scanning: 3 shards in 6.0 s, 0.5/s"]


def test_an_exception_is_not_reported_as_done() -> None:
    log, clock = io.StringIO(), Clock()

    def fail_halfway() -> None:
        with progress.bar("packing", total=10, unit="pictures", stream=log, clock=clock) as bar:
            clock.now += 4000.0
            bar.advance(2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert log.getvalue().splitlines()[-1] == "packing: stopped after 2 pictures in 1 h 06 min, 0.0/s"


def test_advancing_from_many_threads_loses_nothing() -> None:
    with progress.bar("packing", stream=io.StringIO()) as bar:

        def many() -> None:
            for _ in range(2000):
                bar.advance()

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bar.count == 8000


def test_a_second_close_says_nothing_more() -> None:
    log = io.StringIO()
    with progress.bar("packing", stream=log) as bar:
        bar.close()
    assert len(log.getvalue().splitlines()) == 1


def test_lines_in_between_keep_brackets_and_colons_as_they_are() -> None:
    log = io.StringIO()
    with progress.bar("verifying", stream=log) as bar:
        bar.say("a-[0].tar: bad [red]key[/red]")
    assert log.getvalue().splitlines()[0] == "a-[0].tar: bad [red]key[/red]"


def test_a_terminal_gets_a_bar_that_leaves_only_the_summary_and_no_thread() -> None:
    before = set(threading.enumerate())
    ours, theirs = pty.openpty()
    with (
        os.fdopen(theirs, "w") as terminal,
        progress.bar("packing", total=4, unit="pictures", stream=terminal) as bar,
    ):
        bar.advance(4)
        bar.say("a [note]")
    shown = _everything(ours)
    assert "a [note]" in shown
    assert "packing: 4 pictures in" in shown.rstrip().splitlines()[-1]
    assert set(threading.enumerate()) <= before  # others' threads may end meanwhile


def _everything(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # how Linux says that the other side of a terminal is closed
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode()


def test_one_of_a_thing_is_no_plural() -> None:
    log = io.StringIO()
    with progress.bar("packing", total=1, unit="pictures", stream=log) as bar:
        assert bar.line(bar.began).startswith("packing: 0 of 1 picture")
        bar.advance(1)
    assert log.getvalue().startswith("packing: 1 picture in ")

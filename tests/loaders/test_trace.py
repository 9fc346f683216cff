"""What a recorder hears, and the file that it writes."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loaders import RandomResizedCrop, ShardLoader
from loaders.engine import Span
from loaders.trace import Event, Trace
from tests.builders import write_pictures
from wds_tools.errors import UnavailableError, UsageError


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [50, 30])


def traced(pictures: str, trace: Trace, *, epochs: int = 1) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(24), threads=2) as loader:
        loader.observe(trace)
        for _ in range(epochs):
            for _ in loader:
                pass


def test_each_batch_is_planned_decoded_made_and_taken_in_this_order(pictures: str) -> None:
    trace = Trace()
    traced(pictures, trace, epochs=2)
    for number in range(10):
        mine = [event for event in trace.events if event.batch == number]
        by = {event.what: event for event in mine}
        assert Counter(event.what for event in mine) == {"plan": 1, "decode": 2, "batch": 1, "wait": 1}
        assert sum(event.samples for event in mine if event.what == "decode") == 16
        assert by["plan"].span.ended <= by["decode"].span.begun
        assert all(event.span.ended <= by["batch"].span.begun for event in mine if event.what == "decode")
        assert by["batch"].span.begun <= by["wait"].span.ended
        assert all(event.span.seconds >= event.read_seconds > 0 for event in mine if event.what == "decode")
    threads = {event.what: {e.thread for e in trace.events if e.what == event.what} for event in trace.events}
    assert threads["plan"] == {"shardstream-feed"}
    assert threads["wait"] == {"consumer"}
    assert threads["decode"] <= {"shardstream-decode-0", "shardstream-decode-1"}
    assert trace.dropped == 0


def test_recording_changes_no_batch(pictures: str) -> None:
    def batches(trace: Trace | None) -> list[bytes]:
        with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(24), threads=2) as loader:
            if trace is not None:
                loader.observe(trace)
            return [batch[0].tobytes() for batch in loader]

    assert batches(Trace()) == batches(None)


def test_only_the_newest_are_kept(pictures: str) -> None:
    trace = Trace(most=7)
    traced(pictures, trace)
    assert len(trace.events) == 7
    assert trace.dropped > 10
    assert max(event.batch for event in trace.events) >= 4


def test_a_copy_of_the_loader_is_not_recorded(pictures: str) -> None:
    trace = Trace()
    with ShardLoader(pictures, batch_size=16, fields=("cls",)) as loader:
        loader.observe(trace)
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert len(list(copy)) == 5
    assert trace.events == []


def test_what_an_observer_raises_ends_the_iteration(pictures: str) -> None:
    class Fails(Trace):
        def finished(self, job: Any, span: Span) -> None:
            raise ZeroDivisionError

    with ShardLoader(pictures, batch_size=16, fields=("cls",)) as loader:
        loader.observe(Fails())
        with pytest.raises(ZeroDivisionError):
            next(iter(loader))


def made_up() -> Trace:
    """A trace of known times: a batch of 10 samples every half second for 4 seconds, taken when they are made."""
    trace = Trace()
    trace.begun = 100.0
    for number in range(9):
        at = 100.0 + number / 2
        for thread, what, begun in (("shardstream-decode-0", "batch", at - 0.1), ("consumer", "wait", at - 0.2)):
            ended = at if what == "wait" else at - 0.05
            trace._add(Event(thread, what, Span(begun, ended), number, 10))
    return trace


def test_rates_and_queue() -> None:
    trace = made_up()
    assert trace.rates() == [(101.0, 20.0), (102.0, 20.0), (103.0, 20.0), (104.0, 20.0)]
    assert trace.rates(2.0) == [(102.0, 20.0), (104.0, 20.0)]
    # nothing is ready when the consumer comes, then the batch is, then it is taken
    assert trace.queue()[:4] == [(99.8, 0), (99.95, 1), (100.0, 0), (100.3, 0)]
    assert Trace().rates() == []


def test_the_file_is_what_perfetto_reads(pictures: str, tmp_path: Path) -> None:
    trace = Trace()
    traced(pictures, trace)
    trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names[0] == "consumer"
    assert names[1] == "shardstream-feed"
    spans = [event for event in events if event["ph"] == "X"]
    assert Counter(event["name"] for event in spans)["wait"] == 5
    assert {"batch", "samples", "bytes", "reading_us"} == set(
        next(event for event in spans if event["name"] == "decode")["args"]
    )
    assert all(event["ts"] >= 0 <= event["dur"] for event in spans)
    assert {event["name"] for event in events if event["ph"] == "C"} >= {"batches ready"}
    # on one row spans follow each other or lie inside one another, or a viewer cannot draw them
    for row in names:
        ends: list[float] = []
        for event in sorted((e for e in spans if e["tid"] == row), key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= event["ts"] + 0.01:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 0.01
            ends.append(event["ts"] + event["dur"])


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="most"):
        Trace(most=0)
    with pytest.raises(UnavailableError):
        Trace().write(tmp_path / "nowhere" / "trace.json")

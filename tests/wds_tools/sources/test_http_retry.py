"""What is tried again, when, and how often; what is too slow; how a host is spared. By a clock of our own."""

import itertools
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.errors import UnavailableError
from wds_tools.sources.http import hosts, retry
from wds_tools.sources.http.facts import Facts, Part
from wds_tools.sources.http.rate import Meter
from wds_tools.sources.http.retry import Fault, Retry, retry_after
from wds_tools.sources.options import Remote

URL = "http://h/x.tar"


class Clock:
    """A clock that moves when somebody waits by it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retry, "time", clock)
    monkeypatch.setattr(hosts, "time", clock)
    return clock


def test_attempts_in_a_row_are_counted_and_waits_double_at_most(clock: Clock) -> None:
    patience = Retry(Remote(attempts=6, give_up_s=1000), URL, clock.pause)
    for _ in range(5):
        patience.again(Fault("broken"))
    with pytest.raises(
        UnavailableError, match=r"^broken; given up after 6 attempts in .* s \(shard http://h/x.tar, offset 7\)"
    ):
        patience.again(Fault("broken"), offset=7)
    assert all(wait <= 0.25 * 2**number for number, wait in enumerate(clock.waits))
    assert len(set(clock.waits)) == 5


def test_no_wait_is_longer_than_half_a_minute(clock: Clock) -> None:
    patience = Retry(Remote(attempts=5000, give_up_s=1e9), URL, clock.pause)
    for _ in range(2000):
        patience.again(Fault("broken"))
    assert 25 < max(clock.waits) <= 30


def test_what_advances_is_never_given_up_and_what_trickles_is(clock: Clock) -> None:
    patience = Retry(Remote(attempts=3, give_up_s=30, minimum_rate=1000), URL, clock.pause)
    for _ in range(100):
        clock.now += 10
        patience.again(Fault("broken"), brought=10_001)
    with pytest.raises(UnavailableError, match="given up after 3 attempts"):
        for _ in range(3):
            clock.now += 5
            patience.again(Fault("broken"), brought=4_900)


def test_a_transfer_that_ran_for_long_before_it_stalled_is_tried_again(clock: Clock) -> None:
    patience = Retry(Remote(attempts=3, give_up_s=30, minimum_rate=1000), URL, clock.pause)
    clock.now += 3600
    patience.again(Fault("silent"), brought=100_000_000)
    assert patience.left() <= 30


def test_after_a_good_deal_the_next_attempt_begins_at_once(clock: Clock) -> None:
    patience = Retry(Remote(), URL, clock.pause)
    patience.again(Fault("broken"), brought=1 << 20)
    assert clock.waits == []
    patience.again(Fault("broken"))
    assert len(clock.waits) == 1


def test_time_without_advance_ends_it_however_many_attempts_are_left(clock: Clock) -> None:
    patience = Retry(Remote(attempts=1000, give_up_s=30), URL, clock.pause)
    patience.again(Fault("silent"))
    clock.now += 30
    with pytest.raises(UnavailableError, match="given up after 2 attempts in 30"):
        patience.again(Fault("silent"))


@pytest.mark.parametrize(("rate", "comes"), [(1001, True), (900, False)])
def test_attempts_that_go_well_and_bring_too_little_are_given_up_too(clock: Clock, rate: int, comes: bool) -> None:
    patience = Retry(Remote(give_up_s=30, minimum_rate=1000), URL, clock.pause)

    def transfer() -> None:
        for at in range(100):
            clock.now += 0.5
            patience.advanced(rate // 2, offset=at)

    if comes:
        transfer()
        return
    with pytest.raises(UnavailableError, match=r"too little at a time.*given up.* in 30.0 s .*offset 59"):
        transfer()


def test_time_in_our_own_queue_does_not_count(clock: Clock) -> None:
    patience = Retry(Remote(give_up_s=30), URL, clock.pause)
    clock.now += 100
    patience.waited(100)
    patience.again(Fault("broken"))


def test_a_server_is_obeyed_unless_it_asks_for_more_than_there_is(clock: Clock) -> None:
    patience = Retry(Remote(give_up_s=30), URL, clock.pause)
    patience.again(Fault("busy", wait=20))
    assert 20 <= clock.waits[0] <= 20.25
    with pytest.raises(UnavailableError, match="the server asks for 20 s more"):
        patience.again(Fault("busy", wait=20))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 60),
        ("Thursday, 01-Jan-70 00:02:00 GMT", 60),
        ("Thu Jan  1 00:02:00 1970", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 31 Dec 1969 00:00:00 GMT", 0),
        ("99999999999999999999999", 999999999),
        (None, None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("Thu, 99 Jan 1970 00:02:00 GMT", None),
        ("Thu, 99999999999999999999 Jan 1970 00:02:00 GMT", None),
        ("Thu, 01 Jan 99999999999 00:02:00 GMT", None),
        ("\u0663", None),
    ],
)
def test_both_forms_of_retry_after(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, 60.0) == seconds


@given(st.text())
def test_no_retry_after_breaks_it(text: str) -> None:
    seconds = retry_after(text, 60.0)
    assert seconds is None or seconds >= 0


def test_a_meter_judges_whole_windows_of_waiting() -> None:
    meter = Meter(Remote(minimum_rate=1000, stall_s=2.0))
    assert not meter.too_slow(1.9, 0)
    assert meter.too_slow(0.1, 1999)
    assert not meter.too_slow(1.9, 0)  # a new window
    assert not meter.too_slow(0.1, 2000)
    assert not meter.too_slow(0.0, 0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("bytes 0-9/512", Part(0, 10, 512)),
        ("Bytes  10-19/*", Part(10, 20, None)),
        ("bytes 5-4/512", None),
        ("bytes 0-512/512", None),
        ("bytes */512", None),
        ("bytes 0-9", None),
        ("items 0-9/512", None),
        ("bytes 0-9/512, bytes 20-29/512", None),
        ("", None),
    ],
)
def test_content_ranges(text: str, part: Part | None) -> None:
    assert Part.of({"Content-Range": text}) == part


def test_facts_are_of_one_object_while_nothing_contradicts() -> None:
    strong = {"ETag": '"a"', "Last-Modified": "Mon"}
    first = Facts.of(206, {**strong, "Content-Range": "bytes 0-9/512"})
    assert (first.size, first.version, first.condition) == (512, '"a"', '"a"')
    assert first.change(Facts.of(200, {"Content-Length": "512"})) is None
    assert first.change(Facts.of(206, {"Last-Modified": "Mon"})) is None
    assert first.change(Facts.of(200, {"Content-Length": "513"})) == "it had 512 bytes and has 513 now"
    assert "ETag" in str(first.change(Facts.of(200, {**strong, "ETag": '"b"'})))
    assert "last change" in str(first.change(Facts.of(200, {**strong, "Last-Modified": "Tue"})))
    assert Facts.of(416, {"Content-Range": "bytes */7"}).size == 7


def test_a_weak_etag_tells_changes_but_asks_for_no_range() -> None:
    weak = Facts.of(200, {"ETag": 'W/"a"'})
    assert (weak.version, weak.condition) == ('W/"a"', None)
    assert weak.change(Facts.of(200, {"ETag": 'W/"b"'})) is not None
    assert Facts.of(200, {"ETag": 'W/"a"', "Last-Modified": "Mon"}).condition == "Mon"


def test_a_length_of_what_is_encoded_in_transfer_is_no_size() -> None:
    assert Facts.of(200, {"Content-Length": "512", "Transfer-Encoding": "chunked"}).size is None
    assert Facts.of(200, {"Content-Length": "many"}).size is None


@pytest.mark.parametrize("version", ['"a"', 'W/"a"', "Mon, 02 Nov 2026 10:00:00 GMT"])
def test_versions_come_back_as_what_they_were(version: str) -> None:
    facts = Facts.expected(5, version)
    assert (facts.size, facts.version) == (5, version)
    assert Facts.expected(None, None).version is None


@pytest.fixture
def host() -> hosts.Host:
    return hosts.Host()


def free_places(host: hosts.Host, limit: int) -> int:
    """How many requests may be under way at once now."""
    count = 0
    with ExitStack() as stack:
        while not host.is_full(limit):
            stack.enter_context(host.slot(limit, 0.0, lambda: False))
            count += 1
    return count


def test_a_host_that_refuses_is_asked_half_as_much_and_slowly_more_again(clock: Clock, host: hosts.Host) -> None:
    assert free_places(host, 8) == 8
    for expected in (4, 2, 1, 1):
        clock.now += 1.5
        host.refused(None, 8)
        assert free_places(host, 8) == expected
    for _ in range(3):
        host.answered(0.01, good=True)
    assert free_places(host, 8) == 2
    for _ in range(100):
        host.answered(0.01, good=True)
    assert free_places(host, 8) == 8


def test_refusals_of_one_moment_count_once(clock: Clock, host: hosts.Host) -> None:
    for _ in range(8):
        host.refused(None, 8)
    assert free_places(host, 8) == 4


def test_a_host_is_limited_for_ten_minutes(clock: Clock, host: hosts.Host) -> None:
    limited = [host.limited]
    host.refused(None, 8)
    for seconds in (0, 599, 2):
        clock.now += seconds
        limited.append(host.limited)
    assert limited == [False, True, True, False]


def test_a_time_that_a_host_names_is_for_all(clock: Clock, host: hosts.Host) -> None:
    host.refused(30.0, 8)
    with pytest.raises(Fault) as caught, host.slot(8, 29.0, lambda: False):
        pass
    assert caught.value.wait == 30.0
    clock.now += 30
    with host.slot(8, 0.0, lambda: False) as waited:
        assert waited == 0


@pytest.mark.timeout(30)
def test_a_time_that_a_host_names_may_end_between_two_looks_at_the_clock(
    host: hosts.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.chain([1000.0, 1000.0, 1000.999], itertools.repeat(1001.0))
    monkeypatch.setattr(hosts, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    host.refused(1.0, 8)
    with host.slot(8, 2.0, lambda: False) as waited:
        assert waited == 1.0


def test_an_answer_is_late_by_what_is_usual(host: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_LATE_S", 1.0)  # as it is outside of tests
    assert host.late_after() is None
    for _ in range(8):
        host.answered(0.01, good=True)
    assert host.late_after() == 1.0
    for _ in range(64):
        host.answered(2.0, good=True)
    assert host.late_after() == 8.0
    host.refused(None, 8)
    assert host.late_after() is None


def test_waiting_for_a_place_ends_when_the_source_is_closed(host: hosts.Host) -> None:
    closed, waiting, entered = threading.Event(), threading.Event(), threading.Event()

    def is_closed() -> bool:
        waiting.set()
        return closed.is_set()

    def wait() -> None:
        with host.slot(1, 0.0, is_closed):
            entered.set()

    with host.slot(1, 0.0, lambda: False):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(30)
        closed.set()
        hosts.wake()
        assert entered.wait(30)
        thread.join()

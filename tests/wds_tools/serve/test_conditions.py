"""Ranges and preconditions: which part of a file a request gets, in the order of RFC 9110 section 13.2.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.serve.conditions import Decision, Facts, decide

CHANGED = 1_700_000_000  # Tue, 14 Nov 2023 22:13:20 GMT
NOW = CHANGED + 1000.0
FACTS = Facts(size=1000, mtime_ns=CHANGED * 10**9 + 5, inode=7)
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
EARLIER = "Tue, 14 Nov 2023 22:13:19 GMT"
WHOLE = Decision(status=200, length=1000)


def ask(method: str = "GET", /, **fields: str) -> Decision:
    return decide(method, {name.replace("_", "-"): value for name, value in fields.items()}, FACTS, NOW)


@pytest.mark.parametrize(
    ("text", "status", "first", "length"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("BYTES=0-9", 206, 0, 10),
        ("bytes=990-", 206, 990, 10),
        ("bytes=990-5000", 206, 990, 10),
        ("bytes=0-0", 206, 0, 1),
        ("bytes=-10", 206, 990, 10),
        ("bytes=-5000", 206, 0, 1000),
        ("bytes=000000000000000000000000000001-2", 206, 1, 2),
        (f"bytes=5-{'9' * 6000}", 206, 5, 995),
        ("bytes=1000-", 416, 0, 0),
        ("bytes=1000-1001", 416, 0, 0),
        (f"bytes={'9' * 6000}-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        # Not ranges, or not one: the whole file (section 14.2).
        ("bytes=9-0", 200, 0, 1000),
        ("bytes=0-1,5-6", 200, 0, 1000),
        ("bytes=0-1, 5-6", 200, 0, 1000),
        ("bytes=", 200, 0, 1000),
        ("bytes=-", 200, 0, 1000),
        ("bytes=a-b", 200, 0, 1000),
        ("bytes=\u0661-", 200, 0, 1000),
        ("lines=0-9", 200, 0, 1000),
        ("bytes 0-9", 200, 0, 1000),
    ],
)
def test_ranges(text: str, status: int, first: int, length: int) -> None:
    assert ask(range=text) == Decision(status=status, first=first, length=length)


@given(st.integers(0, 50), st.integers(0, 60), st.none() | st.integers(0, 60))
def test_a_range_is_the_slice_that_it_names(size: int, first: int, last: int | None) -> None:
    data = bytes(range(size))
    text = f"bytes={first}-{'' if last is None else last}"
    got = decide("GET", {"range": text}, Facts(size=size, mtime_ns=1, inode=1), NOW)
    if last is not None and last < first:
        assert (got.status, got.length) == (200, size)
    elif first >= size:
        assert got.status == 416
    else:
        wanted = data[first:] if last is None else data[first : last + 1]
        assert (got.status, data[got.first : got.first + got.length]) == (206, wanted)
        assert got.length == len(wanted)


def test_head_has_no_ranges() -> None:
    assert ask("HEAD", range="bytes=0-9") == WHOLE


@pytest.mark.parametrize(
    ("validator", "status"),
    [
        (FACTS.etag, 206),
        (f"W/{FACTS.etag}", 200),  # a weak tag does not promise the same bytes
        ('"another"', 200),
        (DATE, 206),
        (EARLIER, 200),
        ("yesterday", 200),
    ],
)
def test_if_range(validator: str, status: int) -> None:
    assert ask(range="bytes=0-9", if_range=validator).status == status


def test_a_date_is_no_strong_validator_within_its_second() -> None:
    fields = {"range": "bytes=0-9", "if-range": DATE}
    assert decide("GET", fields, FACTS, CHANGED + 0.5).status == 200
    assert decide("GET", fields, FACTS, CHANGED + 2.0).status == 206


@pytest.mark.parametrize(
    ("tags", "status"),
    [(FACTS.etag, 304), (f"W/{FACTS.etag}", 304), (f'"a", {FACTS.etag}', 304), ("*", 304), ('"a"', 200), ("", 200)],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_if_none_match(method: str, tags: str, status: int) -> None:
    assert ask(method, if_none_match=tags).status == status


@pytest.mark.parametrize(
    ("date", "status"),
    [
        (DATE, 304),
        ("Tue, 14 Nov 2023 22:13:21 GMT", 304),
        (EARLIER, 200),
        ("Tuesday, 14-Nov-23 22:13:20 GMT", 304),  # RFC 850, obsolete and to be understood
        ("Tue Nov 14 22:13:20 2023", 304),  # asctime, the same
        ("never", 200),
        ("Tue, 99 Nov 2023 22:13:20 GMT", 200),
        ("", 200),
    ],
)
def test_if_modified_since(date: str, status: int) -> None:
    assert ask(if_modified_since=date).status == status


def test_tags_go_before_dates() -> None:
    assert ask(if_none_match='"a"', if_modified_since=DATE).status == 200
    assert ask(if_match=FACTS.etag, if_unmodified_since=EARLIER).status == 200


@pytest.mark.parametrize(
    ("tags", "status"), [(FACTS.etag, 200), ("*", 200), ('"a"', 412), (f"W/{FACTS.etag}", 412), ("", 412)]
)
def test_if_match(tags: str, status: int) -> None:
    assert ask(if_match=tags).status == status


@pytest.mark.parametrize(("date", "status"), [(DATE, 200), (EARLIER, 412), ("never", 200)])
def test_if_unmodified_since(date: str, status: int) -> None:
    assert ask(if_unmodified_since=date).status == status


@pytest.mark.parametrize("change", [{"size": 1001}, {"mtime_ns": FACTS.mtime_ns + 1}, {"inode": 8}])
def test_the_tag_changes_with_the_file(change: dict[str, int]) -> None:
    facts = {"size": FACTS.size, "mtime_ns": FACTS.mtime_ns, "inode": FACTS.inode}
    assert Facts(**facts).etag == FACTS.etag
    assert Facts(**(facts | change)).etag != FACTS.etag


@pytest.mark.parametrize("mtime_ns", [int(NOW + 60) * 10**9, -(10**21)])
def test_a_date_that_cannot_be_is_left_out(mtime_ns: int) -> None:
    facts = Facts(size=1, mtime_ns=mtime_ns, inode=1)
    assert facts.fields(NOW) == [("ETag", facts.etag)]
    assert decide("GET", {"if-modified-since": DATE, "if-unmodified-since": DATE}, facts, NOW).status == 200

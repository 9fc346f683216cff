"""The file of an entry as numbers and bytes: what fits where, and what is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.sources.cache.layout import (
    BLOCK,
    EXTENT,
    LEAF,
    Header,
    Layout,
    State,
    pack_header,
    pack_origin,
    pack_record,
    unpack_header,
    unpack_origin,
    unpack_record,
)

BIRTH = bytes(range(16))
SIZES = st.one_of(
    st.integers(1, 1 << 45),
    st.builds(lambda n, near: max(1, n * EXTENT + near), st.integers(1, 9), st.integers(-2, 2)),
)


@given(SIZES)
def test_extents_cover_the_object_once_and_nothing_overlaps(size: int) -> None:
    layout = Layout(size)
    some = sorted({0, 1, layout.extents // 2, layout.extents - 1} & set(range(layout.extents)))
    for extent in some:
        start, stop = layout.span(extent)
        assert (start, stop) == (extent * EXTENT, min(size, (extent + 1) * EXTENT))
        assert stop - start <= layout.cost(extent) < stop - start + BLOCK
    assert layout.span(layout.extents - 1)[1] == size
    assert layout.leaves == -(-size // LEAF)
    assert size <= layout.records_at < size + BLOCK
    assert layout.record_at(layout.extents - 1) + layout.record_size <= layout.header_at
    assert layout.origin_at < layout.length == layout.header_at + BLOCK
    assert Layout.of_length(layout.length, size) == layout
    assert Layout.of_length(layout.length + 1, size) is None


@given(st.integers(0, 1 << 40), st.lists(st.integers(0, 2**32 - 1), max_size=64))
def test_a_record_says_what_was_written(extent: int, checks: list[int]) -> None:
    data = pack_record(BIRTH, extent, State.PRESENT, checks)
    assert len(data) == Layout(1).record_size
    record = unpack_record(BIRTH, extent, data)
    assert record.state is State.PRESENT
    assert list(record.checks)[: len(checks)] == checks
    assert unpack_record(BIRTH, extent, pack_record(BIRTH, extent, State.BEGUN)).state is State.BEGUN


@given(st.integers(0, 263), st.integers(1, 255))
def test_a_record_that_is_damaged_or_of_another_place_is_paid_for_and_not_there(at: int, flip: int) -> None:
    data = bytearray(pack_record(BIRTH, 7, State.PRESENT, range(1, 65)))
    assert unpack_record(BIRTH, 8, bytes(data)).state is State.BEGUN
    assert unpack_record(bytes(16), 7, bytes(data)).state is State.BEGUN
    data[at] ^= flip
    assert unpack_record(BIRTH, 7, bytes(data)).state is State.BEGUN


def test_zeros_are_an_extent_that_nobody_has_begun() -> None:
    assert unpack_record(BIRTH, 0, bytes(Layout(1).record_size)).state is State.EMPTY


@given(st.text(max_size=600), st.none() | st.text(max_size=100), st.integers(1, 1 << 45))
def test_a_header_says_what_was_written(url: str, version: str | None, size: int) -> None:
    block = pack_header(Header(BIRTH, size, url, version))
    assert len(block) == BLOCK
    header = unpack_header(block)
    assert header is not None
    assert header[:2] == (BIRTH, size)
    assert url.startswith(header.url)
    assert header.version == (None if version is None else version[:32])
    assert unpack_origin(block[3072:]) is None


def test_the_longest_header_fits() -> None:
    header = unpack_header(pack_header(Header(BIRTH, (1 << 63) - 1, "\U0001f4a1" * 999, "\U0001f4a1" * 999)))
    assert header == (BIRTH, (1 << 63) - 1, "\U0001f4a1" * 200, "\U0001f4a1" * 32)


@pytest.mark.parametrize("at", [0, 18, 25, 40, 100])
def test_a_damaged_header_is_none(at: int) -> None:
    block = bytearray(pack_header(Header(BIRTH, 5, "http://h/a.tar", None)))
    block[at] ^= 1
    assert unpack_header(bytes(block)) is None
    assert unpack_header(bytes(block[:at])) is None


def test_an_origin_is_kept_or_too_long() -> None:
    for version in ('"abc"', "Wed, 21 Oct 2026 07:28:00 GMT", "é\udce9"):
        slot = pack_origin(version)
        assert slot is not None
        assert unpack_origin(slot.ljust(1024, b"\0")) == version
    assert pack_origin("x" * 1016) is not None
    assert pack_origin("x" * 1017) is None
    assert pack_origin("") is None

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import Memory
from wds_tools.errors import ShardError
from wds_tools.tar.feed import MAX_HELD, WINDOW, BufferFeed, Feed, SourceFeed, StreamFeed

CONTENT = bytes(range(251)) * 20_000  # 5 MB that repeat at no power of two

FEEDS: dict[str, Callable[[], Feed]] = {
    "buffer": lambda: BufferFeed(CONTENT),
    "source": lambda: SourceFeed(Memory(CONTENT)),
    "skim": lambda: SourceFeed(Memory(CONTENT), skim=True),
    "stream": lambda: StreamFeed(io.BytesIO(CONTENT)),
}


@pytest.mark.parametrize("name", list(FEEDS))
@given(steps=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 1 << 20)), max_size=12))
def test_a_feed_gives_what_lies_there(name: str, steps: list[tuple[int, int]]) -> None:
    feed = FEEDS[name]()
    position = 0
    for step, need in steps:
        position += step
        view = feed.fill(position, need)
        left = max(len(CONTENT) - position, 0)
        assert len(view) <= left
        assert len(view) >= (need if need <= left else min(left, 512))
        assert bytes(view) == CONTENT[position : position + len(view)]
        if len(view) < need:
            assert feed.size == len(CONTENT)


@pytest.mark.parametrize("name", list(FEEDS))
def test_beyond_the_end_is_nothing(name: str) -> None:
    feed = FEEDS[name]()
    feed.fill(0, 1)
    assert len(feed.fill(len(CONTENT) + 1000, 512)) == 0
    assert feed.size == len(CONTENT)


@pytest.mark.parametrize("name", ["source", "stream"])
def test_a_view_stays_as_it_is_while_the_feed_goes_on(name: str) -> None:
    feed = FEEDS[name]()
    views = [(at, feed.fill(at, 100)[:100]) for at in range(0, len(CONTENT), 300_000)]
    assert all(view == CONTENT[at : at + 100] for at, view in views)


@pytest.mark.parametrize("name", ["source", "stream"])
def test_memory_is_used_again_when_nobody_looks_at_it(name: str) -> None:
    feed = FEEDS[name]()
    owners = {id(feed.fill(at, 100).obj) for at in range(0, len(CONTENT), 100_000)}
    assert len(owners) == 2  # what is left of one window goes over to the next


def test_windows_begin_at_a_cache_line() -> None:
    import numpy as np

    feed = SourceFeed(Memory(CONTENT))
    for at in (0, WINDOW, 3 * WINDOW):
        assert np.frombuffer(feed.fill(at, WINDOW), np.uint8).ctypes.data % 64 == 0


def test_skimming_jumps_over_what_is_large() -> None:
    source = Memory(CONTENT)
    feed = SourceFeed(source, skim=True)
    for at in range(0, len(CONTENT), 500_000):
        feed.fill(at, 512)
    assert sum(length for _, length in source.reads) < 100_000


def test_skimming_reads_neighbours_in_growing_windows() -> None:
    source = Memory(CONTENT)
    feed = SourceFeed(source, skim=True)
    for at in range(0, len(CONTENT), 1024):
        feed.fill(at, 512)
    assert len(source.reads) < 20
    assert sum(length for _, length in source.reads) < 1.3 * len(CONTENT)


def test_no_room_is_made_for_what_cannot_be_had() -> None:
    feed = SourceFeed(Memory(CONTENT))
    assert len(feed.fill(0, 1 << 60)) == WINDOW
    stream = StreamFeed(io.BytesIO(CONTENT))
    assert len(stream.fill(0, MAX_HELD)) == len(CONTENT)
    with pytest.raises(ShardError, match="held in memory"):
        StreamFeed(io.BytesIO(CONTENT)).fill(0, MAX_HELD + 1)

"""One process and its cache: every read is the object's, each byte is fetched once, versions never meet."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.sources.cached import EXTENT, MIB, URL, Fake, content, entry_files, opened, read, whole
from wds_tools.errors import ShardMissingError, TruncatedShardError, UnavailableError, UsageError
from wds_tools.sources.cache import DiskCache, locks

DATA = content(9 * MIB + 12_345)


@given(st.data())
@settings(max_examples=25)
def test_any_sequence_of_reads_is_the_object(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("c")
    origin = Fake(DATA)
    edges = [0, 1, EXTENT - 1, EXTENT, EXTENT + 1, 2 * EXTENT, 65_536, 8 * MIB + 65_535, len(DATA) - 1]
    limit = data.draw(st.sampled_from([None, 5 * MIB, 9 * MIB, 1000]))
    with DiskCache(folder, limit) as cache, opened(cache, origin) as file:
        for _ in range(data.draw(st.integers(1, 8))):
            offset = data.draw(st.sampled_from(edges) | st.integers(0, len(DATA)))
            length = data.draw(st.sampled_from([0, 1, 100_000, EXTENT, 5 * MIB, len(DATA)]))
            length = min(length, len(DATA) - offset)
            assert read(file, offset, length) == DATA[offset : offset + length]
    with DiskCache(folder, limit) as cache:
        assert whole(cache, origin) == DATA


def test_each_byte_is_fetched_once_and_then_never(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        for offset in range(0, len(DATA) - 100_000, 77_777):
            assert read(file, offset, 100_000) == DATA[offset : offset + 100_000]
        assert origin.asked == [(0, EXTENT), (EXTENT, EXTENT), (2 * EXTENT, len(DATA) - 2 * EXTENT)]
        assert cache.report() == {"fetched": len(DATA), "streamed": 0, "requests": 3, "damaged": 0}
    again = Fake(DATA)
    with DiskCache(tmp_path) as cache:
        assert whole(cache, again) == DATA
        assert cache.report() == {"fetched": 0, "streamed": 0, "requests": 0, "damaged": 0}
    assert again.asked == []


def test_a_read_over_several_extents_is_one_request(tmp_path: Path) -> None:
    data = content(22 * MIB)
    origin = Fake(data)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        assert read(file, EXTENT - 10, 20) == data[EXTENT - 10 : EXTENT + 10]
        assert origin.asked == [(0, 2 * EXTENT)]
        assert read(file, 0, len(data)) == data  # at most 16 MiB in memory at once
        assert origin.asked[1:] == [(2 * EXTENT, 14 * MIB)]


def test_the_file_of_a_whole_object_begins_with_its_bytes(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        whole(cache, Fake(DATA))
    (path,) = entry_files(tmp_path)
    assert path.name.endswith("-a.tar")
    assert path.read_bytes()[: len(DATA)] == DATA


@pytest.mark.parametrize("kind", ["limited", "no ranges"])
def test_small_shards_are_fetched_whole_where_requests_are_dear(tmp_path: Path, kind: str) -> None:
    origin = Fake(DATA, ranges=kind == "limited")
    origin.limited = kind == "limited"
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        assert read(file, 5 * MIB, 10) == DATA[5 * MIB : 5 * MIB + 10]
        assert read(file, 0, len(DATA)) == DATA
    # A host without ranges shows it with its first answer.
    assert origin.asked[-1] == (0, len(DATA))
    assert len(origin.asked) == (1 if kind == "limited" else 2)


def test_whole_means_what_is_missing_about_the_place(tmp_path: Path) -> None:
    data = content(22 * MIB)
    origin = Fake(data)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        read(file, 8 * MIB, 1)
        origin.limited = True
        assert read(file, 4 * MIB, 1) == data[4 * MIB : 4 * MIB + 1]
        assert read(file, 0, len(data)) == data
    assert origin.asked == [(8 * MIB, EXTENT), (0, 8 * MIB), (12 * MIB, 10 * MIB)]


def test_fetch_brings_bytes_ahead_of_the_read(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        assert file.fetch(EXTENT + 1, 1)
        assert file.fetch(0, len(DATA) + 5)
        assert origin.asked == [(EXTENT, EXTENT), (0, EXTENT), (2 * EXTENT, len(DATA) - 2 * EXTENT)]
        assert read(file, 0, len(DATA)) == DATA
        file.announce(0, len(DATA))
        assert len(origin.asked) == 3


def test_the_end_inside_a_read_is_an_error(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache, opened(cache, Fake(DATA)) as file:
        assert (file.url, file.size()) == (URL, len(DATA))
        with pytest.raises(TruncatedShardError) as got:
            read(file, len(DATA) - 5, 6)
        assert (got.value.url, got.value.offset) == (URL, len(DATA))


def test_a_size_that_nobody_knows_is_asked_for_once(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path) as cache:
        with cache.open(URL, size=None, version=None, inner=origin, dataset="d") as file:
            assert file.size() == len(DATA)
        assert origin.asked == [(0, 1)]
        empty = Fake(b"")
        with opened(cache, empty) as file:
            assert read(file, 0, 0) == b""


def test_what_the_origin_raises_is_raised_and_the_next_read_tries_again(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        origin.fault = UnavailableError("no route", url=URL)
        with pytest.raises(UnavailableError, match="no route"):
            read(file, 0, 10)
        origin.fault = None
        assert read(file, 0, 10) == DATA[:10]
        assert cache.info().bytes == EXTENT
    gone = Fake(DATA)
    gone.fault = ShardMissingError("404", url=URL)
    with DiskCache(tmp_path / "other") as cache:
        with pytest.raises(ShardMissingError):
            cache.open(URL, size=None, version=None, inner=gone, dataset="d")
    assert gone.closed == 1


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "flock"])
def test_threads_that_want_the_same_extent_fetch_it_once(
    tmp_path: Path, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_RANGES", ranges and locks._RANGES)
    origin = Fake(DATA)
    barrier = threading.Barrier(8)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:

        def work(number: int) -> bool:
            barrier.wait()
            offset = number * 1_000_000
            return read(file, offset, 1_500_000) == DATA[offset : offset + 1_500_000]

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
    assert sum(length for _, length in origin.asked) == len(DATA)


def test_closing_gives_everything_back_and_a_closed_file_reads_nothing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    origin = Fake(DATA)
    cache = DiskCache(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    file = opened(cache, origin)
    read(file, 0, 10)
    file.close()
    file.close()
    cache.close()
    cache.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert origin.closed == 2
    for offset in (0, EXTENT):
        with pytest.raises(UnavailableError, match="not open"):
            read(file, offset, 10)
    with DiskCache(tmp_path) as cache:
        assert whole(cache, Fake(DATA)) == DATA
        assert cache.report()["damaged"] == 0


def test_it_travels_as_a_folder_and_a_limit(tmp_path: Path) -> None:
    with DiskCache(tmp_path, 10 * MIB) as cache:
        whole(cache, Fake(DATA))
        twin = pickle.loads(pickle.dumps(cache))
        assert repr(twin) == repr(cache)
        origin = Fake(DATA)
        with twin:
            assert whole(twin, origin) == DATA
    assert origin.asked == []


def test_a_limit_that_is_none_of_any_use_is_refused() -> None:
    with pytest.raises(UsageError):
        DiskCache(Path("x"), 0)


def test_an_empty_folder_is_not_the_current_one() -> None:
    with pytest.raises(UsageError, match="the folder of the cache is empty"):
        DiskCache("", 1 << 30)

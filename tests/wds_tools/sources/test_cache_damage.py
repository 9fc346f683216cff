"""Whatever happened to the files of a cache: it is found, mended and counted, and no read is wrong."""

import os
import shutil
from pathlib import Path

import pytest

from tests.wds_tools.sources.cached import EXTENT, MIB, Fake, content, cost, entry_files, opened, read, whole
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.cache.layout import LEAF, Layout
from wds_tools.sources.cache.ledger import LEDGER

DATA = content(9 * MIB)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with DiskCache(tmp_path) as cache:
        assert whole(cache, Fake(DATA)) == DATA
    return tmp_path


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(at)
        (byte,) = stream.read(1)
        stream.seek(at)
        stream.write(bytes([byte ^ 0x10]))


def fetched_again(root: Path) -> list[tuple[int, int]]:
    origin = Fake(DATA)
    with DiskCache(root) as cache:
        assert whole(cache, origin) == DATA
        assert cache.info().booked == cost(len(DATA))
    with DiskCache(root) as cache:
        last = Fake(DATA)
        assert whole(cache, last) == DATA
        assert last.asked == []
        assert cache.report()["damaged"] == 0
    return origin.asked


@pytest.mark.parametrize("at", [0, LEAF - 1, EXTENT, EXTENT + LEAF, len(DATA) - 1])
def test_a_flipped_bit_is_found_by_whoever_reads_it_and_mended(root: Path, at: int) -> None:
    flip(entry_files(root)[0], at)
    near = at // LEAF * LEAF
    elsewhere = Fake(DATA)
    with DiskCache(root) as cache, opened(cache, elsewhere) as file:
        for leaf in range(0, len(DATA), LEAF):
            if leaf != near:
                assert read(file, leaf, LEAF) == DATA[leaf : leaf + LEAF]
        assert elsewhere.asked == []
        assert read(file, at, 1) == DATA[at : at + 1]
        assert cache.report()["damaged"] == 1
    extent = at // EXTENT * EXTENT
    assert elsewhere.asked == [(extent, min(EXTENT, len(DATA) - extent))]
    assert fetched_again(root) == []


def test_damage_to_a_record_costs_its_extent(root: Path) -> None:
    flip(entry_files(root)[0], Layout(len(DATA)).record_at(1) + 100)
    assert fetched_again(root) == [(EXTENT, EXTENT)]


@pytest.mark.parametrize("harm", ["header", "cut", "empty", "nonsense"])
def test_an_entry_that_says_nothing_is_made_again(root: Path, harm: str) -> None:
    (path,) = entry_files(root)
    if harm == "header":
        flip(path, Layout(len(DATA)).header_at + 30)
    elif harm == "nonsense":
        path.write_bytes(b"x" * 100_000)
    else:
        os.truncate(path, {"cut": len(DATA), "empty": 0}[harm])
    assert sum(length for _, length in fetched_again(root)) == len(DATA)


def test_a_file_that_is_cut_while_it_is_open_is_read_from_the_origin(root: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(root) as cache, opened(cache, origin) as file:
        assert read(file, 0, len(DATA)) == DATA
        os.truncate(entry_files(root)[0], 5 * MIB)
        assert read(file, 0, len(DATA)) == DATA
        assert read(file, 6 * MIB, 5) == DATA[6 * MIB : 6 * MIB + 5]


def test_bytes_that_change_behind_a_checked_read_are_found_by_the_next_process(root: Path) -> None:
    with DiskCache(root) as cache, opened(cache, Fake(DATA)) as file:
        read(file, 0, 10)
        flip(entry_files(root)[0], 5)
    assert fetched_again(root) == [(0, EXTENT)]


@pytest.mark.parametrize("harm", ["gone", "torn", "another"])
def test_the_ledger_is_counted_again_from_what_is_there(root: Path, harm: str) -> None:
    ledger = root / "shards" / LEDGER
    if harm == "gone":
        ledger.unlink()
    else:
        ledger.write_bytes(ledger.read_bytes()[:10] if harm == "torn" else b"x" * len(ledger.read_bytes()))
    assert fetched_again(root) == []
    with DiskCache(root, cost(len(DATA)) + 1000) as cache:
        other = Fake(DATA, url="http://host/b.tar")
        assert whole(cache, other, dataset="d") == DATA
        assert cache.report()["fetched"] == 0


def test_a_folder_that_is_removed_in_a_run_is_gone_and_no_error(root: Path) -> None:
    with DiskCache(root) as cache, opened(cache, origin := Fake(DATA)) as file:
        assert read(file, 0, 10) == DATA[:10]
        shutil.rmtree(root)
        assert read(file, 0, len(DATA)) == DATA
        assert origin.asked == []
        with opened(cache, Fake(DATA, url="http://host/b.tar")) as other:
            assert read(other, 0, len(DATA)) == DATA
            assert read(other, 0, len(DATA)) == DATA
    assert [path.name[-5:] for path in entry_files(root)] == ["b.tar"]


def test_an_entry_that_is_removed_in_a_run_streams_what_it_lacks(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        read(file, 0, 10)
        entry_files(tmp_path)[0].unlink()
        assert read(file, EXTENT - 5, 10) == DATA[EXTENT - 5 : EXTENT + 5]
        assert cache.report() == {"fetched": EXTENT, "streamed": 5, "requests": 2, "damaged": 0}
        assert cache.info().shards == 0


def test_unfinished_files_of_killed_processes_go_at_the_next_start(root: Path) -> None:
    litter = root / "shards" / ".abc-a.tar.0011.tmp"
    litter.write_bytes(b"x")
    with DiskCache(root) as cache:
        whole(cache, Fake(DATA))
    assert not litter.exists()

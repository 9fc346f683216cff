"""The index cache: where it lies, what it believes, and life without it."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest

from wds_tools.index.cache import FileFacts, IndexCache, default_cache_dir

ROW = np.array([0, 1024, 3072], dtype=np.uint64)
FACTS = FileFacts("/d/\udce9 a.tar", 10240, 1_700_000_000_123_456_789)


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_what_is_saved_is_loaded_for_the_same_file_only(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path)
    assert cache.load(FACTS) is None
    cache.save(FACTS, ROW)
    loaded = IndexCache(tmp_path).load(FACTS)
    assert loaded is not None
    assert loaded.tolist() == ROW.tolist()
    for other in (FACTS._replace(path="/d/b.tar"), FACTS._replace(size=1), FACTS._replace(mtime_ns=FACTS.mtime_ns + 1)):
        assert cache.load(other) is None


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1, -8])
def test_a_torn_file_is_ignored_and_made_again(tmp_path: Path, cut: int) -> None:
    cache = IndexCache(tmp_path)
    cache.save(FACTS, ROW)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    assert cache.load(FACTS) is None
    cache.save(FACTS, ROW)
    assert path.read_bytes() == whole


def test_a_flipped_bit_is_seen(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path)
    cache.save(FACTS, ROW)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    for at in (0, 30, len(whole) - 1, len(whole) - 20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert cache.load(FACTS) is None


def test_a_set_is_a_listing_with_mapped_offsets(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path)
    facts = [FACTS, FACTS._replace(path="/d/b.tar")]
    assert cache.set_listing(facts) is None
    assert cache.save_set(facts, [ROW, ROW])
    place = cache.set_listing(facts)
    assert place is not None
    assert Path(place).parent == tmp_path / "index"
    assert cache.set_listing(facts[::-1]) is None


def test_a_joined_row_is_mapped_and_written_once(tmp_path: Path) -> None:
    cache = IndexCache(tmp_path)
    first = cache.joined("key", ROW)
    assert first is not None
    assert first.array.tolist() == ROW.tolist()
    (path,) = files(tmp_path)
    before = path.stat().st_ino
    assert cache.joined("key", ROW) is not None
    assert path.stat().st_ino == before
    path.write_bytes(b"torn")
    again = cache.joined("key", ROW)
    assert again is not None
    assert again.array.tolist() == ROW.tolist()


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()  # a file in the place of a folder refuses root too
    return tmp_path / "file" / "cache"


def test_a_directory_that_cannot_be_written_is_said_once(unwritable: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = IndexCache(unwritable)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            cache.save(FACTS, ROW)
            assert cache.load(FACTS) is None
        assert cache.joined("key", ROW) is None
        assert not cache.save_set([FACTS], [ROW])
    assert len(caplog.records) == 1


def test_no_directory_keeps_nothing() -> None:
    cache = IndexCache(None)
    cache.save(FACTS, ROW)
    assert cache.load(FACTS) is None
    assert cache.set_listing([FACTS]) is None
    assert cache.joined("key", ROW) is None


def test_it_lies_where_the_platform_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_dir() == tmp_path / ".cache" / "shardstream"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir() == tmp_path / ".cache" / "shardstream"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_cache_dir() == tmp_path / "x" / "shardstream"
    assert os.listdir(tmp_path) == []

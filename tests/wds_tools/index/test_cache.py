"""The index cache: where it lies, what it believes, and life without it."""

import errno
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
    for other in (FACTS._replace(path="/d/b.tar"), FACTS._replace(size=1), FACTS._replace(mtime_ns=1)):
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


def test_a_folder_that_may_not_be_searched_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As root nothing is forbidden, so the system's answers are given in its place.
    real = os.stat

    def forbidden(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *args, **options)

    cache = IndexCache(tmp_path)
    assert cache.save_set([FACTS], [ROW])
    assert cache.set_listing([FACTS]) is not None
    monkeypatch.setattr(os, "stat", forbidden)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cache.set_listing([FACTS]) is None


def test_threads_that_find_the_disk_full_at_once_all_go_on(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file where the folder should be")
    barrier = threading.Barrier(8)
    cache = IndexCache(tmp_path)

    def keep(number: int) -> None:
        barrier.wait()
        cache.save(FACTS._replace(size=number), np.arange(number + 1, dtype=np.uint64))
        assert cache.load(FACTS._replace(size=number)) is None

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(keep, range(8)))
    finally:
        sys.setswitchinterval(before)

"""Disks that are full, read-only or too small: all is read, the limit holds, and one line is logged."""

import errno
import logging
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wds_tools.sources.cached import EXTENT, MIB, Fake, content, cost, entry_files, opened, read, whole
from wds_tools.errors import UnavailableError
from wds_tools.sources.cache import DiskCache, admission, locks
from wds_tools.sources.cache.layout import Layout

DATA = content(9 * MIB)


def shards(number: int) -> list[Fake]:
    return [Fake(content(9 * MIB, seed), url=f"http://host/{seed}.tar") for seed in range(number)]


def on_disk(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in entry_files(root))


def mounted(folder: Path, options: str) -> Path:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = mounted(tmp_path / "disk", "size=14m")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("limit", [1, 8192, 4 * MIB, EXTENT + 16_384, 13 * MIB, 30 * MIB])
def test_the_limit_holds_for_what_the_disk_gives_out(
    tmp_path: Path, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    origins = shards(4)
    with caplog.at_level(logging.WARNING), DiskCache(tmp_path, limit) as cache:
        for origin in origins * 2:
            assert whole(cache, origin) == origin.data
            assert on_disk(tmp_path) <= limit
        assert cache.info().booked <= limit
        kept = cache.info().bytes
    assert len(caplog.records) == 1
    assert f"{limit:,} bytes" in caplog.text
    assert kept >= min(limit - 4 * Layout(9 * MIB).overhead, 36 * MIB) // EXTENT * EXTENT - EXTENT


def test_what_was_admitted_stays_and_is_not_asked_for_again(tmp_path: Path) -> None:
    first, second = shards(2)
    with DiskCache(tmp_path, cost(9 * MIB) + 20_000) as cache:
        for origin in (first, second, first, second):
            assert whole(cache, origin) == origin.data
    assert sum(length for _, length in first.asked) == 9 * MIB
    assert sum(length for _, length in second.asked) == 2 * 9 * MIB


def test_past_a_full_cache_only_what_is_read_is_asked_for(tmp_path: Path) -> None:
    origin = Fake(DATA)
    with DiskCache(tmp_path, EXTENT + 20_000) as cache, opened(cache, origin) as file:
        assert file.fetch(0, EXTENT)
        assert not file.fetch(0, EXTENT + 1)
        assert read(file, EXTENT - 100, 300_000) == DATA[EXTENT - 100 : EXTENT + 299_900]
        assert origin.asked == [(0, EXTENT), (EXTENT, 299_900)]
        assert cache.report() == {"fetched": EXTENT, "streamed": 299_900, "requests": 2, "damaged": 0}


def test_admission_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = shards(2)
    limit = cost(9 * MIB) + 20_000
    with DiskCache(tmp_path, limit) as cache:
        with DiskCache(tmp_path, limit) as other:
            whole(other, first, dataset="other")
            assert whole(cache, second) == second.data
            assert cache.report()["fetched"] == 0
        assert whole(cache, second) == second.data
        assert cache.report()["fetched"] == 0  # not yet
        later = time.monotonic() + admission.RETRY_S
        monkeypatch.setattr(admission, "monotonic", lambda: later)
        assert whole(cache, second) == second.data
        assert cache.report()["fetched"] == 9 * MIB  # the other dataset is not in use any more
        assert cache.info().booked <= limit


def test_a_disk_that_fills_up_harms_no_read(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    origins = shards(3)
    with caplog.at_level(logging.WARNING), DiskCache(small_disk, 1 << 40) as cache:
        for origin in origins * 2:
            assert whole(cache, origin) == origin.data
        assert cache.info().bytes >= 9 * MIB
    assert len(caplog.records) == 1
    assert "full" in caplog.text
    with DiskCache(small_disk, 1 << 40) as cache:
        for origin in origins:
            assert whole(cache, origin) == origin.data
        assert cache.report()["damaged"] == 0


def test_without_a_limit_a_twentieth_of_the_disk_is_left(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    origins = shards(3)
    with caplog.at_level(logging.WARNING), DiskCache(small_disk) as cache:
        for origin in origins:
            assert whole(cache, origin) == origin.data
    facts = os.statvfs(small_disk)
    assert facts.f_blocks // 20 <= facts.f_bavail < facts.f_blocks // 2
    assert len(caplog.records) == 1
    assert "twentieth" in caplog.text


def test_a_folder_that_may_only_be_read_serves_what_it_has(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = shards(2)
    with DiskCache(small_disk, 1 << 40) as cache:
        assert whole(cache, first) == first.data
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    asked = len(first.asked)
    with caplog.at_level(logging.WARNING), DiskCache(small_disk, 1 << 40) as cache:
        for origin in (first, second, first, second):
            assert whole(cache, origin) == origin.data
        assert cache.info().whole == 1
    assert len(first.asked) == asked
    assert len(caplog.records) == 1
    assert "Read-only" in caplog.text


def test_a_limit_on_the_size_of_files_harms_no_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    origin = Fake(DATA)
    with caplog.at_level(logging.WARNING), DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6 * MIB, hard))  # in the middle of the second extent
        try:
            assert read(file, 0, 100) == DATA[:100]
            assert read(file, EXTENT, 100) == DATA[EXTENT : EXTENT + 100]
            assert read(file, 0, len(DATA)) == DATA
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("done", [0, 100_000, EXTENT])
def test_a_write_that_fails_half_way_leaves_an_extent_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, done: int
) -> None:
    # Every error at every stage: no file system gives them all on demand.
    whole_write, left = os.pwrite, [done]

    def pwrite(descriptor: int, data: memoryview, offset: int) -> int:
        if len(data) < 5000 and left[0]:  # records, ledger
            return whole_write(descriptor, data, offset)
        if left[0] <= 0:
            raise OSError(number, os.strerror(number))
        count = whole_write(descriptor, data[: left[0]], offset)
        left[0] -= count
        return count

    origin = Fake(DATA)
    with caplog.at_level(logging.WARNING), DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        monkeypatch.setattr(os, "pwrite", pwrite)
        assert read(file, 0, 100) == DATA[:100]
        monkeypatch.setattr(os, "pwrite", whole_write)
        assert read(file, 0, 100) == DATA[:100]
        assert cache.info().bytes == 0
    assert len(caplog.records) == 1
    assert os.strerror(number) in caplog.text
    with DiskCache(tmp_path) as cache:
        assert whole(cache, origin) == DATA
        assert cache.info().booked == cost(len(DATA))


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()  # a file in the place of a folder refuses root too
    origins = shards(2)
    with caplog.at_level(logging.WARNING), DiskCache(tmp_path / "file" / "cache") as cache:
        for origin in origins:
            assert whole(cache, origin) == origin.data
        assert cache.info().shards == 0
    assert len(caplog.records) == 1


@pytest.mark.parametrize("what", ["an extent", "the ledger"])
def test_a_process_that_holds_a_lock_and_does_not_go_on_harms_no_read(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_S", 0.1)
    origins = shards(3)
    with DiskCache(tmp_path) as cache, opened(cache, origins[0]) as file:
        assert read(file, 0, 10) == DATA[:10]
        held = entry_files(tmp_path)[0] if what == "an extent" else tmp_path / "shards" / "ledger"
        with caplog.at_level(logging.WARNING), locks.exclusive(held):
            assert read(file, 0, len(DATA)) == DATA
            for origin in origins:
                assert whole(cache, origin) == origin.data
    assert len(caplog.records) == 1
    assert "not waited for" in caplog.text


def test_closing_ends_the_wait_for_a_lock(tmp_path: Path) -> None:
    origin = shards(1)[0]
    with DiskCache(tmp_path) as cache, opened(cache, origin) as file:
        waiting = threading.Event()
        found: list[BaseException] = []

        def work() -> None:
            waiting.set()
            try:
                read(file, 0, 10)
            except UnavailableError as error:
                found.append(error)

        with locks.exclusive(entry_files(tmp_path)[0]):
            thread = threading.Thread(target=work)
            thread.start()
            assert waiting.wait(30)
            file.close()
            thread.join(30)
            assert not thread.is_alive()
        assert "not open" in str(found[0])
        assert origin.asked == []

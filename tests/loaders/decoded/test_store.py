"""One file shared by threads and processes: bounded to the byte, never torn, gone when it should be."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from loaders.decoded import places
from loaders.decoded.layout import BLOCK
from loaders.decoded.options import DecodedCache
from loaders.decoded.small import Small
from loaders.decoded.store import DecodedStore, disown, open_store
from tests.builders import write_labels
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import UnavailableError, UsageError

KEY = bytes(32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return open_dataset(write_labels(tmp_path_factory.mktemp("labels"), [300, 300]))


@pytest.fixture(params=["ram", "folder"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DecodedCache]:
    shm = tmp_path / "shm"
    shm.mkdir()
    monkeypatch.setattr(places, "_SHM", shm)
    place = "ram" if request.param == "ram" else str(tmp_path / "folder")
    yield DecodedCache(place, 8 << 20, size=8)
    assert not any(shm.iterdir()), "what is in memory ends with its last user"


def opened(cache: DecodedCache, dataset: Dataset, key: bytes = KEY, **options: Any) -> DecodedStore:
    return open_store(cache, dataset=dataset, key=key, **options)


def made(number: int, side: int = 60) -> dict[str, Any]:
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return {"__key__": f"{number:06d}", "jpg": Small(500, 400 + number, pixels), "cls": str(number).encode()}


def put(store: DecodedStore, number: int, **options: Any) -> bool:
    return store.put(number, made(number, **options), ["jpg", "cls"])


def take(nbytes: int) -> memoryview:
    return memoryview(bytearray(nbytes))


def assert_there(store: DecodedStore, number: int, **options: Any) -> None:
    found, expected = store.get(number, take), made(number, **options)
    assert found is not None
    assert (found["__key__"], bytes(found["cls"]), found["__index__"]) == (
        expected["__key__"],
        expected["cls"],
        number,
    )
    assert found["jpg"][:2] == expected["jpg"][:2]
    assert np.array_equal(found["jpg"].pixels, expected["jpg"].pixels)


def used(cache: DecodedCache) -> int:
    folder = places.shared_memory_folder() if cache.ram else cache.folder
    return sum(path.stat().st_size for path in folder.iterdir())


def test_what_is_put_is_got(cache: DecodedCache, dataset: Dataset) -> None:
    store = opened(cache, dataset)
    try:
        assert store.empty
        assert store.get(5, take) is None
        assert all(put(store, number) for number in range(0, 600, 7))
        assert not put(store, 0), "each is written once"
        assert store.has(np.arange(600)).tolist() == [number % 7 == 0 for number in range(600)]
        for number in range(0, 600, 7):
            assert_there(store, number)
        assert store.report().kept == len(range(0, 600, 7))
        assert store.report().bytes == used(cache)
    finally:
        store.close()
    store.close()


def test_what_two_threads_put_at_once_is_kept_once(cache: DecodedCache, dataset: Dataset) -> None:
    def put_all() -> None:
        start.wait()
        for number in range(100):
            done.append(put(store, number))

    start, done = threading.Barrier(4), list[bool]()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with contextlib.closing(opened(cache, dataset)) as store:
            threads = [threading.Thread(target=put_all) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (sum(done), store.report().kept) == (100, 100)
            for number in range(100):
                assert_there(store, number)
    finally:
        sys.setswitchinterval(before)


def test_users_of_one_file_see_what_others_put(cache: DecodedCache, dataset: Dataset) -> None:
    first, second = opened(cache, dataset), opened(cache, dataset)
    other = opened(cache, dataset, bytes([1]) * 32)
    put(first, 3)
    put(second, 4)
    for store in (first, second):
        assert_there(store, 3)
        assert_there(store, 4)
    assert other.empty
    first.close()
    assert_there(second, 3)
    second.close()
    other.close()


def test_the_limit_is_kept_to_the_byte_by_all_users_together(cache: DecodedCache, dataset: Dataset) -> None:
    stores = [opened(cache, dataset), opened(cache, dataset), opened(cache, dataset, bytes([1]) * 32)]

    def fill(store: DecodedStore, begin: int) -> None:
        for number in range(begin, 600, 2):
            put(store, number, side=80 + number % 40)

    threads = [threading.Thread(target=fill, args=(store, i % 2)) for i, store in enumerate(stores * 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.limit * 0.9 < used(cache) <= cache.limit
    for store in stores:
        for number in np.flatnonzero(store.has(np.arange(600))).tolist():
            assert_there(store, number, side=80 + number % 40)
    for store in stores:
        store.close()


def test_what_was_granted_and_not_used_is_given_back(tmp_path: Path, dataset: Dataset) -> None:
    cache = DecodedCache(tmp_path, 1 << 30, size=8)
    store = opened(cache, dataset)
    put(store, 1)
    granted = used(cache)
    store.close()
    assert used(cache) < 40_000 < 4_000_000 < granted


def test_a_full_cache_keeps_what_it_has_and_says_so_once(
    tmp_path: Path, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(DecodedCache(tmp_path, 1 << 20, size=8), dataset)
    kept = [number for number in range(600) if put(store, number)]
    assert kept == list(range(len(kept)))
    assert 50 < len(kept) < 100
    assert not put(store, 599)
    for number in kept:
        assert_there(store, number)
    assert len([record for record in caplog.records if "is full" in record.message]) == 1
    store.close()


def test_a_folder_stays_from_run_to_run(tmp_path: Path, dataset: Dataset) -> None:
    cache = DecodedCache(tmp_path, 8 << 20, size=8)
    for number in range(20):
        store = opened(cache, dataset)
        for before in range(number):
            assert_there(store, before)
        assert put(store, number)
        store.close()


@pytest.mark.parametrize("at", [8, 100, 2000, 10_000])
def test_a_damaged_record_is_found_and_made_anew(tmp_path: Path, dataset: Dataset, at: int) -> None:
    cache = DecodedCache(tmp_path, 8 << 20, size=8)
    store = opened(cache, dataset)
    put(store, 1)
    put(store, 2)
    store.close()
    (path,) = tmp_path.glob("*.pictures")
    records = BLOCK + -(-8 * 600 // 4096) * 4096
    with path.open("r+b") as file:
        file.seek(records + at)
        byte = file.read(1)[0]
        file.seek(records + at)
        file.write(bytes([byte ^ 4]))
    store = opened(cache, dataset)
    assert store.get(1, take) is None
    assert_there(store, 2)
    assert store.report().damaged == 1
    assert put(store, 1)
    assert_there(store, 1)
    store.close()


def test_a_table_that_points_nowhere_is_no_harm(tmp_path: Path, dataset: Dataset) -> None:
    cache = DecodedCache(tmp_path, 8 << 20, size=8)
    store = opened(cache, dataset)
    for number in range(4):
        put(store, number)
    (path,) = tmp_path.glob("*.pictures")
    with path.open("r+b") as file:
        for number, entry in enumerate([1, (1 << 64) - 1, (1 << 40) + 5]):
            file.seek(BLOCK + 8 * (number + 100))
            file.write(entry.to_bytes(8, "little"))
    for number in range(100, 103):
        assert store.get(number, take) is None
    assert store.report().damaged == 3
    assert_there(store, 3)
    store.close()


@pytest.mark.parametrize("damage", ["header", "cut", "empty", "foreign"])
def test_a_file_that_is_not_ours_is_made_anew(tmp_path: Path, dataset: Dataset, damage: str) -> None:
    cache = DecodedCache(tmp_path, 8 << 20, size=8)
    store = opened(cache, dataset)
    put(store, 1)
    store.close()
    (path,) = tmp_path.glob("*.pictures")
    content = path.read_bytes()
    changed = {
        "header": content[:30] + bytes([content[30] ^ 1]) + content[31:],
        "cut": content[:5000],
        "empty": b"",
        "foreign": b"something else" * 1000,
    }
    path.write_bytes(changed[damage])
    store = opened(cache, dataset)
    assert store.empty
    assert put(store, 1)
    assert_there(store, 1)
    store.close()


def test_pictures_of_a_shard_that_was_packed_anew_are_not_used(tmp_path: Path) -> None:
    urls = write_labels(tmp_path / "data", [30, 30])
    cache = DecodedCache(tmp_path / "cache", 8 << 20, size=8)
    store = opened(cache, open_dataset(urls))
    put(store, 3)
    put(store, 33)
    store.close()
    shard = tmp_path / "data" / "s-0001.tar"
    os.utime(shard, ns=(0, shard.stat().st_mtime_ns + 1))
    store = opened(cache, open_dataset(urls))
    assert_there(store, 3)
    assert store.get(33, take) is None
    assert store.report().stale == 1
    store.close()


def test_unused_files_make_room_and_used_ones_do_not(tmp_path: Path, dataset: Dataset) -> None:
    cache = DecodedCache(tmp_path, 2 << 20, size=8)
    keys = [bytes([number]) * 32 for number in range(4)]
    for number, key in enumerate(keys[:3]):
        store = opened(cache, dataset, key)
        assert all(put(store, sample) for sample in range(55))
        store.close()
        os.utime(tmp_path / f"{key.hex()[:32]}.pictures", (number + 1, number + 1))
    held = opened(cache, dataset, keys[0])
    store = opened(cache, dataset, keys[3])
    assert all(put(store, sample) for sample in range(40))
    assert not (tmp_path / f"{keys[1].hex()[:32]}.pictures").exists(), "the one that was opened longest ago goes first"
    assert (tmp_path / f"{keys[2].hex()[:32]}.pictures").exists()
    assert_there(held, 39)
    for sample in range(40, 600):
        put(store, sample)
    assert not (tmp_path / f"{keys[2].hex()[:32]}.pictures").exists()
    assert_there(held, 39)
    assert used(cache) <= cache.limit
    held.close()
    store.close()


def test_too_little_for_the_table_is_an_error_with_the_figures(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(dataset), "__len__", lambda self: 10_000_000)
    with pytest.raises(UsageError, match=r"1,048,576 bytes.*10,000,000 samples, which takes 80,0"):
        opened(DecodedCache(tmp_path, 1 << 20, size=8), dataset)


def test_a_place_that_cannot_be_used_is_an_error(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"file.*cannot be used.*Name another folder"):
        opened(DecodedCache(tmp_path / "file", 1 << 20, size=8), dataset)
    monkeypatch.setattr(places, "_SHM", tmp_path / "none")
    with pytest.raises(UnavailableError, match=r"there is no .*none here.*Name a folder"):
        opened(DecodedCache("ram", 1 << 20, size=8), dataset)
    monkeypatch.setattr(places, "_SHM", tmp_path)
    folder = places.shared_memory_folder()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnavailableError, match="may be written by others"):
        opened(DecodedCache("ram", 1 << 20, size=8), dataset)


@pytest.mark.timeout(30)
def test_a_lock_that_is_a_link_to_nowhere_is_an_error(tmp_path: Path, dataset: Dataset) -> None:
    folder = tmp_path / "folder"
    opened(DecodedCache(str(folder), 8 << 20, size=8), dataset).close()
    for lock in folder.rglob("lock"):
        lock.unlink()
        lock.symlink_to(tmp_path / "gone" / "lock")
    with pytest.raises(UnavailableError, match="cannot be used"):
        opened(DecodedCache(str(folder), 8 << 20, size=8), dataset)


def test_a_disk_that_fails_is_no_error(cache: DecodedCache, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(cache, dataset)
    put(store, 1)

    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", refuse)
        patch.setattr(os, "preadv", refuse)
        assert not put(store, 2)
        assert store.get(1, take) is None
    assert store.get(2, take) is None
    store.close()


def test_a_store_that_is_let_go_ends(cache: DecodedCache, dataset: Dataset) -> None:
    gc.collect()  # what earlier tests left to the collector is none of this one's
    before = len(os.listdir("/proc/self/fd"))
    store = opened(cache, dataset)
    put(store, 1)
    del store
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


_FILL = """
import sys, threading
from pathlib import Path
from loaders.decoded import places
from loaders.decoded.layout import BLOCK
places._SHM = Path(sys.argv[4])
from tests.loaders.decoded.test_store import KEY, opened, put
from loaders.decoded.options import DecodedCache
from wds_tools.dataset import open_dataset
dataset = open_dataset(sys.argv[1])
store = opened(DecodedCache(sys.argv[2], 64 << 20, size=8), dataset)
begin = int(sys.argv[3])
def fill(first):
    for number in range(first, 600, 4):
        put(store, number)
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
threads = [threading.Thread(target=fill, args=(first,)) for first in (begin, begin + 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("done", flush=True)
sys.stdin.read()
"""


class Filler:
    """A process that puts every second sample, by two threads, says which, and then waits to be told to end."""

    def __init__(self, urls: str, cache: DecodedCache, begin: int) -> None:
        command = [sys.executable, "-c", _FILL, urls, str(cache.place), str(begin), str(places._SHM)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, lines: int) -> list[str]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline() for _ in range(lines)]

    def fill(self) -> None:
        assert self.says(301)[-1] == "done\n"

    def kill(self) -> list[str]:
        """What it said last."""
        self.process.send_signal(signal.SIGKILL)
        return self.process.communicate()[0].splitlines(keepends=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.communicate("")


def test_two_processes_fill_one_file_and_one_is_killed_meanwhile(tmp_path: Path, cache: DecodedCache) -> None:
    urls = write_labels(tmp_path / "data", [300, 300])
    dataset = open_dataset(urls)
    with Filler(urls, cache, 0) as killed, Filler(urls, cache, 1) as other:
        other.says(1)  # in memory it would find nothing, had the first one ended before
        said = killed.says(20) + killed.kill()
        assert other.says(300)[-1] == "done\n"
        store = opened(cache, dataset)
    numbers = {int(line) for line in said if line.endswith("\n") and line != "done\n"}
    assert len(numbers) >= 20
    there = set(np.flatnonzero(store.has(np.arange(600))).tolist())
    assert there >= numbers | set(range(1, 600, 2))
    for number in range(600):
        assert number in there or put(store, number)
        assert_there(store, number)
    assert store.report().damaged == 0
    store.close()


def test_what_a_killed_process_left_in_memory_is_removed_at_the_next_start(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_SHM", tmp_path / "shm")
    (tmp_path / "shm").mkdir()
    cache = DecodedCache("ram", 64 << 20, size=8)
    with Filler(write_labels(tmp_path / "data", [300, 300]), cache, 0) as filler:
        filler.fill()
        filler.kill()
    (left,) = places.shared_memory_folder().glob("*.pictures")
    store = opened(cache, dataset, bytes([9]) * 32)
    assert not left.exists()
    store.close()
    assert not any((tmp_path / "shm").iterdir())


def test_space_that_a_killed_process_had_is_used_again(tmp_path: Path) -> None:
    urls = write_labels(tmp_path / "data", [300, 300])
    cache = DecodedCache(tmp_path / "cache", 64 << 20, size=8)
    for begin in (0, 1):
        with Filler(urls, cache, begin) as filler:
            filler.fill()
            filler.kill()
    full = used(cache)
    store = opened(cache, open_dataset(urls))
    assert store.has(np.arange(600)).all()
    assert used(cache) < full
    for number in range(600):
        assert_there(store, number)
    store.close()


def _end_at_once(cache: DecodedCache, dataset: Dataset, parent: int, shm: Path) -> None:
    places._SHM = shm
    store = opened(cache, dataset, owner=parent)
    for number in range(10):
        put(store, number)
    store.close()


def test_memory_stays_for_the_life_of_its_owner(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    monkeypatch.setattr(places, "_SHM", shm)
    cache = DecodedCache("ram", 8 << 20, size=8)
    spawn = multiprocessing.get_context("spawn")
    for _ in range(2):
        worker = spawn.Process(target=_end_at_once, args=(cache, dataset, os.getpid(), shm))
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    store = opened(cache, dataset)
    assert_there(store, 9)
    store.close()
    assert any(shm.iterdir())
    disown(cache, os.getpid() + 1)
    assert any(shm.iterdir()), "another process cannot say so"
    disown(cache, os.getpid())
    assert not any(shm.iterdir())

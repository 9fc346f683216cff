"""Shards on several drives: all of them have work at the same time, and no drive holds up another one.

The drives are two real file systems (the temporary folder's and /dev/shm) behind a disk that is simulated: whoever asks
it for something waits until the other drive, too, is asked for something. Where one thread would come to the drives in
turn, that never happens, and the wait is given up with an error.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from loaders import RandomResizedCrop, Reading, ShardLoader
from loaders.drives import Drives, device_of
from loaders.shards import OpenShards
from tests.builders import settle, write_pictures, write_shard
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.sources.base import Source

SHM = Path("/dev/shm")

pytestmark = pytest.mark.skipif(
    not SHM.is_dir() or SHM.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev, reason="there is one drive only"
)


@pytest.fixture
def other() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SHM, prefix="shardstream-test-") as folder:
        yield Path(folder)


class Disks:
    """Two drives that do one thing at a time each, and nothing before both were asked for something at once."""

    def __init__(self) -> None:
        self.tokens: dict[int, threading.Lock] = {}
        self.changed = threading.Condition()
        self.busy: dict[int, int] = {}
        self.both = False

    @contextmanager
    def asked(self, device: int) -> Iterator[None]:
        with self.changed:
            token = self.tokens.setdefault(device, threading.Lock())
        with token:
            with self.changed:
                self.busy[device] = self.busy.get(device, 0) + 1
                self.both = self.both or len([count for count in self.busy.values() if count]) > 1
                self.changed.notify_all()
                self.wait_for_both()
            yield
            with self.changed:
                self.busy[device] -= 1

    def wait_for_both(self) -> None:
        """Until each of the drives was asked for something while the other one was, too."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.both, timeout=60):
                self.both = True  # and no more waiting
                raise AssertionError("one drive waits for the other")


class SlowShard:
    """A shard on one of the drives; slow to be read, or slow to be told what will be."""

    def __init__(self, source: Source, disks: Disks, slow: str) -> None:
        self._source, self._disks, self._slow = source, disks, slow
        self._device = device_of(source.url)
        self.url, self.size = source.url, source.size
        self.close = source.close

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self._do("read", lambda: self._source.read_into(offset, buffer))

    def announce(self, offset: int, length: int) -> None:
        self._do("announce", lambda: self._source.announce(offset, length))

    def _do(self, what: str, act: Callable[[], None]) -> None:
        if what != self._slow:
            act()
            return
        with self._disks.asked(self._device):
            act()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Disks]:
    def put_behind(what: str) -> Disks:
        disks, open_shard = Disks(), Dataset.open_shard
        monkeypatch.setattr(Dataset, "open_shard", lambda self, shard: SlowShard(open_shard(self, shard), disks, what))
        return disks

    return put_behind


def spread_over(*folders: Path, samples: int = 8) -> list[str]:
    """Eight shards, in turn on each of the folders."""
    urls = []
    for shard in range(8):
        numbers = range(shard * samples, (shard + 1) * samples)
        place = folders[shard % len(folders)] / f"s-{shard}.tar"
        urls.append(str(write_shard(place, [(f"{n:06d}", {"cls": str(n).encode()}) for n in numbers])))
    return urls


def labels(loader: ShardLoader) -> list[list[int]]:
    return [batch.cls.tolist() for batch in loader]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("what", ["announce", "read"])
def test_both_drives_are_at_work_at_once(
    tmp_path: Path, other: Path, slow: Callable[[str], Disks], what: str, shuffle: bool
) -> None:
    urls = spread_over(tmp_path, other)
    options: dict[str, Any] = {"batch_size": 32, "fields": ("cls",), "shuffle": shuffle, "threads": 2}
    with ShardLoader(spread_over(tmp_path), **options) as loader:
        expected = labels(loader)
    disks = slow(what)
    with ShardLoader(urls, **options) as loader:
        assert labels(loader) == expected, "the order does not depend on where shards lie"
        disks.wait_for_both()  # batches do not wait for what is announced; once closed, nobody announces any more


def test_threads_that_read_at_the_same_time_begin_on_different_drives(tmp_path: Path, other: Path) -> None:
    dataset = open_dataset(spread_over(tmp_path, other))
    drives = Drives(OpenShards(dataset, Reading()), dataset.urls.__getitem__)
    shards = [0, 1, 2, 3, 3, 2, 1, 0]
    drives.meet([0, 2])
    assert drives.spread(shards, 1) == list(range(8)), "there is one drive so far"
    drives.meet(range(8))
    for turn in range(4):
        order = drives.spread(shards, turn)
        assert sorted(order) == list(range(8))
        assert [shards[at] % 2 for at in order] == [turn % 2] * 4 + [1 - turn % 2] * 4
        for drive in range(2):
            places = [at for at in order if shards[at] % 2 == drive]
            assert places == sorted(places), "those of a drive stay in the order of the plan"
    drives.stop()
    drives.join()


class Recorder(OpenShards):
    """Shards that note what is announced, and wait before they do while the gate is closed."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset, Reading())
        self.gates = {0: threading.Event(), 1: threading.Event()}
        self.heard: list[tuple[int, int]] = []
        self.waiting = threading.Semaphore(0)

    def open(self, shard: int) -> Any:
        recorder = self

        class Opened:
            class source:  # noqa: N801 - as the attribute is called
                @staticmethod
                def announce(offset: int, length: int) -> None:
                    recorder.waiting.release()
                    assert recorder.gates[shard % 2].wait(20)
                    recorder.heard.append((shard, offset))

        return Opened


def test_a_drive_that_is_behind_holds_up_no_other_and_is_told_in_order(tmp_path: Path) -> None:
    dataset = open_dataset(spread_over(tmp_path))
    shards = Recorder(dataset)
    shards.gates[1].set()
    drives = Drives(shards, dataset.urls.__getitem__, device=lambda url: dataset.urls.index(url) % 2)
    shards.gates[0].set()
    drives.announce(0, 0, 1)  # by the caller: there is one drive so far
    drives.meet([0, 1])
    assert shards.heard == [(0, 0)]
    shards.gates[0].clear()
    for offset in range(1, 50):
        drives.announce(0, offset, 1)
        drives.announce(1, offset, 1)
    for _ in range(1 + 1 + 49):  # the first, the one that waits, and all of the other drive
        assert shards.waiting.acquire(timeout=20)
    assert [offset for shard, offset in shards.heard if shard == 1][:48] == list(range(1, 49))
    shards.gates[0].set()
    for _ in range(48):
        assert shards.waiting.acquire(timeout=20)
    drives.stop()
    drives.join()
    assert [offset for shard, offset in shards.heard if shard == 0] == list(range(50))


def test_what_a_dropped_run_has_announced_is_forgotten(tmp_path: Path) -> None:
    dataset = open_dataset(spread_over(tmp_path))
    shards = Recorder(dataset)
    shards.gates[1].set()
    drives = Drives(shards, dataset.urls.__getitem__, device=lambda url: dataset.urls.index(url) % 2)
    shards.gates[0].set()
    drives.announce(0, 0, 1)
    drives.announce(1, 0, 1)
    shards.gates[0].clear()
    for offset in range(1, 10):
        drives.announce(0, offset, 1)
    for _ in range(3):
        assert shards.waiting.acquire(timeout=20)
    drives.begin()
    drives.announce(0, 100, 1)
    shards.gates[0].set()
    assert shards.waiting.acquire(timeout=20)
    drives.stop()
    drives.join()
    assert [offset for shard, offset in shards.heard if shard == 0] == [0, 1, 100]


def test_no_thread_is_left_and_none_is_made_for_one_drive(tmp_path: Path, other: Path) -> None:
    settle()
    before = set(threading.enumerate())

    def drive_threads() -> Sequence[threading.Thread]:
        return [t for t in threading.enumerate() if t not in before and t.name.startswith("shardstream-drive")]

    with ShardLoader(spread_over(tmp_path), batch_size=8, fields=("cls",), threads=2) as loader:
        labels(loader)
        assert not drive_threads()
    for _ in range(2):
        loader = ShardLoader(spread_over(tmp_path, other), batch_size=8, fields=("cls",), threads=2)
        labels(loader)
        assert len(drive_threads()) == 2
        loader.close()
        assert not drive_threads()
    let_go = ShardLoader(spread_over(tmp_path, other), batch_size=8, fields=("cls",), threads=2)
    next(iter(let_go))
    assert drive_threads()
    del let_go
    settle()
    assert not drive_threads()


def test_a_shard_that_is_gone_is_said_by_whoever_reads_it(tmp_path: Path, other: Path) -> None:
    urls = spread_over(tmp_path, other)
    dataset = open_dataset(urls)
    assert device_of(str(tmp_path / "nothing")) == -1
    with ShardLoader(urls, batch_size=8, fields=("cls",), threads=2, shuffle=False) as loader:
        assert len(loader) == 8
        os.unlink(urls[5])
        found = []
        with pytest.raises(FileNotFoundError, match="s-5"):
            for batch in loader:
                found += batch.cls.tolist()
        assert found == list(range(len(found)))
    assert np.array_equal(dataset.shards_of(np.array([0, 7, 8, 63])), [0, 0, 1, 7])


def test_batches_do_not_depend_on_where_the_shards_lie(tmp_path: Path, other: Path) -> None:
    here = sorted(Path(write_pictures(tmp_path / "here", [8] * 4)).iterdir())
    spread = [path if n % 2 else Path(shutil.copy(path, other)) for n, path in enumerate(here)]
    every: list[list[Any]] = []
    for urls in (here, spread):
        fields = ("jpg", "cls", "__key__", "__index__")
        with ShardLoader(urls, batch_size=16, fields=fields, image=RandomResizedCrop(24), threads=1) as loader:
            every.append([[batch[0].tobytes(), *map(list, batch[1:])] for _ in range(2) for batch in loader])
    assert every[0] == every[1]

"""Troubles with caches on disk (B31 to B55): names, kills, leftovers, limits. Through the loader, over sockets."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaders import Reading, Remote, ShardLoader
from tests.builders import settle
from tests.cases import inputs_http as inputs
from tests.loaders.remote_data import served
from tests.servers.faults import MIDDLE
from tests.servers.faulty import Behaviour, resets, says
from tests.wds_tools.sources.cached import entry_files
from wds_tools.make_index import make_index
from wds_tools.serve import Served, serve
from wds_tools.sources.cache.names import entry_name
from wds_tools.sources.http import close_idle

ROOT = Path(__file__).parents[2]
HASTY = Remote(attempts=4, give_up_s=60.0)


@pytest.fixture(autouse=True)
def _no_idle_connections() -> Iterator[None]:
    yield
    close_idle()


def labels(urls: object, cache: Path, **options: object) -> list[int]:
    read = Reading(cache_dir=cache, remote=HASTY, cache_bytes=options.pop("cache_bytes", None))  # type: ignore[arg-type]
    return sorted(label for batch in inputs.batches(urls, read=read, **options) for label in batch)


def on_disk(cache: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in cache.rglob("*") if path.is_file())


def unfinished(cache: Path) -> list[str]:
    """What a killed process may leave: temporary files."""
    return [str(path) for path in cache.rglob("*") if path.name.endswith(".tmp") or ".tmp." in path.name]


# B31


def test_b31_shards_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/issues/471
    one = inputs.dataset(tmp_path / "one", shards=1, samples=8)
    other = inputs.dataset(tmp_path / "other", shards=2, samples=8)
    shutil.move(Path(other) / "s-0001.tar", Path(other) / "s-0000.tar")
    (Path(other) / "dataset.json").unlink()
    (Path(other) / "dataset.offsets.npy").unlink()
    make_index(other)
    with served(one, at="/a/") as a, served(other, at="/b/") as b:
        for _ in range(2):
            assert labels([a.url("/a/"), b.url("/b/")], tmp_path / "cache") == list(range(16))
    assert [path.name.endswith("s-0000.tar") for path in entry_files(tmp_path / "cache")] == [True, True]


def test_b31_names_tell_objects_apart_and_fit_any_disk() -> None:
    urls = [
        "http://h/a/part_0.tar",
        "http://h/b/part_0.tar",
        "http://h/a/part_0.tar?v=1",
        "http://h/a/part_0.tar?v=2",
        "http://other/a/part_0.tar",
        "http://h/" + "x" * 400 + "/part_0.tar",
        "http://h/" + "x" * 401 + "/part_0.tar",
        "http://h/" + "y" * 400 + ".tar",
    ]
    found = [entry_name(url, 100, None) for url in urls]
    assert len(set(found)) == len(urls)
    assert all(len(name) < 255 and "/" not in name for name in found)
    signed = "http://h/a/part_0.tar?X-Amz-Credential=c&X-Amz-Signature="
    assert entry_name(signed + "1", 100, None) == entry_name(signed + "2", 100, None) == found[0]


def test_b31_a_replaced_shard_is_noticed_and_never_mixed(tmp_path: Path) -> None:
    folder = inputs.dataset(tmp_path / "data", shards=1, samples=8)
    again = inputs.dataset(tmp_path / "again", shards=1, samples=9)
    with served(folder) as server:
        assert labels(server.url("/d/"), tmp_path / "cache") == list(range(8))
        for path in Path(again).iterdir():
            server.put(f"/d/{path.name}", path.read_bytes())
        assert labels(server.url("/d/"), tmp_path / "cache", tail="exact") == list(range(9))


# B33

READER = """
import sys
from loaders import Reading, ShardLoader
url, cache, stop = sys.argv[1:]
with ShardLoader(url, batch_size=8, fields=("cls",), read=Reading(cache_dir=cache), threads=2) as loader:
    for number, batch in enumerate(loader):
        if number == int(stop):
            print("now", flush=True)
            sys.stdin.read()
"""


@contextlib.contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that reads so many batches through a cache, says so, and waits."""
    command = [sys.executable, "-c", READER, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "now\n"
            yield process
        finally:
            process.kill()


def test_b33_a_kill_while_caching_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/pull/503
    folder = inputs.dataset(tmp_path / "data", shards=8, samples=32, bytes_each=30_000)
    cache = tmp_path / "cache"
    with served(folder) as server:
        with running(server.url("/d/"), cache, 2) as process:
            process.send_signal(signal.SIGKILL)
        assert labels(server.url("/d/"), cache, tail="exact") == list(range(256))
        asked = len(server.requests)
        assert labels(server.url("/d/"), cache, tail="exact") == list(range(256))
        assert [r.path for r in server.requests[asked:] if r.path.endswith(".tar")] == []
    assert not unfinished(cache)


@pytest.mark.parametrize("extra", [0, 1])
def test_b33_a_break_and_a_size_that_is_a_multiple_of_everything(tmp_path: Path, extra: int) -> None:
    """Each transfer breaks at 70,000 bytes; the shard is 20 times 8,192 bytes long, or 512 more."""
    data = inputs.content(6)
    data += bytes(20 * 8192 + 512 * extra - len(data))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.tar").write_bytes(data)
    make_index(str(tmp_path / "data"))
    with served(tmp_path / "data") as server:
        server.then = Behaviour(deliver=resets(MIDDLE))
        for _ in range(2):
            assert labels(server.url("/d/"), tmp_path / "cache", tail="exact") == list(range(6))
            server.then = Behaviour(says(500))
            for name in ("dataset.json", "dataset.offsets.npy"):
                server.routes[f"/d/{name}"] = Behaviour()


def test_b33_a_consumer_that_stops_early_leaves_a_cache_that_goes_on(tmp_path: Path) -> None:
    folder = inputs.dataset(tmp_path / "data", shards=4, samples=16)
    cache = tmp_path / "cache"
    with served(folder) as server:
        with ShardLoader(server.url("/d/"), batch_size=3, fields=("cls",), read=Reading(cache_dir=cache)) as loader:
            next(iter(loader))
        assert labels(server.url("/d/"), cache) == list(range(64))
    assert not unfinished(cache)


def test_b33_two_processes_fetch_each_byte_once(tmp_path: Path) -> None:
    folder = inputs.dataset(tmp_path / "data", shards=4, samples=16, bytes_each=6000)
    sent: Counter[str] = Counter()

    def note(request: Served) -> None:
        sent[request.path] += request.sent

    with serve(Path(folder), on_request=note) as server:
        with (
            running(f"{server.url}/", tmp_path / "cache", 7),
            running(f"{server.url}/", tmp_path / "cache", 7),
        ):
            pass  # both have had all 8 batches of the epoch
    # Closed, the server has told of all: it does so after the last byte of an answer.
    sizes = {f"/{path.name}": path.stat().st_size for path in Path(folder).glob("*.tar")}
    assert {path: count for path, count in sent.items() if path.endswith(".tar")} == sizes


# B42


def test_b42_a_run_starts_at_once_after_all_of_the_last_one_was_killed(tmp_path: Path) -> None:
    """Two ranks and a second job over one cache; nothing of them has to be cleaned, and nothing is left of them."""
    # https://github.com/mosaicml/streaming/issues/781
    folder = inputs.dataset(tmp_path / "data", shards=4, samples=16)
    cache, shm = tmp_path / "cache", set(os.listdir("/dev/shm"))
    with served(folder) as server:
        url = server.url("/d/")
        with running(url, cache, 1) as first, running(url, cache, 1) as second, running(url, cache, 2) as other:
            for process in (first, second):
                process.send_signal(signal.SIGKILL)
                process.wait()
            assert labels(url, cache) == list(range(64))  # while the other job still runs
            assert other.poll() is None
        assert labels(url, cache) == list(range(64))
    assert not unfinished(cache)
    assert not {name for name in set(os.listdir("/dev/shm")) - shm if "shardstream" in name}


# B55


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=False, capture_output=True)
    if done.returncode:
        pytest.skip("no file system may be mounted here")
    yield disk
    settle()
    subprocess.run(["umount", disk], check=True)


SHARDS, SAMPLES, EACH = 10, 16, 60_000
SIZE = SHARDS * SAMPLES * EACH  # 9.6 MB


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return inputs.dataset(tmp_path_factory.mktemp("large"), shards=SHARDS, samples=SAMPLES, bytes_each=EACH)


@pytest.mark.parametrize("limit", [4_000_000, 500_000], ids=["four shards", "half a shard"])
def test_b55_the_limit_is_kept_and_nothing_in_use_is_removed(tmp_path: Path, large: str, limit: int) -> None:
    # https://github.com/Lightning-AI/litData/issues/533
    cache = tmp_path / "cache"
    with served(large) as server:
        for _ in range(2):
            assert labels(server.url("/d/"), cache, cache_bytes=limit) == list(range(160))
            assert on_disk(cache / "shards") <= limit + 64 * 1024  # and the ledger
    assert not unfinished(cache)


def test_b55_a_disk_that_is_full_is_streamed_past_with_one_warning(
    small_disk: Path, large: str, caplog: pytest.LogCaptureFixture
) -> None:
    with served(large) as server, caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert labels(server.url("/d/"), small_disk / "cache", cache_bytes=1 << 40) == list(range(160))
    said = [record.getMessage() for record in caplog.records if "cache" in record.getMessage()]
    assert 1 <= len(said) <= 2  # one for each of the two loaders at most
    assert "No space left" in said[0] or "full" in said[0]
    assert not unfinished(small_disk)


def test_b55_a_disk_that_is_read_only_or_over_quota_harms_no_run(
    tmp_path: Path, large: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A quota cannot be set without one, so that the system's refusal is put in its place."""
    refusal = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    written = os.pwrite

    def over_quota(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 100_000:
            raise refusal
        return written(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", over_quota)
    with served(large) as server, caplog.at_level(logging.WARNING):
        assert labels(server.url("/d/"), tmp_path / "cache") == list(range(160))
        (tmp_path / "plain").write_text("a file where the folder should be")
        assert labels(server.url("/d/"), tmp_path / "plain" / "cache") == list(range(160))
    assert caplog.records


@pytest.mark.long
def test_b55_workers_and_processes_keep_to_one_limit(tmp_path: Path, large: str) -> None:
    cache, limit = tmp_path / "cache", 4_000_000
    code = """
import sys
from torch.utils.data import DataLoader
from loaders import Reading
from loaders.torch import ShardDataset
url, cache, limit, rank = sys.argv[1:]
dataset = ShardDataset(url, batch_size=8, fields=("cls",), rank=int(rank), world_size=2,
                       read=Reading(cache_dir=cache, cache_bytes=int(limit)))
for _ in range(2):
    print(sum(len(batch.cls) for batch in DataLoader(dataset, batch_size=None, num_workers=4)))
"""
    with served(large) as server:
        jobs = [
            subprocess.Popen(
                [sys.executable, "-c", code, server.url("/d/"), str(cache), str(limit), str(rank)],
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                text=True,
            )
            for rank in range(2)
        ]
        for job in jobs:
            said, _ = job.communicate(timeout=200)
            assert said.split() == ["80", "80"]
    assert on_disk(cache / "shards") <= limit + 64 * 1024
    assert not unfinished(cache)

"""Many processes, workers and threads over one folder, against a real server: each byte crosses the network once."""

import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.wds_tools.sources.cached import EXTENT, MIB, Fake, content, cost, entry_files, read, whole
from wds_tools.serve import Served, serve
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.http import HttpFile

SIZES = {"a.tar": 9 * MIB + 5, "b.tar": 4 * MIB, "c.tar": 100_000}
THREADS = 4


class Site:
    """A folder of objects behind a server that notes the ranges it was asked for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.contents = {name: content(size, at) for at, (name, size) in enumerate(SIZES.items())}
        for name, data in self.contents.items():
            (folder / name).write_bytes(data)
        self.server = serve(folder, on_request=self._note)
        self.sent: Counter[str] = Counter()
        self.requests = 0
        self._lock = threading.Lock()

    def _note(self, served: Served) -> None:
        with self._lock:
            self.requests += 1
            self.sent[served.path.removeprefix("/")] += served.sent

    def url(self, name: str) -> str:
        return self.server.url.rstrip("/") + "/" + name


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    with made.server:
        yield made


def reads_all(cache: DiskCache, urls: dict[str, str], seed: int) -> list[str]:
    """Every byte of every object, by several threads, in another order for each process; the names of wrong ones."""
    work = [(name, at) for name in urls for at in range(0, SIZES[name], 262_144)]
    random.Random(seed).shuffle(work)
    expected = {name: content(SIZES[name], at) for at, name in enumerate(SIZES)}
    files = {
        name: cache.open(url, size=SIZES[name], version=None, inner=HttpFile(url), dataset="d")
        for name, url in urls.items()
    }

    def right(item: tuple[str, int]) -> bool:
        name, at = item
        length = min(300_000, SIZES[name] - at)
        return read(files[name], at, length) == expected[name][at : at + length]

    try:
        with ThreadPoolExecutor(THREADS) as pool:
            return [item[0] for item, good in zip(work, pool.map(right, work), strict=True) if not good]
    finally:
        for file in files.values():
            file.close()


def rank(cache: DiskCache, urls: dict[str, str], seed: int) -> None:
    with cache:
        sys.exit(repr(wrong) if (wrong := reads_all(cache, urls, seed)) else 0)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_byte_is_fetched_once_by_all_ranks_and_threads(tmp_path: Path, site: Site, method: str) -> None:
    context = multiprocessing.get_context("fork") if method == "fork" else multiprocessing.get_context("spawn")
    cache = DiskCache(tmp_path / "cache")
    urls = {name: site.url(name) for name in SIZES}
    ranks = [context.Process(target=rank, args=(cache, urls, seed)) for seed in range(4)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
    assert [process.exitcode for process in ranks] == [0] * 4
    site.server.close()  # it tells of an answer after its last byte: of all now
    assert dict(site.sent) == SIZES
    assert 3 <= site.requests <= 5  # extents, neighbours together where one read wants both
    assert cache.info().whole == 3


def test_workers_share_what_their_parent_has_open(tmp_path: Path, site: Site) -> None:
    url = site.url("a.tar")
    data = site.contents["a.tar"]
    with DiskCache(tmp_path / "cache") as cache:
        with cache.open(url, size=len(data), version=None, inner=HttpFile(url), dataset="d") as file:
            assert read(file, 0, 10) == data[:10]
            child = os.fork()
            if child == 0:
                good = cache.report()["fetched"] == 0 and read(file, EXTENT - 5, 10) == data[EXTENT - 5 : EXTENT + 5]
                good &= cache.report()["fetched"] == EXTENT
                file.close()
                cache.close()
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert read(file, 0, len(data)) == data
        assert cache.clear().in_use == 1  # the child's close does not end its parent's use
    site.server.close()
    assert dict(site.sent) == {"a.tar": len(data)}


def test_the_limit_holds_over_processes(tmp_path: Path, site: Site) -> None:
    context = multiprocessing.get_context("fork")
    limit = cost(SIZES["a.tar"]) + 50_000
    cache = DiskCache(tmp_path / "cache", limit)
    urls = {name: site.url(name) for name in SIZES}
    watched = context.Event()

    def watched_rank(seed: int) -> None:
        assert watched.wait(60)  # they would be done before anybody looks, on a machine that is busy elsewhere
        rank(cache, urls, seed)

    ranks = [context.Process(target=watched_rank, args=(seed,)) for seed in range(4)]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks):
        assert sum(path.stat().st_blocks * 512 for path in entry_files(tmp_path / "cache")) <= limit
        watched.set()
        ranks[0].join(0.01)
    assert [process.exitcode for process in ranks] == [0] * 4
    info = cache.info()
    assert info.on_disk <= info.booked <= limit
    assert info.bytes >= 2 * EXTENT


FETCH = """
import os, sys
from pathlib import Path
from tests.wds_tools.sources.cached import Fake, content, opened, read
from wds_tools.sources.cache import DiskCache, entry

class Stops(Fake):
    def read_into(self, offset, buffer):
        super().read_into(offset, buffer)
        if sys.argv[2] == "in the transfer":
            stop()

def stop():
    print("stopped", flush=True)
    sys.stdin.read()

if sys.argv[2] == "in the write":
    whole = os.pwrite
    def pwrite(descriptor, data, offset):
        if len(data) > 5000:
            whole(descriptor, data[: len(data) // 2], offset)
            stop()
        return whole(descriptor, data, offset)
    os.pwrite = pwrite
if sys.argv[2] == "before the record":
    entry.Writer._note = lambda self, extent, state, checks, note=entry.Writer._note: (
        note(self, extent, state, checks) if not checks else stop())
if sys.argv[2] == "while it is made":
    os.ftruncate = lambda descriptor, length: stop()
with DiskCache(Path(sys.argv[1]), int(sys.argv[3])) as cache:
    with opened(cache, Stops(content(int(sys.argv[4])))) as file:
        read(file, 0, 10)
"""


@pytest.fixture(params=["in the transfer", "in the write", "before the record", "while it is made"])
def stopped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    limit, size = cost(9 * MIB), 9 * MIB
    with subprocess.Popen(
        [sys.executable, "-c", FETCH, str(tmp_path / "cache"), request.param, str(limit), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        yield process
        process.kill()


def test_after_a_kill_the_next_start_is_clean_and_right(tmp_path: Path, stopped: subprocess.Popen[str]) -> None:
    os.kill(stopped.pid, signal.SIGKILL)
    stopped.wait()
    origin = Fake(content(9 * MIB))
    with DiskCache(tmp_path / "cache", cost(9 * MIB)) as cache:
        assert whole(cache, origin) == origin.data
        info = cache.info()
        assert (info.whole, info.booked) == (1, cost(9 * MIB))
    assert sum(length for _, length in origin.asked) == 9 * MIB
    assert sorted(path.name for path in (tmp_path / "cache" / "shards").iterdir() if path.name[0] == ".") == []
    with DiskCache(tmp_path / "cache", cost(9 * MIB)) as cache:
        again = Fake(content(9 * MIB))
        assert whole(cache, again) == again.data
        assert (again.asked, cache.report()["damaged"]) == ([], 0)


def test_who_waits_for_a_fetcher_that_is_killed_goes_on_in_its_place(
    tmp_path: Path, stopped: subprocess.Popen[str]
) -> None:
    origin = Fake(content(9 * MIB))
    found: list[bytes] = []
    with DiskCache(tmp_path / "cache", cost(9 * MIB)) as cache:
        waiting = threading.Thread(target=lambda: found.append(whole(cache, origin)), daemon=True)
        waiting.start()
        os.kill(stopped.pid, signal.SIGKILL)
        waiting.join(60)
        assert found == [origin.data]


def test_a_fetcher_that_dies_among_living_ones_is_replaced(tmp_path: Path, site: Site) -> None:
    context = multiprocessing.get_context("fork")
    cache = DiskCache(tmp_path / "cache")
    urls = {name: site.url(name) for name in SIZES}
    began = os.pipe()

    def doomed() -> None:
        os.write(began[1], b"x")
        rank(cache, urls, 0)

    first = context.Process(target=doomed)
    others = [context.Process(target=rank, args=(cache, urls, seed)) for seed in (1, 2)]
    first.start()
    assert select.select([began[0]], [], [], 60)[0]
    for process in others:
        process.start()
    first.kill()
    for process in (first, *others):
        process.join(120)
    assert [process.exitcode for process in others] == [0, 0]
    assert cache.info().whole == 3
    for descriptor in began:
        os.close(descriptor)

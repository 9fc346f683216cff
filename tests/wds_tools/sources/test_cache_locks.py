"""Locks: they exclude threads and processes, lie on ranges, and end with whoever held them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wds_tools.sources.cache import locks

HOLD = """
import sys
from pathlib import Path
from wds_tools.sources.cache import locks
locks._RANGES = sys.argv[2] == "True"
with locks.exclusive(Path(sys.argv[1]), start=5, length=1):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=[True, False], ids=["ranges", "flock"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param and not locks._RANGES:
        pytest.skip("this system locks whole files only")
    monkeypatch.setattr(locks, "_RANGES", request.param)
    place = tmp_path / "file"
    place.touch()
    return place


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(locks._RANGES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def waiter(path: Path, *, start: int = 5, length: int = 1) -> tuple[threading.Thread, threading.Event]:
    got = threading.Event()

    def take() -> None:
        with locks.exclusive(path, start=start, length=length):
            got.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return thread, got


def test_threads_exclude_each_other(path: Path) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with locks.exclusive(path, start=3, length=2):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (inside, most) == ([0], [1])


def test_a_killed_process_gives_its_lock_back(path: Path, holder: subprocess.Popen[str]) -> None:
    thread, got = waiter(path, start=0, length=0)
    os.kill(holder.pid, signal.SIGKILL)
    thread.join(30)
    assert got.is_set()


def test_a_stopped_process_is_not_waited_for_without_end(
    path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    monkeypatch.setattr(locks, "PATIENCE_S", 0.1)
    with pytest.raises(TimeoutError, match="has not gone on"), locks.exclusive(path):
        pass
    with path.open("r+b") as stream, pytest.raises(TimeoutError):
        locks.share(stream.fileno())


def test_a_wait_ends_when_nobody_wants_the_lock_any_more(path: Path, holder: subprocess.Popen[str]) -> None:
    looks = iter([False, False, True])
    with pytest.raises(BlockingIOError), locks.exclusive(path, unwanted=lambda: next(looks)):
        pass


def test_other_ranges_are_free(path: Path, holder: subprocess.Popen[str]) -> None:
    if not locks._RANGES:
        pytest.skip("flock takes the whole file")
    for start, length in ((0, 5), (6, 0)):
        with locks.exclusive(path, start=start, length=length):
            pass
    thread, got = waiter(path, start=4, length=2)
    assert not got.is_set()  # it cannot be: the holder holds until its pipe is closed
    holder.communicate()
    thread.join(30)
    assert got.is_set()


def test_a_forked_child_does_not_keep_its_parents_lock(path: Path) -> None:
    go_on = os.pipe()
    with locks.exclusive(path):
        child = os.fork()
        if child == 0:
            os.close(go_on[1])
            os.read(go_on[0], 1)
            os._exit(0)
    os.close(go_on[0])
    thread, got = waiter(path)
    thread.join(30)
    assert got.is_set()
    os.close(go_on[1])
    assert os.waitpid(child, 0)[1] == 0


def test_in_use_is_seen_from_here_and_from_elsewhere_until_all_let_go(path: Path) -> None:
    assert not locks.is_shared(path)
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    locks.share(first)
    locks.share(second)
    assert locks.is_shared(path)
    os.close(first)
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        assert pool.apply(locks.is_shared, (path,))
    os.close(second)
    assert not locks.is_shared(path)
    assert not locks.is_shared(path.with_name("none"))


def test_a_worker_keeps_what_its_parent_used(path: Path) -> None:
    go_on = os.pipe()
    descriptor = os.open(path, os.O_RDWR)
    locks.share(descriptor)
    child = os.fork()
    if child == 0:
        os.close(go_on[1])
        os.read(go_on[0], 1)
        os._exit(0)
    os.close(go_on[0])
    os.close(descriptor)
    assert locks.is_shared(path)
    os.close(go_on[1])
    os.waitpid(child, 0)
    assert not locks.is_shared(path)


def test_nothing_stays_open(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with locks.exclusive(path):
            pass
        locks.is_shared(path)
    with pytest.raises(FileNotFoundError), locks.exclusive(path.with_name("none")):
        pass
    with pytest.raises(ZeroDivisionError), locks.exclusive(path):
        raise ZeroDivisionError
    assert len(os.listdir("/proc/self/fd")) == before
    assert not locks._held

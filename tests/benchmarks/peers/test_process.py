"""Contestants in processes of their own: each makes every picture, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.material import Material
from benchmarks.peers import PEERS
from benchmarks.peers.limit import LIMIT
from benchmarks.peers.ours import OURS_PILLOW
from benchmarks.peers.peer import Work
from benchmarks.peers.process import PeerError, PeerProcess, interpreter
from benchmarks.table import OURS

TUNED = "webdataset + simplejpeg + cv2"


@contextmanager
def started(name: str, folder: Path, cores: int = 2) -> Iterator[PeerProcess]:
    with PeerProcess(PEERS[name], python=sys.executable, log=folder / "log.txt", cores=cores) as process:
        yield process


def work_of(material: Material, own: Path) -> Work:
    return Work(pictures=str(material.pictures), shards=material.shards, own=str(own))


@pytest.mark.long
@pytest.mark.parametrize("name", [OURS, OURS_PILLOW, LIMIT, TUNED, "Dataset of files (cv2)"])
def test_an_epoch_has_every_picture_once(material: Material, tmp_path: Path, name: str) -> None:
    work = work_of(material, tmp_path / "own")
    (tmp_path / "own").mkdir()
    with started(name, tmp_path) as process:
        assert process.load().keys() == set(PEERS[name].packages)
        if PEERS[name].prepare is not None:
            process.prepare(work, tmp_path / "own")
        process.attempt(work)
        assert [sum(process.run(work)) for _ in range(2)] == [material.count] * 2


def test_it_stays_on_as_many_cores_as_it_may_use(tmp_path: Path) -> None:
    with started(OURS, tmp_path, cores=1) as process:
        process.load()
        allowed = os.sched_getaffinity(process.pid)
    assert allowed == {min(os.sched_getaffinity(0))}


def test_a_process_that_is_killed_says_how_it_ended(material: Material, tmp_path: Path) -> None:
    with started(OURS, tmp_path) as process:
        process.load()
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(PeerError, match="it ended with signal 9"):
            process.attempt(work_of(material, tmp_path))


def test_an_error_of_the_peer_is_told_and_does_not_end_it(material: Material, tmp_path: Path) -> None:
    with started(OURS, tmp_path) as process:
        with pytest.raises(PeerError, match="NoShardsError: no shards match"):
            process.attempt(Work(pictures="", shards=[str(tmp_path / "missing.tar")]))
        process.attempt(work_of(material, tmp_path))


def test_one_that_has_ended_before_it_is_asked_says_how(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho built for another machine >&2\nexit 3\n")
    broken.chmod(0o755)
    with PeerProcess(PEERS[OURS], python=str(broken), log=tmp_path / "log.txt", cores=1) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is there to be waited for
        with pytest.raises(PeerError, match="status 3: built for another machine"):
            process.load()


def test_closing_twice_ends_it_once(tmp_path: Path) -> None:
    with started(OURS, tmp_path) as process:
        process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_an_environment_is_used_where_there_is_one(tmp_path: Path) -> None:
    peer = PEERS["FFCV"]
    assert interpreter(peer, tmp_path) == sys.executable
    own = tmp_path / "ffcv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert interpreter(peer, tmp_path) == str(own)
    assert interpreter(PEERS[OURS], tmp_path) == sys.executable

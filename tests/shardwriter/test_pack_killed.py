"""Runs of pack that are killed by SIGKILL, at any call to the system, and go on: the bytes of an unbroken run."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.kills.folders import digest, written

ENDLESS = 1 << 40

Picture = Callable[..., bytes]

# Forks a run for each line of stdin, "STEP OUT": it is killed before its call number STEP of those that change files.
SERVER = """
import os, signal, sys
from pathlib import Path
from shardwriter import pack
from shardwriter.finish import Finish  # all that runs is imported before the first fork

def count(owner, name):
    real = getattr(owner, name)
    def counted(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(owner, name, counted)

os.fsync = lambda descriptor: None  # a killed process leaves its pages to the kernel; only a power cut needs it
source, options = sys.argv[1], eval(sys.argv[2])
for line in sys.stdin:
    step, out = line.split()
    if (child := os.fork()) == 0:
        left = int(step)
        for name in ("writev", "fsync", "open", "close", "rename", "replace", "unlink", "mkdir"):
            count(os, name)
        for name in ("rename", "replace", "unlink", "mkdir", "open"):
            count(Path, name)
        try:
            pack(source, out, **options)
            print(int(step) - left, flush=True)
        except BaseException as error:
            print(repr(error), flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended {status}", flush=True)
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"max_samples": 7, "jobs": 1},
    "parallel": {"max_samples": 5, "jobs": 3},
    "split": {"max_samples": 6, "jobs": 2, "split": {"val": 0.2}, "dedup": True},
    "part": {"max_samples": 3, "part": (1, 2), "dedup": True},
}


@pytest.fixture
def source(tmp_path: Path, picture: Picture) -> Path:
    """Sixty pictures in three classes, a few broken, a few twice."""
    for number in range(60):
        path = tmp_path / "pictures" / ("ant", "bee", "cat")[number % 3] / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = picture(number - number % 20 if number % 20 == 7 else number)
        path.write_bytes(data[:-20] if number % 13 == 5 else data)
    return tmp_path / "pictures"


class Server:
    """The forking process."""

    def __init__(self, source: Path, options: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(source), repr(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def run(self, out: Path, step: int = ENDLESS) -> int | None:
        """Run until that step. None where it was killed there, else how many steps there were."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{step} {out}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        if said == "killed":
            return None
        assert self._process.stdout.readline() == "ended 0\n"
        assert said.isdecimal(), said
        return int(said)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def serve() -> Iterator[Callable[[Path, dict[str, Any]], Server]]:
    servers: list[Server] = []

    def start(source: Path, options: dict[str, Any]) -> Server:
        servers.append(Server(source, options))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


def is_whole(folder: Path, whole: dict[str, str]) -> bool:
    """Whether everything is there but the locks' end: all that a kill behind the last step may leave is empty files."""
    found = {name: value for name, value in digest(folder).items() if not name.endswith(".lock")}
    return found == whole


def whole_run(server: Server, folder: Path) -> tuple[int, dict[str, str]]:
    """How many steps an unbroken run takes, and what it leaves."""
    steps = server.run(folder / "whole")
    assert steps is not None
    whole = digest(folder / "whole")
    assert not any("journal" in name or name.endswith((".tmp", ".lock")) for name in whole)
    return steps, whole


def check_kills(server: Server, folder: Path, *, kills: int, seed: int) -> None:
    """Kill runs at random steps, each some times in a row, and compare what comes of them in the end."""
    steps, whole = whole_run(server, folder)
    source, done = random.Random(seed), 0
    for number in count():
        if done >= kills:
            break
        out = folder / f"broken-{number}"
        wanted = source.randint(1, 4)
        while not is_whole(out, whole):
            before = written(out)
            killed = server.run(out, source.randrange(steps) if wanted > 0 else ENDLESS) is None
            wanted, done = wanted - 1, done + killed
            assert all(path.stat().st_mtime_ns == time for path, time in before.items())
        assert digest(out) == whole or killed
        shutil.rmtree(out)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_that_is_killed_goes_on_to_the_same_bytes(
    tmp_path: Path, source: Path, serve: Callable[..., Server], name: str
) -> None:
    check_kills(serve(source, OPTIONS[name]), tmp_path, kills=5, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONS)
def test_many_kills(tmp_path: Path, source: Path, serve: Callable[..., Server], name: str) -> None:
    check_kills(serve(source, OPTIONS[name]), tmp_path, kills=50, seed=1)


def test_every_step_of_a_small_run(tmp_path: Path, source: Path, serve: Callable[..., Server]) -> None:
    """No sample of the moments but all of them, such as that between a shard's name and its line in the journal."""
    for path in sorted(source.rglob("*.jpg"))[5:]:
        path.unlink()
    server = serve(source, {"max_samples": 2, "jobs": 1})
    steps, whole = whole_run(server, tmp_path)
    assert steps > 40
    for step in range(steps):
        out = tmp_path / f"broken-{step}"
        assert server.run(out, step) is None
        if not is_whole(out, whole):
            server.run(out)
            assert digest(out) == whole, f"killed before step {step}"
        shutil.rmtree(out)

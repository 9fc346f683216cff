"""Worker processes whose parent is killed end, whatever they are at: while they start, and with batches under way."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, get_worker_info

from loaders import RandomResizedCrop
from loaders.decoded import places
from loaders.torch import ShardDataset, ShardLoader
from tests.builders import write_labels, write_pictures

ROOT = Path(__file__).parents[2]
WORKERS = 2
CACHED: dict[str, Any] = {"image": RandomResizedCrop(16), "decoded_cache": "ram:16MB"}


class SaysAndWaits:
    """Called in each worker before its dataset is opened: tells its number, and waits for the other end of a pipe."""

    def __init__(self, pipe: str) -> None:
        self.pipe = pipe

    def __call__(self, worker: int) -> None:
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        if self.pipe:
            Path(self.pipe).read_bytes()


def job(urls: str, batch_size: int, method: str, pipe: str, shm: str) -> None:
    """Take one batch, and wait."""
    options: dict[str, Any] = {"fields": ("cls",)}
    if shm:
        places._SHM = Path(shm)
        options = CACHED
    dataset = ShardDataset(urls, batch_size=batch_size, **options)
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=WORKERS,
        prefetch_factor=8,
        multiprocessing_context=method,
        worker_init_fn=SaysAndWaits(pipe),
    )
    batches = iter(loader)
    assert get_worker_info() is None
    next(batches)
    sys.stdout.write("batch\n")
    sys.stdout.flush()
    sys.stdin.read()


@contextlib.contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The job, and descriptors of its workers, which can be waited for."""
    with (
        subprocess.Popen(
            [sys.executable, __file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        stack.callback(process.kill)
        workers = []
        for _ in range(WORKERS):
            workers.append(os.pidfd_open(int(process.stdout.readline())))
            stack.callback(os.close, workers[-1])
            stack.callback(end, workers[-1])
        yield process, workers


def end(worker: int) -> None:
    """So that a test that fails leaves none."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, signal.SIGKILL)


def all_end(workers: list[int]) -> bool:
    return all(select.select([worker], [], [], 60)[0] for worker in workers)


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_workers_that_start_while_their_parent_is_killed_end(tmp_path: Path, method: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holds = os.open(pipe, os.O_RDWR)
    with started(write_labels(tmp_path / "d", [64]), 8, method, pipe, "") as (process, workers):
        process.kill()
        process.wait()
        os.close(holds)  # both see the pipe's end, and go on
        assert all_end(workers)


def test_decoded_pictures_in_memory_belong_to_nobody_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is the workers' parent by now, the system's first process, lives for ever and owns nothing."""
    pipe, shm = tmp_path / "pipe", tmp_path / "shm"
    os.mkfifo(pipe)
    shm.mkdir()
    holds = os.open(pipe, os.O_RDWR)
    urls = write_pictures(tmp_path / "d", [64])
    with started(urls, 8, "fork", pipe, shm) as (process, workers):
        process.kill()
        process.wait()
        os.close(holds)
        assert all_end(workers)
    monkeypatch.setattr(places, "_SHM", shm)
    with ShardLoader(urls, batch_size=8, **CACHED) as loader:
        next(iter(loader))
        assert any(shm.iterdir())
    assert not any(shm.iterdir())


@pytest.mark.long
def test_workers_with_more_under_way_than_a_pipe_holds_end_with_their_parent(tmp_path: Path) -> None:
    """Labels of 7,000 samples go inside the message: 56 KB, of which a pipe takes one."""
    with started(write_labels(tmp_path / "d", [70_000]), 7000, "fork", "", "") as (process, workers):
        assert process.stdout is not None
        assert process.stdout.readline() == "batch\n"
        process.kill()
        process.wait()
        assert all_end(workers)


if __name__ == "__main__":
    job(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])

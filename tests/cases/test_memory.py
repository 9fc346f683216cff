"""Troubles with memory, descriptors and children (B01 to B67): small /dev/shm, growth, limits, what is left."""

from __future__ import annotations

import gc
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, get_worker_info

import loaders
from loaders import RandomResizedCrop, ShardLoader, StreamLoader
from loaders.torch import ShardDataset
from tests.builders import picture, settle, write_labels, write_pictures, write_shard
from tests.cases import inputs_memory as inputs
from wds_tools.errors import UnavailableError
from wds_tools.make_index import make_index

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def with_pid(sample: dict[str, Any]) -> dict[str, Any]:
    assert get_worker_info() is not None
    return {**sample, "pid": os.getpid()}


def shut_down(loader: DataLoader[Any]) -> None:
    """End persistent workers, and the threads of their queues."""
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()  # type: ignore[attr-defined]
    wait_for_queues()


def wait_for_queues() -> None:
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(30)


# B01


@pytest.mark.parametrize(
    ("size", "side", "workers", "ahead"),
    [("8m", 256, 2, 3), pytest.param("64m", 512, 4, 4, marks=pytest.mark.long)],
    ids=["8 MiB", "64 MiB"],
)
def test_b01_a_small_dev_shm_serves_and_where_it_cannot_it_is_named(
    tmp_path: Path, size: str, side: int, workers: int, ahead: int
) -> None:
    """Batches of 12.6 MB by way of 8 MiB, or of 50 MB by way of 64 MiB, several of them ahead in each worker."""
    # https://github.com/pytorch/pytorch/issues/5040
    urls = write_pictures(tmp_path, [128, 128])
    job: list[str | Path] = [sys.executable, ROOT / "tests/cases/shm_job.py", urls, str(side), str(workers), str(ahead)]
    done = inputs.in_small_shm(job, size)
    if done is None:
        pytest.skip("this user may not mount a tmpfs over /dev/shm")
    assert done.returncode == 0, done.stderr
    batches, refusal = done.stdout.split("\n", 1)  # torch adds the worker's traceback to the message
    assert batches == "4 batches"
    megabytes = f"{64 * 3 * side * side / 1e6:,.1f} MB"
    assert f"no {megabytes} of shared memory for a batch" in refusal
    assert f"/dev/shm has {int(size[:-1]) * 1.048576:,.1f} MB" in refusal
    for setting in ("batch_size", "num_workers", "prefetch_factor", "--shm-size"):
        assert setting in refusal


# B03


def alone(check: Callable[..., None], urls: str, *numbers: int) -> None:
    """Call it in a process of its own: what forked workers share with this one is shared until it is touched."""
    code = f"import sys; from tests.cases.test_memory import {check.__name__} as check"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; check(sys.argv[1], *map(int, sys.argv[2:]))", urls, *map(str, numbers)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def check_flat(urls: str, samples: int, workers: int, batches: int) -> None:
    """Memory after a second epoch beside that after the first, and beside what an index in each worker would take."""
    dataset = ShardDataset(urls, batch_size=64, fields=("cls",), transform=with_pid)
    assert len(dataset) * 64 >= samples - 64
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)
    totals = []
    for _ in range(2):
        running = iter(loader)
        pids: set[int] = set()
        for batch in itertools.islice(running, batches):
            pids |= set(batch.pid.tolist())
        assert len(pids) == workers
        totals.append(sum(map(inputs.pss, [os.getpid(), *pids])))
        del running, batch
    shut_down(loader)
    assert totals[1] <= totals[0] * 1.1, totals


def test_b03_workers_share_one_index(tmp_path: Path) -> None:
    """200,000 samples in 2,000 shards, two workers."""
    # https://github.com/pytorch/pytorch/issues/13246
    workers, batches = 2, 100
    alone(check_flat, inputs.large_dataset(tmp_path / "d", 2000, 100), 200_000, workers, batches)


@pytest.mark.long
def test_b03_so_it_is_for_two_million_samples_and_eight_workers(tmp_path: Path) -> None:
    workers, batches = 8, 4000
    alone(check_flat, inputs.large_dataset(tmp_path / "d", 200, 10_000), 2_000_000, workers, batches)


OPENED = """
import sys
from pathlib import Path
from tests.cases.inputs_memory import pss
from wds_tools.dataset import open_dataset
import os
before = pss(os.getpid())
dataset = open_dataset(sys.argv[1])
print(len(dataset), len(dataset.urls), pss(os.getpid()) - before)
"""


def test_b03_the_index_of_many_samples_is_no_list_of_objects(tmp_path: Path) -> None:
    """200,000 samples in 4,000 shards: lists of keys, offsets and sizes would be some 40 MB in each process."""
    urls = inputs.large_dataset(tmp_path / "d", 4000, 50)
    make_index(urls)
    done = subprocess.run(
        [sys.executable, "-c", OPENED, urls],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    samples, shards, grown = done.stdout.split()
    assert (int(samples), int(shards)) == (200_000, 4000)
    assert float(grown) < 20


# B09


@pytest.fixture
def few_files() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_b09_batches_of_many_small_fields_may_be_kept(tmp_path: Path) -> None:
    """20 small columns, 4 workers, the last 100 batches kept, 256 descriptors in all."""
    # https://github.com/pytorch/pytorch/issues/973
    names = [f"n{i}.cls" for i in range(20)]
    for shard in range(2):
        rows = [
            (f"{n:04d}", {"jpg": picture(n % 9), **dict.fromkeys(names, b"%d" % n)})
            for n in range(shard * 150, shard * 150 + 150)
        ]
        write_shard(tmp_path / f"s-{shard}.tar", rows)
    dataset = ShardDataset(str(tmp_path), batch_size=2, fields=("jpg", *names), image=RandomResizedCrop(32))
    loader = DataLoader(dataset, batch_size=None, num_workers=4)
    kept: list[Any] = []
    for batch in loader:
        kept = [*kept[-99:], batch]
    assert len(kept) == 100
    assert all(batch[1].tolist() == batch[20].tolist() for batch in kept)


def test_b09_shards_are_closed_when_they_end(tmp_path: Path) -> None:
    urls = write_labels(tmp_path, [2] * 300)
    settle()
    before = inputs.descriptors()
    with loaders.samples(urls) as samples:
        for number, _ in enumerate(samples):
            if number % 50 == 0:
                assert inputs.descriptors() <= before + 1
    counts = []
    with ShardLoader(urls, batch_size=8, fields=("cls",), threads=2) as loader:
        for _ in range(3):
            assert sum(len(batch.cls) for batch in loader) == 600
            counts.append(inputs.descriptors())
    assert counts[2] <= counts[0]
    del loader
    settle()
    assert inputs.descriptors() == before


EXHAUSTED = """
import os, resource, sys
from loaders import ShardLoader
from wds_tools.errors import UnavailableError
from wds_tools.make_index import make_index
held = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (held + int(sys.argv[2]), 4096))
try:
    with ShardLoader(sys.argv[1], batch_size=8, fields=("cls",), threads=1) as loader:
        print(sum(len(batch.cls) for batch in loader))
except UnavailableError as error:
    print(error)
"""


def test_b09_a_limit_that_is_too_low_is_named_and_one_that_is_low_will_do(tmp_path: Path) -> None:
    """300 shards: held open where there is room, else opened as they are needed."""
    urls = write_labels(tmp_path, [2] * 300)
    said = [
        subprocess.run(
            [sys.executable, "-c", EXHAUSTED, urls, str(room)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        ).stdout
        for room in (60, 1)
    ]
    assert said[0].strip() == "600"
    assert "ulimit -n" in said[1]


# B23


def check_steps(urls: str, epochs: int, workers: int) -> None:
    dataset = ShardDataset(urls, batch_size=16, fields=("jpg", "cls"), image=RandomResizedCrop(64), transform=with_pid)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)
    part = int(len(loader) * 0.6)
    memory, files = [], []
    for _ in range(epochs):
        pids: set[int] = set()
        for number, batch in enumerate(loader):
            pids |= set(batch.pid.tolist())
            if number == part:
                break
        del batch
        memory.append(sum(map(inputs.pss, pids)))
        files.append(max(map(inputs.descriptors, pids)))
    shut_down(loader)
    assert memory[-1] <= memory[2] * 1.05, memory
    assert files[-1] <= files[2] + 8, files  # regions of batches that are on their way


def test_b23_memory_does_not_step_up_from_epoch_to_epoch(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/issues/365
    epochs, workers = 12, 2
    alone(check_steps, write_pictures(tmp_path, [40] * 4), epochs, workers)


@pytest.mark.long
def test_b23_so_it_is_over_thirty_epochs(tmp_path: Path) -> None:
    epochs, workers = 30, 2
    alone(check_steps, write_pictures(tmp_path, [500] * 8, width=200, height=150), epochs, workers)


# B67


def piped(urls: str, **options: Any) -> StreamLoader:
    commands = [f"pipe:cat {path}" for path in sorted(Path(urls).glob("*.tar"))]
    return StreamLoader(
        commands, **{"batch_size": 1, "fields": ("cls",), "allow_pipe": True, "interleave": 4, "threads": 1, **options}
    )


def test_b67_commands_end_with_their_shard_and_with_the_loop(tmp_path: Path) -> None:
    """40 commands, five epochs, each broken off early and one read out: no child, zombie or descriptor is left."""
    # https://github.com/webdataset/webdataset/issues/90
    urls = write_labels(tmp_path, [3] * 40)
    settle()
    before, started = inputs.descriptors(), inputs.children()
    with piped(urls) as loader:
        for epoch in range(5):
            for number, _ in enumerate(loader):
                assert len(set(inputs.children()) - set(started)) <= 2 * 4  # those open, of two epochs
                if epoch < 4 and number == 10:
                    break
    del loader
    settle()
    assert inputs.children() == started
    assert inputs.descriptors() == before


def test_b67_how_a_command_ends_is_looked_at_but_for_our_own_early_end(tmp_path: Path) -> None:
    path = Path(write_labels(tmp_path, [50])) / "s-0000.tar"
    script = tmp_path / "fails"
    script.write_text(f"#!/bin/sh\ncat '{path}'\necho 'no such bucket' >&2\nexit 3\n")
    script.chmod(0o755)
    options: dict[str, Any] = {"batch_size": 1, "fields": ("cls",), "allow_pipe": True, "shuffle": False}
    with StreamLoader(f"pipe:{script}", **options) as loader:
        with pytest.raises(UnavailableError, match=r"status 3.*it said: no such bucket"):
            list(loader)
    with StreamLoader(f"pipe:{script}", **options, prefetch=1) as loader:
        next(iter(loader))  # and leaves: SIGPIPE or a signal of ours is no error


ORPHANS = """
import sys
from loaders import StreamLoader
with StreamLoader(sys.argv[1], batch_size=1, fields=("cls",), allow_pipe=True, shuffle=False) as loader:
    for _ in loader:
        print("now", flush=True)
        sys.stdin.read()
"""


ENDLESS = """
import io, itertools, sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
    for number in itertools.count():
        member = tarfile.TarInfo(f"{number:09d}.cls")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"1"))
"""


def test_b67_a_killed_run_leaves_no_command_that_writes(tmp_path: Path) -> None:
    """Its pipe has no reader any more. (One that is silent for ever goes on waiting: nobody tells it.)"""
    script = tmp_path / "endless"
    script.write_text(f"#!{sys.executable}\n{ENDLESS}")
    script.chmod(0o755)
    command = [sys.executable, "-c", ORPHANS, f"pipe:{script}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "now\n"
        (child,) = inputs.children(run.pid)
        ended = os.pidfd_open(child)
        run.send_signal(signal.SIGKILL)
        try:
            assert select.select([ended], [], [], 60)[0]
        finally:
            os.close(ended)


def test_b67_shards_that_are_cached_start_nothing(tmp_path: Path) -> None:
    """Commands are for what has no address: with an address there is a cache, and a cached shard asks for nothing."""
    urls = write_labels(tmp_path, [8])
    started = inputs.children()
    with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
        list(loader)
        assert inputs.children() == started
    with pytest.raises(ValueError, match=r"allow_pipe|not run here"):
        ShardLoader(f"pipe:cat {urls}/s-0000.tar", batch_size=8, fields=("cls",)).__iter__()

"""ShardDataset under torch's DataLoader: batches, epochs and place, random numbers, what crosses, and errors."""

from __future__ import annotations

import gc
import itertools
import json
import multiprocessing
import os
import pickle
import random
import resource
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data.distributed import DistributedSampler

from loaders import Mask, RandomResizedCrop, Reading, mix
from loaders.batch import batch_of
from loaders.torch import ShardDataset, ShardLoader, share
from tests.builders import picture, write_labels, write_pictures, write_shard
from wds_tools.errors import FieldError, ShardstreamError, StateError, TooFewSamplesError, UnavailableError, UsageError

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # newer Pythons, of a parent with threads
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 40, 3, 0, 23])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [20, 21, 9])


def dataset_of(urls: Any, **options: Any) -> ShardDataset:
    return ShardDataset(urls, **{"batch_size": 8, "fields": ("cls",), "lanes": 6, **options})


def loader_of(urls: Any, **options: Any) -> ShardLoader:
    return ShardLoader(urls, **{"batch_size": 8, "fields": ("cls",), "lanes": 6, "threads": 2, **options})


def send_and_end(connection: Connection) -> None:
    batch = batch_of(("x",), [torch.from_numpy(share.shared_memory(1 << 20))])
    connection.send_bytes(ForkingPickler.dumps(share.shared(batch)))
    os._exit(1)


def test_a_batch_of_a_worker_that_is_gone_says_so() -> None:
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=send_and_end, args=(theirs,))
    worker.start()
    theirs.close()
    message = ours.recv_bytes()
    worker.join()
    ours.close()
    with pytest.raises(UnavailableError, match="worker ended before its batch"):
        pickle.loads(message)


def data_loader(dataset: ShardDataset, workers: int, **options: Any) -> DataLoader[Any]:
    options.setdefault("persistent_workers", False)
    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)


def epoch_of(batches: Any) -> list[list[int]]:
    return [batch.cls.tolist() for batch in batches]


@pytest.fixture(scope="module")
def epochs(labels: str) -> list[list[list[int]]]:
    """What a ShardLoader gives in epochs 0 to 4."""
    with loader_of(labels) as loader:
        return [epoch_of(loader) for _ in range(5)]


def content(batch: Any) -> tuple[bytes, ...]:
    return tuple(column.contiguous().numpy().tobytes() for column in batch)


def check_same_bytes(urls: str, workers: int, context: str | None, *, persistent: bool, threads: int | None) -> None:
    options: dict[str, Any] = {"batch_size": 4, "image": RandomResizedCrop(24), "tail": "pad", "seed": 3}
    with ShardLoader(urls, **options) as loader:
        expected = [[content(batch) for batch in loader] for _ in range(3)]
    dataset = ShardDataset(urls, **options, threads=threads)
    ours = data_loader(dataset, workers, multiprocessing_context=context, persistent_workers=persistent)
    assert len(ours) == len(expected[0])
    for epoch in (0, 1):
        batches = list(ours)
        assert all(b.jpg.is_contiguous(memory_format=torch.channels_last) for b in batches)
        assert [content(batch) for batch in batches] == expected[epoch]
    dataset.set_epoch(2)
    assert [content(batch) for batch in ours] == expected[2]
    dataset.set_epoch(0)
    assert [content(batch) for batch in ours] == expected[0]
    dataset.close()


@pytest.mark.parametrize(
    ("workers", "persistent", "threads"), [(0, False, None), (1, False, None), (2, True, 2), (3, False, None)]
)
def test_the_loaders_batches_byte_for_byte(pictures: str, workers: int, persistent: bool, threads: int | None) -> None:
    check_same_bytes(pictures, workers, "fork" if workers else None, persistent=persistent, threads=threads)


def test_the_loaders_batches_from_spawned_workers(pictures: str) -> None:
    check_same_bytes(pictures, 2, "spawn", persistent=True, threads=None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("workers", "context", "persistent", "threads"),
    [
        *itertools.product((1, 2, 3), ("fork",), (False, True), (1, 3)),
        # A worker that starts afresh takes seconds to import torch.
        (2, "spawn", False, 3),
        (3, "spawn", True, 1),
        (2, "forkserver", False, 1),
        (2, "forkserver", True, 3),
    ],
)
def test_the_loaders_batches_in_every_way(
    pictures: str, workers: int, context: str, persistent: bool, threads: int
) -> None:
    check_same_bytes(pictures, workers, context, persistent=persistent, threads=threads)


@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
def test_the_length_is_what_comes_for_all_ranks_and_workers(labels: str, tail: Any) -> None:
    for world_size, workers in itertools.product((1, 3), (0, 1, 3)):
        seen, lengths = [], set()
        for rank in range(world_size):
            with dataset_of(labels, tail=tail, rank=rank, world_size=world_size) as dataset:
                loader = data_loader(dataset, workers)
                batches = list(loader)  # torch warns where there are more than its length says
                lengths |= {len(loader), len(batches)}
                seen += [n for b in batches for n in (b.cls[b.valid] if tail == "pad" else b.cls).tolist()]
        assert len(lengths) == 1
        assert len(seen) == len(set(seen)) == (83 // (8 * world_size) * 8 * world_size if tail == "drop" else 83)


def test_a_mix_is_split_over_workers(labels: str, pictures: str) -> None:
    mixed = mix([(labels, 2), (pictures, 1)])
    with loader_of(mixed, lanes=12, batch_size=None, global_batch_size=16, rank=1, world_size=2) as loader:
        expected = [epoch_of(loader) for _ in range(2)]
    dataset = dataset_of(mixed, lanes=12, batch_size=None, global_batch_size=16, rank=1, world_size=2)
    assert [epoch_of(data_loader(dataset, 2)) for _ in range(2)] == expected


def test_nothing_is_looked_up_by_the_constructor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = dataset_of(str(tmp_path / "later"), batch_size=4)
    write_labels(tmp_path / "later", [32])
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(dataset) == 4
    with loader_of(str(tmp_path / "later"), batch_size=4, rank=1, world_size=2) as loader:
        assert epoch_of(data_loader(dataset, 2)) == epoch_of(loader)


# Epochs


@pytest.mark.parametrize("persistent", [False, True])
def test_an_iteration_that_is_broken_off_ends_its_epoch(labels: str, epochs: Any, persistent: bool) -> None:
    loader = data_loader(dataset_of(labels), 2, persistent_workers=persistent)
    assert next(iter(loader)).cls.tolist() == epochs[0][0]
    assert epoch_of(loader) == epochs[1]
    assert epoch_of(loader) == epochs[2]


def test_loaders_of_one_dataset_take_turns(labels: str, epochs: Any) -> None:
    dataset = dataset_of(labels)
    two = data_loader(dataset, 2, persistent_workers=True)
    three, none = data_loader(dataset, 3), data_loader(dataset, 0)
    assert [epoch_of(loader) for loader in (two, three, two, none, three)] == epochs
    dataset.close()


def test_the_epoch_goes_on_where_torch_is_seeded_alike_each_time(labels: str, epochs: Any) -> None:
    loader = data_loader(dataset_of(labels), 2)
    for expected in epochs[:3]:
        torch.manual_seed(0)
        assert epoch_of(loader) == expected


def test_a_copy_counts_for_itself(labels: str, epochs: Any) -> None:
    with dataset_of(labels) as dataset:
        assert epoch_of(dataset) == epochs[0]
        with pickle.loads(pickle.dumps(dataset)) as copy:
            assert epoch_of(dataset) == epochs[1]
            assert epoch_of(copy) == epochs[1]


def test_two_iterations_at_once_are_refused(labels: str) -> None:
    with dataset_of(labels) as dataset:
        first = iter(dataset)
        next(first)
        next(iter(dataset))
        with pytest.raises(UsageError, match="iterated anew"):
            next(first)


# Resume


@pytest.mark.parametrize("tail", ["drop", "exact"])
def test_a_run_goes_on_from_every_batch_with_other_workers(labels: str, tail: Any) -> None:
    with loader_of(labels, tail=tail) as loader:
        states = [loader.state_dict()]
        expected = []
        for batch in loader:
            expected.append(batch.cls.tolist())
            states.append(loader.state_dict())
        following = epoch_of(loader)
    first = dataset_of(labels, tail=tail)
    batches = iter(data_loader(first, 2))
    for consumed, state in enumerate(states):
        if consumed:
            next(batches)
            assert first.state_dict(batches=consumed) == state
        workers = (3, 0, 1)[consumed % 3]
        with dataset_of(labels, tail=tail) as dataset:
            dataset.load_state_dict(json.loads(json.dumps(state)))
            dataset.set_epoch(state["epoch"])  # as frameworks do first thing
            loader_ = data_loader(dataset, workers)
            if consumed < len(expected):
                assert epoch_of(loader_) == expected[consumed:]
            assert epoch_of(loader_) == following
            assert dataset.state_dict(batches=len(following)) == {**state, "epoch": 2, "position": 0}


def test_a_loaders_state_and_a_datasets_are_the_same_kind(labels: str, epochs: Any) -> None:
    dataset = dataset_of(labels)
    next(iter(data_loader(dataset, 2)))
    with loader_of(labels) as loader:
        loader.load_state_dict(dataset.state_dict(batches=1))
        assert epoch_of(loader) == epochs[0][1:]


def test_persistent_workers_hear_of_a_loaded_state(labels: str, epochs: Any) -> None:
    with loader_of(labels, lanes=12, read=Reading(block_bytes=1)) as loader:
        next(iter(loader))
        state, rest = loader.state_dict(), epoch_of(loader)
    with loader_of(labels, lanes=12, read=Reading(block_bytes=1)) as loader:
        loader.load_state_dict(state)
        expected = epoch_of(loader)
    dataset = dataset_of(labels, lanes=None)
    ours = data_loader(dataset, 2, persistent_workers=True)
    list(ours)
    dataset.load_state_dict(state)  # lanes and block size are the state's
    assert epoch_of(ours) == expected
    assert epoch_of(ours) == rest


def test_the_count_is_asked_for_where_only_the_caller_knows_it(labels: str) -> None:
    with dataset_of(labels) as dataset:
        assert dataset.state_dict()["position"] == 0
        batches = iter(dataset)
        next(batches)
        assert dataset.state_dict()["position"] == 8  # made in this process
        list(data_loader(dataset, 2))
        with pytest.raises(UsageError, match=r"state_dict\(batches=n\)"):
            dataset.state_dict()
        with pytest.raises(UsageError, match=r"batches is 11, expected 0 to 10"):
            dataset.state_dict(batches=11)


def test_a_state_of_other_data_is_refused(labels: str, pictures: str) -> None:
    with pytest.raises(StateError, match="number of samples was 83, now 50"):
        dataset_of(pictures).load_state_dict(dataset_of(labels).state_dict())


# Random numbers, threads


def draw(sample: dict[str, Any]) -> dict[str, Any]:
    drawn = (random.getrandbits(40), int(np.random.randint(1 << 40)), int(torch.randint(1 << 40, ())))  # noqa: NPY002
    return {"cls": sample["cls"], "drawn": np.array(drawn)}


@pytest.mark.parametrize("persistent", [False, True])
def test_global_generators_differ_by_rank_worker_and_epoch_and_repeat(labels: str, persistent: bool) -> None:
    def run() -> list[tuple[int, ...]]:
        drawn: list[tuple[int, ...]] = []
        for rank in range(2):
            torch.manual_seed(0)  # alike on all ranks, as many scripts do
            dataset = dataset_of(labels, transform=draw, rank=rank, world_size=2)
            loader = data_loader(dataset, 2, persistent_workers=persistent)
            for _ in range(2):
                drawn += [tuple(row) for batch in loader for row in batch.drawn.tolist()]
        return drawn

    first = run()
    assert len(first) == 2 * 2 * 40
    for generator in zip(*first, strict=True):
        assert len(set(generator)) == len(first)
    assert run() == first


def test_without_workers_the_callers_generators_are_left_alone(labels: str) -> None:
    torch.manual_seed(5)
    expected = torch.initial_seed()
    with dataset_of(labels) as dataset:
        list(dataset)
    assert torch.initial_seed() == expected


def threads_of(sample: dict[str, Any]) -> dict[str, Any]:
    import cv2

    return {"cls": sample["cls"], "torch": torch.get_num_threads(), "cv2": cv2.getNumThreads()}


def set_three_threads(worker: int) -> None:
    import cv2

    torch.set_num_threads(3)
    cv2.setNumThreads(3)


def decode_with_pool(sample: dict[str, Any]) -> dict[str, Any]:
    import cv2

    return {"cls": int(cv2.resize(np.full((2000, 2000, 3), sample["cls"], np.uint8), (1000, 1000))[5, 5, 0])}


def test_a_worker_has_one_thread_for_torch_and_opencv(labels: str) -> None:
    cv2 = pytest.importorskip("cv2")
    cv2.resize(np.zeros((2000, 2000, 3), np.uint8), (1000, 1000))  # starts the pool that a fork must not wait for
    for init, expected in ((None, {1}), (set_three_threads, {3})):
        loader = data_loader(dataset_of(labels, transform=threads_of), 2, worker_init_fn=init)
        batches = list(loader)
        assert {n for batch in batches for n in batch.torch.tolist()} == expected
        assert {n for batch in batches for n in batch.cv2.tolist()} == expected
    pooled = data_loader(dataset_of(labels, transform=decode_with_pool), 2, timeout=60)
    with loader_of(labels) as plain:
        assert epoch_of(pooled) == epoch_of(plain)


# What crosses to the parent


def test_columns_of_all_kinds_cross(tmp_path: Path) -> None:
    import io

    from PIL import Image

    def png(values: Any) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(values).save(stream, "PNG")
        return stream.getvalue()

    def npy(values: Any) -> bytes:
        stream = io.BytesIO()
        np.save(stream, values)
        return stream.getvalue()

    rows = np.arange(36 * 48).reshape(36, 48)
    samples = [
        (
            f"{i}",
            {
                "jpg": picture(i),
                "seg.png": png((rows + i).astype(np.uint16)),
                "cls": str(i).encode(),
                "json": b'{"a": [1, null]}',
                "npy": npy(np.full((200, 100), i + 0.5, np.float32)),
                "empty.npy": npy(np.empty((0, 3))),
                "bin": b"\x00\x01",
                **({"txt": "wört".encode()} if i % 2 else {}),
            },
        )
        for i in range(10)
    ]
    write_shard(tmp_path / "a.tar", samples)
    fields = ("jpg", "seg.png", "cls", "json", "npy", "empty.npy", "bin", "txt?", "__key__")
    image = {"jpg": RandomResizedCrop(24), "seg.png": Mask()}
    options: dict[str, Any] = {"batch_size": 3, "fields": fields, "image": image, "tail": "exact", "world_size": 3}
    for rank in range(3):  # the last batch is short, or empty
        with ShardLoader(str(tmp_path), **options, rank=rank) as loader:
            expected = list(loader)
        batches = list(data_loader(ShardDataset(str(tmp_path), **options, rank=rank), 1))
        for batch, other in zip(batches, expected, strict=True):
            assert batch._fields == other._fields
            for ours, theirs in zip(batch, other, strict=True):
                assert type(ours) is type(theirs)
                if isinstance(theirs, torch.Tensor):
                    assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
                    assert torch.equal(ours.to(torch.float64), theirs.to(torch.float64))
                    ours.zero_()  # it is the caller's to write to
                else:
                    assert ours == theirs


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def wait_for_queues() -> None:
    """The parent's ends of the workers' queues are closed by threads of their own."""
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(30)


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
def test_kept_batches_keep_no_descriptors(tmp_path: Path) -> None:
    names = [f"n{i}.cls" for i in range(20)]
    for shard in range(4):
        rows = range(shard * 100, shard * 100 + 100)
        samples = [(f"{n:04d}", {"jpg": picture(n), **{name: str(n).encode() for name in names}}) for n in rows]
        write_shard(tmp_path / f"s-{shard}.tar", samples)
    dataset = ShardDataset(str(tmp_path), batch_size=2, fields=("jpg", *names), image=RandomResizedCrop(64))
    loader = data_loader(dataset, 4)
    assert len(list(loader)) == 200
    wait_for_queues()
    before = open_files()
    batches = iter(loader)
    kept = list(itertools.islice(batches, 100))
    during = open_files()
    rest = list(batches)
    del batches
    wait_for_queues()
    assert len(kept) == len(rest) == 100
    assert during - before < 40  # queues and processes, none a batch
    assert open_files() <= before + 2
    assert all(batch[1].tolist() == batch[20].tolist() for batch in kept)


SMALL_SHM = """
import os, sys, warnings
warnings.simplefilter("error")
import torch
from torch.utils.data import DataLoader
from loaders import Resize
from loaders.torch import ShardDataset
from wds_tools.errors import UnavailableError

def stacked(samples):
    return {"pictures": torch.stack([torch.from_numpy(s["jpg"]) for s in samples])}

def run(**options):
    dataset = ShardDataset(sys.argv[1], batch_size=8, fields=("jpg",), image=Resize(1024), **options)
    return list(DataLoader(dataset, batch_size=None, num_workers=2, prefetch_factor=3))

def refused(*arguments):
    raise OSError(38, "Function not implemented")

assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 8 << 20
assert [tuple(batch.jpg.shape) for batch in run()] == [(8, 3, 1024, 1024)] * 6
assert [tuple(batch["pictures"].shape) for batch in run(collate=stacked)] == [(8, 1024, 1024, 3)] * 6
os.memfd_create = refused  # as some sandboxes do
try:
    run()
except UnavailableError as error:
    print(error)
"""


def test_a_small_dev_shm_serves_and_where_it_cannot_the_error_names_it(pictures: str, tmp_path: Path) -> None:
    # 8 MiB, a third of one batch, where torch's own way ends in a bus error.
    (tmp_path / "script.py").write_text(SMALL_SHM)
    mount = "mount -t tmpfs -o size=8m tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a tmpfs of its own over /dev/shm")
    command = f"{mount} && exec '{sys.executable}' '{tmp_path}/script.py' '{pictures}'"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no 25.2 MB of shared memory for a batch" in done.stdout
    assert "/dev/shm has 8.4 MB" in done.stdout
    for setting in ("batch_size", "num_workers", "prefetch_factor", "--shm-size"):
        assert setting in done.stdout


# Errors


def error_of(loader: DataLoader[Any]) -> ShardstreamError:
    with pytest.raises(ShardstreamError) as caught:
        list(loader)
    # torch's iterator stands in the traceback and in a cycle with it; left to the garbage collector, it waits five
    # seconds for each worker.
    traceback.clear_frames(caught.tb)
    return caught.value


def test_errors_reach_the_parent_by_their_class_and_with_the_cure(labels: str, tmp_path: Path) -> None:
    error = error_of(data_loader(dataset_of(labels, batch_size=800), 2))
    assert isinstance(error, TooFewSamplesError)
    assert "83 samples, less than one global batch of 800" in str(error)
    write_shard(tmp_path / "a.tar", [(f"k{i}", {"cls": b"x" if i == 5 else b"1"}) for i in range(40)])
    error = error_of(data_loader(dataset_of(str(tmp_path)), 2))
    assert isinstance(error, FieldError)
    assert "key k5, field cls" in str(error)
    assert 'on_error="skip"' in str(error)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_that_makes_batches_is_refused(labels: str, workers: int) -> None:
    error = error_of(DataLoader(dataset_of(labels), batch_size=4, num_workers=workers))
    assert isinstance(error, UsageError)
    assert "DataLoader(dataset, batch_size=None" in str(error)


def test_a_sampler_is_refused_by_torch(labels: str) -> None:
    dataset = dataset_of(labels)
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, num_replicas=2, rank=0)
    with pytest.raises(ValueError, match="sampler"):
        DataLoader(dataset, batch_size=None, sampler=sampler)


def test_repr_names_the_urls_and_sizes(labels: str) -> None:
    assert repr(dataset_of("a.tar")) == "ShardDataset('a.tar', batch_size=8, fields=(cls))"


def test_no_process_or_descriptor_is_left_after_many_epochs(labels: str) -> None:
    loader = data_loader(dataset_of(labels), 2, persistent_workers=True)

    def break_off() -> set[int]:
        workers = set()
        for number, batch in enumerate(loader):
            workers = set(batch.pid.tolist())
            if number == 4:
                break
        return workers

    loader = data_loader(dataset_of(labels, transform=with_pid), 2, persistent_workers=True)
    break_off()
    (worker,) = break_off()
    before = open_files(), len(os.listdir(f"/proc/{worker}/fd")), len(os.listdir(f"/proc/{worker}/task"))
    for _ in range(20):
        break_off()
    after = open_files(), len(os.listdir(f"/proc/{worker}/fd")), len(os.listdir(f"/proc/{worker}/task"))
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 8  # regions of batches that are still under way
    assert after[2] <= before[2] + 1


def with_pid(sample: dict[str, Any]) -> dict[str, Any]:
    assert get_worker_info() is not None
    return {"cls": sample["cls"], "pid": os.getpid()}

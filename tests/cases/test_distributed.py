"""Troubles with ranks, workers, epochs and order (B02 to B40): torchrun over gloo, DataLoaders by fork and spawn."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from loaders import ShardLoader
from loaders.torch import ShardDataset
from tests.builders import write_labels, write_shard
from tests.cases import ranks
from tests.cases.epochs_job import WAYS, three_epochs

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


# B02 and B24

UNEVEN = [100, 100, 37]


def write_data(folder: Path, world_size: int) -> list[int]:
    """The datasets of all cases; returns the samples that do not decode, all of them rank 1's."""
    write_labels(folder / "one", [100])
    write_labels(folder / "three", [40, 30, 30])
    write_labels(folder / "uneven", UNEVEN)
    write_labels(folder / "equal", [100, 100])
    with ShardLoader(str(folder / "equal"), batch_size=10, fields=("cls",), rank=1, world_size=world_size) as loader:
        bad: list[int] = next(iter(loader)).cls.tolist()[:5]
    for shard in range(2):
        numbers = range(shard * 100, shard * 100 + 100)
        # as many bytes as a number has, so that the order stays the same
        rows = [(f"{n:06d}", {"cls": b"bad" if n in bad else b"%d" % n}) for n in numbers]
        write_shard(folder / "bad" / f"s-{shard:04d}.tar", rows)
    return bad


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, list[int]]:
    world_size = int(request.param)
    folder = tmp_path_factory.mktemp(f"job{world_size}")
    bad = write_data(folder, world_size)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world_size)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, ROOT / "tests/cases/ranks.py", folder, *ranks.CASES],
        env=environment,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, world_size, bad


def results(job: tuple[Path, int, list[int]], name: str) -> list[dict[str, Any]]:
    folder, world_size, _ = job
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(world_size)]


def labels(found: list[dict[str, Any]]) -> list[int]:
    return sorted(label for rank in found for batch in rank["batches"] for label in batch)


@pytest.mark.parametrize("name", ["one_shard_4_workers", "three_shards_4_workers", "one_shard_exact"])
def test_b02_few_shards_feed_many_ranks_and_workers_alike(job: tuple[Path, int, list[int]], name: str) -> None:
    # https://github.com/webdataset/webdataset/issues/188
    found = results(job, name)
    assert {len(rank["batches"]) for rank in found} == {rank["length"] for rank in found}
    assert all(batch for rank in found for batch in rank["batches"][:-1])
    if name == "one_shard_exact":
        assert labels(found) == list(range(100))
    else:
        size = 8 * job[1]
        assert len(labels(found)) == len(set(labels(found))) == 100 // size * size


@pytest.mark.parametrize("name", ["uneven_drop", "uneven_pad", "uneven_exact"])
def test_b24_uneven_shards_give_even_ranks(job: tuple[Path, int, list[int]], name: str) -> None:
    # https://github.com/webdataset/webdataset/issues/225
    found = results(job, name)
    assert {len(rank["batches"]) for rank in found} == {rank["length"] for rank in found}
    if name == "uneven_drop":
        size = 10 * job[1]
        assert len(set(labels(found))) == len(labels(found)) == sum(UNEVEN) // size * size
    else:
        assert labels(found) == list(range(sum(UNEVEN)))


def test_b24_bad_samples_of_one_rank_change_no_count(job: tuple[Path, int, list[int]]) -> None:
    bad, found = job[2], results(job, "bad_on_rank_1")
    assert len(bad) == 5
    size = 10 * job[1]
    assert {len(rank["batches"]) for rank in found} == {200 // size}
    assert {len(batch) for rank in found for batch in rank["batches"]} == {10}
    assert not set(labels(found)) & set(bad)


def test_b02_less_than_a_global_batch_is_an_error_on_every_rank(tmp_path: Path) -> None:
    urls = write_labels(tmp_path, [100])
    for rank in range(4):
        with pytest.raises(ValueError, match=r"100 samples, less than one global batch of 128.*pad.*exact"):
            ShardLoader(urls, batch_size=32, fields=("cls",), rank=rank, world_size=4).__iter__()


# B04


def drawn(sample: dict[str, Any]) -> dict[str, Any]:
    """What a user's augmentation does: the global generators of three libraries."""
    values = (np.random.randint(1 << 30), random.randrange(1 << 30), int(torch.randint(1 << 30, ())))  # noqa: NPY002
    return {"cls": sample["cls"], "drawn": np.array(values)}


def draws(urls: str, method: str, *, persistent: bool, workers: int) -> list[tuple[int, ...]]:
    found = []
    for rank in range(2):
        torch.manual_seed(0)  # alike on all ranks, as scripts do
        dataset = ShardDataset(urls, batch_size=4, fields=("cls",), transform=drawn, rank=rank, world_size=2, seed=7)
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            persistent_workers=persistent,
            multiprocessing_context=method,
        )
        for _ in range(2):
            found += [tuple(row) for batch in loader for row in batch.drawn.tolist()]
        dataset.close()
    return found


@pytest.mark.parametrize(
    ("method", "persistent"),
    [
        ("fork", False),
        ("fork", True),
        pytest.param("spawn", False, marks=pytest.mark.long),
        pytest.param("spawn", True, marks=pytest.mark.long),
    ],
)
def test_b04_random_numbers_differ_everywhere_and_repeat(tmp_path: Path, method: str, persistent: bool) -> None:
    """In `random`, numpy and torch: by rank, worker and epoch; a second run draws the same."""
    # https://github.com/pytorch/pytorch/issues/5059
    urls = write_labels(tmp_path, [32, 32])
    workers = 4 if method == "fork" else 2  # each start of a spawned one imports torch
    first = draws(urls, method, persistent=persistent, workers=workers)
    assert len(first) == 2 * 2 * 32
    for generator in zip(*first, strict=True):
        assert len(set(generator)) == len(first)
    assert draws(urls, method, persistent=persistent, workers=workers) == first


# B07


def elsewhere(urls: str, ranks: int, *methods: str, hash_seed: int) -> list[list[list[list[int]]]]:
    """What the ranks of each way have, in a process whose strings hash in their own way."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    command: list[str | Path] = [sys.executable, ROOT / "tests/cases/epochs_job.py", urls, str(ranks), *methods]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[list[list[list[int]]]] = json.loads(done.stdout)
    return found


def check_epochs(found: list[list[list[int]]], samples: int) -> None:
    for epoch in range(3):
        assert sorted(label for rank in found for label in rank[epoch]) == list(range(samples))
    for rank in found:
        assert len({tuple(row) for row in rank}) == 3  # another order in each epoch,
        assert len(found) == 1 or len({tuple(sorted(row)) for row in rank}) == 3  # and other samples on each rank


def test_b07_every_epoch_is_another_split_and_the_same_on_every_machine(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/issues/172
    urls = write_labels(tmp_path, [8] * 16)
    found = [three_epochs(urls, 2, "fork", persistent=persistent, told=told) for persistent, told in WAYS]
    check_epochs(found[0], 128)
    assert all(other == found[0] for other in found)
    assert elsewhere(urls, 2, "fork", hash_seed=1) == found


@pytest.mark.long
def test_b07_so_it_is_for_four_ranks_and_for_spawned_workers(tmp_path: Path) -> None:
    urls = write_labels(tmp_path, [8] * 16)
    for count, method in ((4, "fork"), (1, "spawn")):
        first, *others = elsewhere(urls, count, method, hash_seed=2)
        check_epochs(first, 128)
        assert len(others) == 3
        assert all(other == first for other in others)


# B22


@pytest.mark.parametrize("tail", ["drop", "exact"])
def test_b22_the_length_is_what_comes(tmp_path: Path, tail: Any) -> None:
    """1,000 samples in 7 shards. torch warns where a loader gives more than its length, which is an error here."""
    # https://github.com/webdataset/webdataset/issues/346
    urls = write_labels(tmp_path, [143] * 6 + [142])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "This DataLoader will create")
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        for world_size, workers in itertools.product((1, 2), (0, 1, 3)):
            expected = 1000 // (32 * world_size) if tail == "drop" else -(-1000 // (32 * world_size))
            for rank in range(world_size):
                dataset = ShardDataset(
                    urls, batch_size=32, fields=("cls",), tail=tail, rank=rank, world_size=world_size
                )
                loader = DataLoader(dataset, batch_size=None, num_workers=workers)
                assert len(loader) == len(list(loader)) == len(dataset) == expected
                dataset.close()


def test_b22_what_has_no_length_says_how_to_state_one(tmp_path: Path) -> None:
    from loaders import StreamLoader

    write_labels(tmp_path, [8])
    with StreamLoader(f"pipe:cat {tmp_path}/s-0000.tar", batch_size=2, fields=("cls",), allow_pipe=True) as loader:
        with pytest.raises(TypeError, match="epoch_samples"):
            len(loader)
    with StreamLoader(
        f"pipe:cat {tmp_path}/s-0000.tar", batch_size=2, fields=("cls",), allow_pipe=True, epoch_samples=6
    ) as loader:
        assert len(loader) == len(list(loader)) == 3


# B37

LAYOUTS = [(2, 2), (1, 4), (2, 0), (4, 1)]
COUNTS = [97] * 10


def make(urls: str, layout: tuple[int, int], rank: int, **options: Any) -> tuple[ShardDataset, DataLoader[Any]]:
    world_size, workers = layout
    dataset = ShardDataset(
        urls, batch_size=8 // world_size, fields=("cls",), rank=rank, world_size=world_size, seed=5, **options
    )
    return dataset, DataLoader(dataset, batch_size=None, num_workers=workers)


def rest(urls: str, layout: tuple[int, int], state: dict[str, Any], **options: Any) -> list[list[int]]:
    """The global batches that follow a state, each in its order of positions."""
    by_rank = []
    for rank in range(layout[0]):
        dataset, loader = make(urls, layout, rank, **options)
        dataset.load_state_dict(json.loads(json.dumps(state)))
        by_rank.append([batch.cls.tolist() for batch in loader])
        dataset.close()
    return [[label for row in zip(*parts, strict=True) for label in row] for parts in zip(*by_rank, strict=True)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[list[list[int]]]]:
    urls = write_labels(tmp_path_factory.mktemp("ten"), COUNTS)
    with ShardLoader(urls, batch_size=8, fields=("cls",), seed=5) as loader:
        return urls, [[batch.cls.tolist() for batch in loader] for _ in range(3)]


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_b37_a_run_goes_on_with_other_ranks_and_workers(
    whole: tuple[str, list[list[list[int]]]], layout: tuple[int, int], epoch: int
) -> None:
    """Stopped at 37% with two ranks of two workers, which have batches ahead that nobody has consumed."""
    # https://github.com/Lightning-AI/litData/pull/878
    urls, expected = whole
    consumed = int(len(expected[epoch]) * 0.37)
    dataset, loader = make(urls, (2, 2), 0)
    dataset.set_epoch(epoch)
    batches = iter(loader)
    for _ in range(consumed):
        next(batches)
    state = dataset.state_dict(batches=consumed)
    assert len(json.dumps(state)) < 400
    assert rest(urls, layout, state) == expected[epoch][consumed:]


def test_b37_at_an_epochs_end_the_next_one_begins(whole: tuple[str, list[list[list[int]]]]) -> None:
    urls, expected = whole
    dataset, loader = make(urls, (2, 2), 0)
    count = len(list(loader))
    state = dataset.state_dict(batches=count)
    assert (state["epoch"], state["position"]) == (1, 0)
    assert rest(urls, (4, 1), state) == expected[1]


# B40


def test_b40_class_sorted_shards_are_mixed(tmp_path: Path) -> None:
    """10,000 samples of 100 classes in 100 sorted shards: a batch of 64 has the classes that a perfect shuffle has."""
    # https://github.com/webdataset/webdataset/issues/62
    for shard in range(100):
        rows = [(f"{n:06d}", {"cls": b"%d" % shard, "id": b"%d" % n}) for n in range(shard * 100, shard * 100 + 100)]
        write_shard(tmp_path / f"s-{shard:04d}.tar", rows)
    with ShardLoader(str(tmp_path), batch_size=64, fields=("cls", "id")) as loader:
        batches = list(loader)
    classes = np.mean([len(set(batch.cls.tolist())) for batch in batches])
    ideal = 100 * (1 - (1 - 1 / 100) ** 64)  # of 64 draws
    assert classes >= 0.97 * ideal
    places = np.concatenate([batch.id for batch in batches])
    assert abs(np.corrcoef(np.arange(len(places)), places)[0, 1]) < 0.05  # four deviations of a random order


@pytest.fixture(autouse=True)
def _leave_the_generators_alone() -> Iterator[None]:
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(state)
    np.random.set_state(numpy_state)  # noqa: NPY002

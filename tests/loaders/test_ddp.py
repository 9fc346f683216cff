"""Real jobs: torchrun, gloo, a collective after every batch. See ddp_scenarios.py for what the ranks do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loaders import ShardLoader
from tests.builders import write_labels, write_shard
from tests.loaders import ddp_scenarios

ROOT = Path(__file__).parents[2]
LIMIT = 150  # seconds a whole job may take, on a busy machine; it takes about ten
COUNTS = [100, 100, 37]
SAMPLES = sum(COUNTS)
ALL = [scenario.__name__ for scenario in ddp_scenarios.SCENARIOS if scenario is not ddp_scenarios.raise_on_rank_1]


def torchrun(folder: Path, world_size: int, scenarios: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world_size)]
    script = [str(ROOT / "tests/loaders/ddp_scenarios.py"), str(folder), *scenarios]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *script], env=environment, timeout=LIMIT, capture_output=True, text=True, check=False
    )


def write_data(folder: Path, world_size: int) -> list[int]:
    """The datasets of all scenarios; returns the samples that do not decode, all of them rank 1's."""
    write_labels(folder / "uneven", COUNTS)
    write_labels(folder / "left", [97])
    write_labels(folder / "one", [100])
    urls = write_labels(folder / "bad", COUNTS)
    options = {"batch_size": 8, "fields": ("cls",), "rank": 1, "world_size": world_size}
    with ShardLoader(urls, **options) as loader:  # type: ignore[arg-type]
        first, second = (loader_batch.cls.tolist() for loader_batch, _ in zip(loader, range(2), strict=False))
    bad = [first[0], first[3], second[5]]
    number = 0
    for shard, count in enumerate(COUNTS):
        rows = range(number, number + count)
        # As many bytes as a number has, so that the plan stays the same.
        samples = [(f"{n:06d}", {"cls": b"bad" if n in bad else str(n).encode()}) for n in rows]
        write_shard(folder / "bad" / f"s-{shard:04d}.tar", samples)
        number += count
    return bad


Results = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def world_size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def job(world_size: int, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    folder = tmp_path_factory.mktemp(f"ddp{world_size}")
    bad = write_data(folder, world_size)
    done = torchrun(folder, world_size, ALL)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder, bad


@pytest.fixture
def results(job: tuple[Path, list[int]], world_size: int) -> Results:
    return lambda name: [json.loads((job[0] / f"{name}.{rank}.json").read_text()) for rank in range(world_size)]


def test_every_rank_has_as_many_batches_as_it_says(results: Results) -> None:
    for name in ("drop", "pad", "exact", "exact_one_left", "one_shard", "workers", "bad_on_one_rank"):
        ranks = results(name)
        assert len({rank["length"] for rank in ranks}) == 1
        assert {len(epoch) for rank in ranks for epoch in rank["epochs"]} == {ranks[0]["length"]}


def seen(ranks: list[dict[str, Any]], epoch: int) -> list[int]:
    return sorted(label for rank in ranks for batch in rank["epochs"][epoch] for label in batch)


@pytest.mark.parametrize("epoch", [0, 1])
def test_each_sample_once_or_as_the_tail_says(results: Results, world_size: int, epoch: int) -> None:
    size = 8 * world_size
    for name in ("drop", "workers"):
        kept = seen(results(name), epoch)
        assert len(kept) == len(set(kept)) == SAMPLES // size * size
    assert seen(results("pad"), epoch) == seen(results("exact"), epoch) == list(range(SAMPLES))
    assert seen(results("exact_one_left"), epoch) == list(range(97))
    one = seen(results("one_shard"), epoch)
    assert len(one) == len(set(one)) == 100 // (3 * world_size) * 3 * world_size


def test_one_sample_left_over_is_one_ranks_and_the_others_take_part(results: Results, world_size: int) -> None:
    for epoch in (0, 1):
        last = [len(rank["epochs"][epoch][-1]) for rank in results("exact_one_left")]
        assert sorted(last) == [0] * (world_size - 1) + [1]


def test_workers_of_all_ranks_give_what_the_loader_gives(results: Results) -> None:
    loader, dataset = results("drop"), results("workers")
    assert [rank["epochs"] for rank in dataset] == [rank["epochs"] for rank in loader]
    assert loader[0]["epochs"] != loader[1]["epochs"]


def test_random_numbers_of_all_ranks_workers_and_epochs_differ(results: Results) -> None:
    for generator in range(3):
        drawn = [row[generator] for rank in results("workers") for row in rank["drawn"]]
        assert len(drawn) == len(set(drawn)) > 300


def test_too_few_samples_is_an_error_on_every_rank_before_the_first_step(results: Results, world_size: int) -> None:
    for rank in results("too_few"):
        assert f"100 samples, less than one global batch of {500 * world_size}" in rank["error"]


def test_bad_samples_of_one_rank_change_no_count_and_are_reported(
    job: tuple[Path, list[int]], results: Results, world_size: int
) -> None:
    folder, bad = job
    ranks = results("bad_on_one_rank")
    assert not set(seen(ranks, 0)) & set(bad)
    assert len(seen(ranks, 0)) == SAMPLES // (8 * world_size) * 8 * world_size
    assert ranks[1]["skipped"]["FieldError"] >= 3  # the next epoch's first batches are made already, and count theirs
    listed = [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]
    assert {row["sample"] for row in listed} == set(bad)
    assert all(row["key"] and row["instead"] for row in listed)
    # Every other sample stands where it stood.
    good_ranks = results("drop")
    changed = [good["epochs"][0] != mended["epochs"][0] for good, mended in zip(good_ranks, ranks, strict=True)]
    assert changed == [rank == 1 for rank in range(world_size)]
    for good, mended in zip(good_ranks, ranks, strict=True):
        for expected, batch in zip(good["epochs"][0], mended["epochs"][0], strict=True):
            assert [b for a, b in zip(expected, batch, strict=True) if a not in bad] == [
                a for a in expected if a not in bad
            ]


def test_ranks_train_one_model(results: Results) -> None:
    first, *others = results("train")
    assert all(rank == first for rank in others)
    assert first["after"] != first["before"]


def test_an_exception_on_one_rank_ends_the_job(tmp_path: Path, world_size: int) -> None:
    write_labels(tmp_path / "uneven", COUNTS)
    done = torchrun(tmp_path, world_size, ["raise_on_rank_1"])
    assert done.returncode != 0
    assert "the bug on rank 1" in done.stderr
    assert not list(tmp_path.glob("*.json"))

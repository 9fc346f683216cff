"""What an epoch is said to be, held against what the plan then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loaders import ShardLoader, forecast, quality
from loaders.forecast import Run
from loaders.plan import Plan, share
from tests.builders import write_labels
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import TooFewSamplesError

COUNTS = [7, 0, 20, 1, 12]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return open_dataset(write_labels(tmp_path_factory.mktemp("shards"), COUNTS))


def run_of(dataset: Dataset, *, batch: int, world: int, **choices: Any) -> Run:
    plan = Plan(counts=dataset.counts, sizes=dataset.sizes, **choices)
    return Run(dataset=dataset, plan=plan, order=plan.epoch(1), batch_size=batch, world_size=world)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tail=st.sampled_from(["drop", "pad", "exact"]),
    world=st.integers(1, 5),
    batch=st.integers(1, 8),
    lanes=st.integers(1, 12),
    block=st.integers(1, 6),
    shuffle=st.booleans(),
)
def test_what_is_said_is_what_comes(
    dataset: Dataset, tail: Any, world: int, batch: int, lanes: int, block: int, *, shuffle: bool
) -> None:
    run = run_of(dataset, batch=batch, world=world, tail=tail, lanes=lanes, block=block, shuffle=shuffle)
    facts = forecast.forecast(run)
    handed_out: list[list[int]] = [[] for _ in range(world)]
    for number in range(facts.batches):
        for rank in range(world):
            mine, _ = share(
                number * batch * world,
                samples=run.plan.samples,
                rank=rank,
                world_size=world,
                batch_size=batch,
                shuffle=shuffle,
                tail=tail,
            )
            handed_out[rank] += run.order.samples(mine).tolist()
    total = sum(map(len, handed_out))
    assert total == facts.samples - facts.dropped + facts.repeated
    assert facts.last_batch == total - (facts.batches - 1) * facts.global_batch
    located = [dataset.locate(samples) for samples in handed_out]
    nbytes = [int((ends - begins).sum()) for _, begins, ends in located]
    shards = [len(set(found.tolist())) for found, _, _ in located]
    assert (facts.reads.least_bytes, facts.reads.most_bytes) == (min(nbytes), max(nbytes))
    assert (facts.reads.least_shards, facts.reads.most_shards) == (min(shards), max(shards))
    assert facts.reads.counted


def test_batches_are_the_loaders(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, COUNTS)
    dataset = open_dataset(folder)
    with ShardLoader(folder, batch_size=3, fields=("cls",), tail="exact", rank=1, world_size=4) as loader:
        facts = forecast.forecast(run_of(dataset, batch=3, world=4, tail="exact"))
        assert facts.batches == len(loader) == 4
        assert facts.last_batch == 4


def test_an_epoch_without_a_batch_is_said_with_the_cure(dataset: Dataset) -> None:
    with pytest.raises(TooFewSamplesError, match="pad"):
        forecast.forecast(run_of(dataset, batch=30, world=2))


def test_long_epochs_are_scaled_up_from_some_batches(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(dataset, batch=2, world=2, block=2, lanes=4)
    monkeypatch.setattr(quality, "STRETCH", 2)
    some = quality.batches_of_plan(run.plan, run.order, batch_size=2, world_size=2, most=16)
    assert some.looked_at < some.of
    counted = forecast.forecast(run, looked_at=some).reads
    monkeypatch.setattr(forecast, "COUNTED", 30)
    scaled = forecast.forecast(run, looked_at=some).reads
    assert (counted.counted, scaled.counted) == (True, False)
    # All samples of these shards have the same size, so that scaling is exact.
    assert (scaled.least_bytes, scaled.most_bytes) == (counted.least_bytes, counted.most_bytes)
    assert scaled.most_shards <= counted.most_shards


def test_memory_is_that_of_the_parts(dataset: Dataset) -> None:
    run = run_of(dataset, batch=8, world=2, lanes=10, block=2)
    memory = forecast.forecast(run, side=64).memory
    assert memory.slabs == 4 * 8 * 64 * 64 * 3
    assert memory.offsets == dataset.offsets.nbytes
    assert memory.read_ahead == int(1.5 * 5 * 2 * run.plan.sample_bytes)
    assert forecast.forecast(run_of(dataset, batch=8, world=2, shuffle=False)).memory.order == 0


def test_blocks_that_several_ranks_read(dataset: Dataset) -> None:
    facts = forecast.forecast(run_of(dataset, batch=2, world=3, lanes=10, block=4))
    assert (facts.ranks_per_block, facts.nearest_lanes) == (3, 9)
    assert facts.blocks == int(np.ceil(np.array(COUNTS) / 4).sum())
    assert facts.requests is None  # the shards are local
    assert forecast.forecast(run_of(dataset, batch=2, world=3, lanes=9, block=4)).ranks_per_block == 1

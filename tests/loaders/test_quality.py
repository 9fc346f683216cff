"""How well the plan mixes sorted data, against perfect shuffles: the figures that the defaults were chosen for.

"As a perfect shuffle" is what 32 simulated ones do: not below the least of them. Samples are 110 KB, as ImageNet's, and
two a block, or 1 KB, whose blocks are as long as blocks get, a quarter of a lane.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.line import Ints
from loaders.plan import DEFAULT_BLOCK_BYTES, DEFAULT_LANES, Plan, block_samples
from loaders.quality import (
    Batches,
    Drift,
    Mixing,
    batches_of,
    batches_of_plan,
    distinct,
    drift,
    mixing,
)

PERFECT = 32
EPOCHS = range(2)


def plan_of(samples: int, shards: int, *, sample_bytes: int = 110_000, **options: object) -> Plan:
    counts = np.full(shards, samples // shards, dtype=np.int64)
    block = block_samples(samples, samples * sample_bytes, lanes=DEFAULT_LANES, block_bytes=DEFAULT_BLOCK_BYTES)
    return Plan(counts=counts, sizes=counts * sample_bytes, **{"block": block, **options})  # type: ignore[arg-type]


def sorted_classes(samples: int, classes: int) -> Callable[[Ints], Ints]:
    return lambda numbers: numbers * classes // samples


def shuffled_classes(samples: int, classes: int) -> Callable[[Ints], Ints]:
    labels = np.random.default_rng(0).permutation(samples) * classes // samples
    return lambda numbers: labels[numbers]


def measured(
    plan: Plan, classes: Callable[[Ints], Ints], *, batch: int, world: int = 1, epoch: int = 0, rounds: int = PERFECT
) -> Mixing:
    batches = batches_of_plan(plan, plan.epoch(epoch), batch_size=batch, world_size=world, most=1 << 30)
    return mixing(batches, classes, of="classes", samples=plan.samples, rounds=rounds)


def drifts(plan: Plan, *, batch: int, epoch: int) -> Drift:
    batches = batches_of_plan(plan, plan.epoch(epoch), batch_size=batch, world_size=1, most=1 << 30)
    return drift(batches, samples=plan.samples, rounds=2)


sizes = pytest.mark.parametrize("sample_bytes", [110_000, 1_000])


@sizes
@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize(("samples", "classes", "shards"), [(10_000, 100, 100), (100_000, 1000, 100)])
def test_batches_of_sorted_data_hold_as_many_classes_as_of_shuffled(
    samples: int, classes: int, shards: int, epoch: int, sample_bytes: int
) -> None:
    plan = plan_of(samples, shards, sample_bytes=sample_bytes)
    found = measured(plan, sorted_classes(samples, classes), batch=256, epoch=epoch)
    assert found.kinds == classes
    assert found.batch.value >= found.batch.least
    assert found.batch_worst.value >= found.batch_worst.least


@sizes
@pytest.mark.parametrize("epoch", EPOCHS)
@pytest.mark.parametrize(("samples", "shards"), [(10_000, 100), (100_000, 100), (256_000, 256)])
def test_no_position_tells_its_source(samples: int, shards: int, epoch: int, sample_bytes: int) -> None:
    found = drifts(plan_of(samples, shards, sample_bytes=sample_bytes), batch=256, epoch=epoch)
    assert abs(found.drift.value) < 0.05
    assert abs(found.neighbours.value) < 0.05


@pytest.mark.parametrize("epoch", EPOCHS)
def test_consecutive_batches_of_a_thousand_sorted_classes(epoch: int) -> None:
    found = measured(plan_of(256_000, 256), sorted_classes(256_000, 1000), batch=256, epoch=epoch, rounds=4)
    assert abs(found.consecutive.value) < 0.05
    assert found.window.share >= 0.85


@pytest.mark.parametrize(("world", "share"), [(8, 0.95), (64, 0.60)])
def test_one_ranks_batch_of_a_thousand_sorted_classes(world: int, share: float) -> None:
    plan = plan_of(256_000, 256)
    found = measured(plan, sorted_classes(256_000, 1000), batch=64, world=world, rounds=4)
    assert found.rank.share >= share


def test_small_sorted_samples_mix_less_in_long_blocks() -> None:
    # A lane stays in its block for 66 places: the price for reading in blocks, which `wds plan` tells.
    long, short = plan_of(256_000, 256, sample_bytes=1_000), plan_of(256_000, 256, sample_bytes=1_000, block=2)
    classes = sorted_classes(256_000, 1000)
    windows = [measured(plan, classes, batch=256, rounds=2).window.share for plan in (long, short)]
    ranks = [measured(plan, classes, batch=64, world=64, rounds=2).rank.share for plan in (long, short)]
    assert windows == pytest.approx([0.77, 0.89], abs=0.02)
    assert ranks == pytest.approx([0.29, 0.62], abs=0.02)
    assert measured(long, classes, batch=64, world=8, rounds=2).rank.share >= 0.95


@sizes
def test_one_ranks_batch_of_shuffled_shards(sample_bytes: int) -> None:
    plan = plan_of(256_000, 256, sample_bytes=sample_bytes)
    found = measured(plan, shuffled_classes(256_000, 1000), batch=64, world=64, rounds=4)
    assert found.rank.share >= 0.95


@pytest.mark.parametrize("batch", [32, 64])
@pytest.mark.parametrize(
    ("samples", "classes", "shards"), [(200, 10, 1), (2_000, 20, 2), (50_000, 100, 5), (50_000, 1000, 50)]
)
def test_small_sets_of_small_pictures_mix_within_three_percent(
    samples: int, classes: int, shards: int, batch: int
) -> None:
    plan = plan_of(samples, shards, sample_bytes=3_000)
    found = [measured(plan, sorted_classes(samples, classes), batch=batch, epoch=epoch, rounds=8) for epoch in EPOCHS]
    assert np.mean([each.batch.share for each in found]) >= 0.97
    assert min(each.batch_worst.value for each in found) >= 0.97 * found[0].batch_worst.least


# The measure itself.


def test_dataset_order_is_found_out() -> None:
    plan = plan_of(10_000, 100, shuffle=False)
    found, places = measured(plan, sorted_classes(10_000, 100), batch=256), drifts(plan, batch=256, epoch=0)
    assert found.batch.value < 4
    assert found.window.share < 0.35
    assert places.drift.value == pytest.approx(1)
    assert places.neighbours.value == pytest.approx(1)


def test_runs_that_batches_share_are_found_out() -> None:
    # Each batch holds 16 of 64 classes, the next one the same, the one after it others.
    generator = np.random.default_rng(0)
    pairs = [generator.choice(64, 16, replace=False) for _ in range(50)]
    labels = np.concatenate([np.repeat(pair, 4) for pair in pairs for _ in range(2)])
    found = mixing(batches_of(np.arange(len(labels)), 64), lambda s: labels[s], of="classes", samples=len(labels))
    assert found.batch.value == found.batch_worst.value == 16
    assert found.consecutive.value > 0.4
    assert abs(found.consecutive.perfect) < 0.05


@given(st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=5))
def test_distinct_is_the_size_of_the_set(rows: list[list[int]]) -> None:
    assert distinct(np.array(rows)).tolist() == [len(set(row)) for row in rows]


def test_a_perfect_shuffle_is_measured_as_one() -> None:
    samples = 20_000
    row = np.random.default_rng(3).permutation(samples)
    found = mixing(batches_of(row, 200, ranks=4), sorted_classes(samples, 50), of="classes", samples=samples)
    for figure in (found.batch, found.rank, found.window):
        assert figure.share == pytest.approx(1, abs=0.01)
        assert figure.least <= figure.perfect <= figure.greatest
    # What is expected of 50 draws from 50 classes, in closed form.
    assert found.rank.perfect == pytest.approx(50 * (1 - (1 - 1 / 50) ** 50), rel=0.01)


@pytest.mark.parametrize(("shuffle", "world"), [(True, 4), (True, 3), (False, 4)])
def test_a_ranks_part_is_what_the_plan_gives_it(shuffle: bool, world: int) -> None:
    from loaders.plan import share

    plan = plan_of(1_000, 10, shuffle=shuffle)
    order = plan.epoch(0)
    batches = batches_of_plan(plan, order, batch_size=20, world_size=world)
    parts = batches.parts(batches.samples).reshape(-1, world, 20)
    for number in range(batches.of):
        for rank in range(world):
            mine, _ = share(
                number * 20 * world,
                samples=1_000,
                rank=rank,
                world_size=world,
                batch_size=20,
                shuffle=shuffle,
                tail="drop",
            )
            assert set(parts[number, rank].tolist()) == set(order.samples(mine).tolist())


def test_of_a_long_epoch_stretches_are_looked_at() -> None:
    plan = plan_of(3_000_000, 3_000)
    batches: Batches = batches_of_plan(plan, plan.epoch(0), batch_size=64, world_size=2, most=100_000)
    assert batches.samples.shape == (39, 20, 128)
    assert (batches.of, batches.looked_at) == (3_000_000 // 128, 780)
    assert batches.first[0] == 0
    assert batches.first[-1] == batches.of - 20
    order, places = plan.epoch(0), batches.positions()
    assert np.array_equal(batches.samples.reshape(-1), order.samples(places.reshape(-1)))
    found = mixing(batches, lambda s: s // 1000, of="shards", samples=3_000_000, rounds=2)
    assert found.batch.share == pytest.approx(1, abs=0.02)


def test_the_figures_are_the_same_each_time() -> None:
    plan = plan_of(10_000, 100)
    first, second = (measured(plan, sorted_classes(10_000, 100), batch=100) for _ in range(2))
    assert first == second


def test_few_batches_still_have_figures() -> None:
    plan = plan_of(100, 1)
    found = measured(plan, sorted_classes(100, 10), batch=60, rounds=2)  # one whole batch
    assert found.window == found.batch
    assert found.consecutive.value == 0

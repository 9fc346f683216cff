"""The order as a pure function: every sample once, whatever the counts, lanes, blocks, ranks and batch sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.plan import MAX_BLOCKS, Plan, block_samples, share
from wds_tools.errors import TooFewSamplesError, UsageError

counts_of_shards = st.lists(st.integers(0, 40), min_size=1, max_size=8)


def plan_of(counts: list[int], **options: Any) -> Plan:
    array = np.array(counts, dtype=np.int64)
    return Plan(counts=array, sizes=array * 1000, **options)


plans = st.builds(
    plan_of,
    counts_of_shards,
    seed=st.integers(0, 2**64 - 1),
    lanes=st.integers(1, 24),
    block=st.integers(1, 12),
    shuffle=st.booleans(),
)


def everything(plan: Plan, epoch: int = 0) -> list[int]:
    samples: list[int] = plan.epoch(epoch).samples(np.arange(plan.samples)).tolist()
    return samples


@given(plan=plans, epoch=st.integers(0, 5))
def test_an_epoch_holds_every_sample_once(plan: Plan, epoch: int) -> None:
    assert sorted(everything(plan, epoch)) == list(range(plan.samples))


@given(plan=plans, data=st.data())
def test_a_position_has_one_sample_however_it_is_asked_for(plan: Plan, data: st.DataObject) -> None:
    order, whole = plan.epoch(0), np.array(everything(plan), dtype=np.int64)
    if not plan.samples:
        return
    for _ in range(3):  # in any order, again and again, one by one or together
        asked = np.array(data.draw(st.lists(st.integers(0, plan.samples - 1), max_size=30)), dtype=np.int64)
        assert order.samples(asked).tolist() == whole[asked].tolist()


@given(plan=plans, step=st.integers(1, 50))
def test_what_is_announced_is_what_is_read(plan: Plan, step: int) -> None:
    order = plan.epoch(0)
    announced: list[int] = []
    for begin in range(0, plan.samples, step):
        firsts, lengths = order.runs(np.arange(begin, min(begin + step, plan.samples)))
        for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
            announced += range(first, first + length)
    assert sorted(announced) == list(range(plan.samples))


@given(plan=plans)
def test_a_run_stays_in_one_shard(plan: Plan) -> None:
    if not plan.shuffle:
        return
    starts = np.concatenate(([0], np.cumsum(plan.counts)))
    firsts, lengths = plan.epoch(0).runs(np.arange(plan.samples))
    shard = np.searchsorted(starts, firsts, side="right")
    assert (shard == np.searchsorted(starts, firsts + lengths - 1, side="right")).all()
    assert (lengths <= plan.block).all()


def shares(plan: Plan, position: int, world_size: int, batch_size: int) -> list[tuple[list[int], list[bool]]]:
    return [
        tuple(
            part.tolist()
            for part in share(
                position,
                samples=plan.samples,
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                shuffle=plan.shuffle,
                tail=plan.tail,
            )
        )
        for rank in range(world_size)
    ]


@given(
    plan=plans,
    tail=st.sampled_from(["drop", "pad", "exact"]),
    world_size=st.sampled_from([1, 2, 3, 4, 6, 7, 8]),
    batch_size=st.integers(1, 9),
)
def test_ranks_share_each_global_batch(plan: Plan, tail: Any, world_size: int, batch_size: int) -> None:
    plan, size, n = replace(plan, tail=tail), world_size * batch_size, plan.samples
    seen: list[int] = []
    for number in range(plan.batches(size)):
        ranks = shares(plan, number * size, world_size, batch_size)
        wanted = [p % n for p in range(number * size, (number + 1) * size) if tail == "pad" or p < n]
        assert sorted(p for positions, _ in ranks for p in positions) == sorted(wanted)
        seen += [p for positions, valid in ranks for p, ok in zip(positions, valid, strict=True) if ok]
        if tail != "exact":
            assert {len(positions) for positions, _ in ranks} == {batch_size}
    if tail == "drop":
        assert sorted(seen) == list(range(n // size * size))
    else:
        assert sorted(seen) == list(range(n))


@given(plan=plans, batch_size=st.integers(1, 6), position=st.integers(0, 50))
def test_the_global_batch_does_not_depend_on_the_world_size(plan: Plan, batch_size: int, position: int) -> None:
    plan = replace(plan, tail="pad")
    if not plan.samples:
        return
    batches = {
        tuple(sorted(p for positions, _ in shares(plan, position, world, 12 * batch_size // world) for p in positions))
        for world in (1, 2, 3, 4, 6, 12)
    }
    assert len(batches) == 1


@given(samples=st.integers(1, 200), world_size=st.integers(1, 5), batch_size=st.integers(1, 8))
def test_in_dataset_order_a_rank_reads_one_run(samples: int, world_size: int, batch_size: int) -> None:
    plan = plan_of([samples], shuffle=False, tail="exact")
    for number in range(plan.batches(world_size * batch_size)):
        ranks = shares(plan, number * world_size * batch_size, world_size, batch_size)
        lengths = [len(positions) for positions, _ in ranks]
        assert max(lengths) - min(lengths) <= 1
        for positions, _ in ranks:
            assert positions == list(range(positions[0], positions[0] + len(positions))) if positions else True


@given(plan=plans, data=st.data())
def test_replacements_come_from_the_same_lane_first_and_reach_everything(plan: Plan, data: st.DataObject) -> None:
    if plan.samples < 2:
        return
    position = data.draw(st.integers(0, plan.samples - 1))
    order = plan.epoch(0)
    lanes = plan.lanes if plan.shuffle else 1
    candidates = order.replacements(position)
    tried = [next(candidates) for _ in range(plan.samples - 1)]
    assert sorted({position, *tried}) == list(range(plan.samples))
    own = order.lane_length(position % lanes) - 1
    assert {p % lanes for p in tried[:own]} <= {position % lanes}
    assert tried[0] == position + lanes if position + lanes < plan.samples else True


def test_epochs_and_seeds_differ() -> None:
    plan = plan_of([100, 100], lanes=8, block=5)
    assert len({tuple(everything(p, e)) for p in (plan, replace(plan, seed=1)) for e in range(3)}) == 6


def test_dataset_order_is_dataset_order() -> None:
    assert everything(plan_of([5, 7], shuffle=False), 3) == list(range(12))


def test_the_order_is_pinned() -> None:
    # A change here would make every saved state go on elsewhere.
    pinned = [6, 14, 5, 10, 15, 8, 12, 1, 9, 11, 0, 7, 3, 2, 13, 4]
    assert everything(plan_of([7, 9], seed=3, lanes=3, block=3), 2) == pinned


def test_lanes_read_blocks_one_after_the_other() -> None:
    plan = plan_of([64] * 8, lanes=4, block=8)
    whole = np.array(everything(plan))
    for lane in range(4):
        blocks = whole[lane::4] // 8
        assert len(set(blocks.tolist())) == (np.diff(blocks) != 0).sum() + 1


@pytest.mark.parametrize(
    ("samples", "nbytes", "lanes", "expected"),
    [
        (20_000_000, 20_000_000 * 107_000, 960, 2),  # 256 KiB worth
        (7_000, 7_000 * 10, 960, 1),  # under 8 lanes' worth of samples: a perfect shuffle
        (100_000, 100_000 * 10, 960, 26),  # a quarter of a lane
        (200_000_000, 200_000_000 * 1_000_000, 960, 20),  # ten million blocks
        (0, 0, 960, 1),
    ],
)
def test_samples_per_block(samples: int, nbytes: int, lanes: int, expected: int) -> None:
    block = block_samples(samples, nbytes, lanes=lanes, block_bytes=256 * 1024)
    assert block == expected
    assert samples / block <= MAX_BLOCKS


def test_too_few_samples_are_said_with_the_cure() -> None:
    with pytest.raises(TooFewSamplesError, match=r"10 samples, less than one global batch of 16.*pad.*exact"):
        plan_of([10]).check(16)
    plan_of([10], tail="exact").check(16)
    plan_of([10], tail="pad").check(16)
    with pytest.raises(TooFewSamplesError, match="0 samples"):
        plan_of([0, 0], tail="exact").check(16)


def test_the_fingerprint_sees_each_count_and_size() -> None:
    plan = plan_of([5, 7])
    assert plan.fingerprint == plan_of([5, 7], seed=9).fingerprint
    assert len({plan.fingerprint, plan_of([7, 5]).fingerprint, plan_of([12]).fingerprint}) == 3
    assert replace(plan, sizes=plan.sizes + 1).fingerprint != plan.fingerprint


@pytest.mark.parametrize("options", [{"lanes": 0}, {"block": 0}, {"tail": "cut"}, {"seed": -1}])
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan_of([5], **options)

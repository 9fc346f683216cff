"""Class balance: exact class totals, floor or ceil copies of each sample; elastic and resumable as the plain plan."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaders
from loaders import ShardLoader, balanced, mix
from loaders.balance import BalancedPlan, class_totals
from loaders.plan import Plan, share
from tests.builders import write_shard
from wds_tools.errors import FieldError, StateError, UsageError
from wds_tools.labels import Labels


def labels_of(codes: list[int]) -> Labels:
    return Labels(np.array(codes, dtype=np.int32), tuple(range(max(codes, default=-1) + 1)))


@st.composite
def plans(draw: st.DrawFn) -> BalancedPlan:
    classes = draw(st.integers(1, 6))
    rare = st.sampled_from([0] * 8 + list(range(classes)) + [-1])
    codes = draw(st.lists(rare, min_size=1, max_size=80))
    codes += range(classes)  # every class occurs
    counts = np.diff(sorted([0, len(codes), *draw(st.lists(st.integers(0, len(codes)), max_size=4))]))
    weights: Any = draw(st.sampled_from(["inverse", "sqrt", {0: 0.0, classes - 1: 2.5}, {classes - 1: 0.3}]))
    labels = labels_of(codes)
    if weights == {0: 2.5}:
        weights = {0: 1.0}
    return BalancedPlan(
        base=Plan(
            counts=counts,
            sizes=counts * 1000,
            seed=draw(st.integers(0, 2**64 - 1)),
            lanes=draw(st.integers(1, 24)),
            block=draw(st.integers(1, 12)),
            shuffle=draw(st.booleans()),
            tail=draw(st.sampled_from(["drop", "pad", "exact"])),
        ),
        starts=np.concatenate(([0], np.cumsum(counts))),
        labels=labels,
        totals=class_totals(labels, weights),
    )


def everything(plan: BalancedPlan, epoch: int = 0) -> list[int]:
    samples: list[int] = plan.epoch(epoch).samples(np.arange(plan.samples)).tolist()
    return samples


@given(plan=plans(), epoch=st.integers(0, 5))
def test_each_sample_comes_floor_or_ceil_of_its_weight(plan: BalancedPlan, epoch: int) -> None:
    found = np.bincount(everything(plan, epoch), minlength=plan.samples)
    codes = plan.labels.codes
    assert found[codes < 0].tolist() == [1] * int((codes < 0).sum())
    for code, (count, total) in enumerate(zip(plan.labels.counts, plan.totals, strict=True)):
        mine = found[codes == code]
        assert mine.sum() == total
        assert set(mine.tolist()) <= {total // count, -(-total // count)}


@given(plan=plans(), epoch=st.integers(0, 3), data=st.data())
def test_a_position_has_one_sample_however_it_is_asked_for(plan: BalancedPlan, epoch: int, data: st.DataObject) -> None:
    order, whole = plan.epoch(epoch), np.array(everything(plan, epoch), dtype=np.int64)
    for _ in range(3):
        asked = np.array(data.draw(st.lists(st.integers(0, plan.samples - 1), max_size=30)), dtype=np.int64)
        assert order.samples(asked).tolist() == whole[asked].tolist()
    assert everything(pickle.loads(pickle.dumps(plan)), epoch) == whole.tolist()


@given(plan=plans(), step=st.integers(1, 50))
def test_what_is_announced_covers_what_is_read_and_stays_in_its_shard(plan: BalancedPlan, step: int) -> None:
    order = plan.epoch(1)
    announced: set[int] = set()
    for begin in range(0, plan.samples, step):
        positions = np.arange(begin, min(begin + step, plan.samples))
        for first, length in zip(*(part.tolist() for part in order.runs(positions)), strict=True):
            announced.update(range(first, first + length))
            if plan.shuffle:
                ends = np.searchsorted(plan.starts, [first, first + length - 1], side="right")
                assert ends[0] == ends[1]
        assert announced.issuperset(order.samples(positions).tolist())


@given(plan=plans(), batch_size=st.integers(1, 3), data=st.data())
def test_global_batches_do_not_depend_on_the_world_size(
    plan: BalancedPlan, batch_size: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, plan.samples - 1))
    order, size = plan.epoch(2), 168 * batch_size

    def batch(world: int) -> list[int]:
        options: Any = {"samples": plan.samples, "world_size": world, "batch_size": size // world}
        ranks = [share(position, rank=r, shuffle=plan.shuffle, tail=plan.tail, **options)[0] for r in range(world)]
        return sorted(sample for mine in ranks for sample in order.samples(mine % plan.samples).tolist())

    assert len({tuple(batch(world)) for world in (1, 2, 3, 4, 6, 7, 8)}) == 1


def test_epochs_draw_other_copies_and_repeat() -> None:
    labels = labels_of([0] * 60 + [1] * 40)
    counts = np.array([70, 30])
    base = Plan(counts=counts, sizes=counts, seed=3, lanes=4)
    starts = np.array([0, 70, 100])
    plan = BalancedPlan(base=base, starts=starts, labels=labels, totals=class_totals(labels, "inverse"))
    copies = [tuple(plan.copies(epoch).tolist()) for epoch in range(4)]
    assert len(set(copies)) == 4
    assert copies == [tuple(plan.copies(epoch).tolist()) for epoch in range(4)]
    seen = np.sum([plan.copies(epoch) for epoch in range(300)], axis=0)
    assert np.abs(seen[:60] / 300 - 50 / 60).max() < 0.1
    assert np.abs(seen[60:] / 300 - 50 / 40).max() < 0.1


@pytest.mark.parametrize(
    ("weights", "totals"),
    [
        ("inverse", [40, 40, 40]),
        ("sqrt", [67, 33, 20]),
        ({0: 1}, [90, 22, 8]),
        ({1: 3}, [66, 48, 6]),
        ({0: 0, 2: 0}, [0, 120, 0]),
        ({0: 0}, [0, 88, 32]),
    ],
)
def test_class_totals(weights: Any, totals: list[int]) -> None:
    assert class_totals(labels_of([0] * 90 + [1] * 22 + [2] * 8 + [-1] * 5), weights).tolist() == totals


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({7: 1.0}, r"weights has 7, which is the label of no sample.*There are 0, 1"),
        ({0: 0, 1: 0}, "all weights are 0"),
    ],
)
def test_weights_that_do_not_fit_the_labels(weights: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        class_totals(labels_of([0, 1]), weights)


@pytest.mark.parametrize("weights", ["root", {0: -1}, {0: float("inf")}, {0: "1"}, 3])
def test_weights_that_cannot_be(weights: Any) -> None:
    with pytest.raises(UsageError, match="weight"):
        balanced("x", weights=weights)


# Real shards: class 0 is common, 1 is rare, 2 is very rare.


def class_of(number: int) -> int:
    return 2 if number % 40 == 7 else 1 if number % 8 == 1 else 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("classes")
    begin = 0
    for shard, count in enumerate([30, 61, 0, 29]):
        samples = [
            (f"{n}", {"cls": str(class_of(n)).encode(), "id": str(n).encode()}) for n in range(begin, begin + count)
        ]
        write_shard(root / f"{shard}.tar", samples)
        begin += count
    return str(root)


def loader_of(urls: Any, **options: Any) -> ShardLoader:
    settings = {"batch_size": 12, "fields": ("cls", "id"), "threads": 2, "lanes": 6, "tail": "exact"}
    return ShardLoader(urls, **{**settings, **options})


def test_classes_are_equally_frequent(folder: str) -> None:
    with loader_of(balanced(folder)) as loader:
        for _ in range(2):
            batches = list(loader)
            assert sum(len(batch.cls) for batch in batches) == 120
            assert Counter(c for batch in batches for c in batch.cls.tolist()) == {0: 40, 1: 40, 2: 40}
            assert {len(set(batch.cls.tolist())) for batch in batches} <= {2, 3}
            for batch in batches:
                assert batch.cls.tolist() == [class_of(number) for number in batch.id.tolist()]


@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
def test_a_run_goes_on_from_every_batch_at_any_world_size(folder: str, tail: Any) -> None:
    urls = balanced(folder, weights="sqrt")
    with loader_of(urls, tail=tail) as loader:
        per_epoch, states, whole = len(loader), [json.dumps(loader.state_dict())], []
        for _ in range(2):
            for batch in loader:
                whole.append(sorted(batch.id.tolist()))
                states.append(json.dumps(loader.state_dict()))
    assert max(map(len, states)) < 400
    for done, state in enumerate(states[:-1]):
        world_size = (1, 2, 3, 4, 6)[done % 5]
        left = min(2, per_epoch - done % per_epoch)
        ranks = []
        for rank in range(world_size):
            options: Any = {"batch_size": 12 // world_size, "rank": rank, "world_size": world_size, "tail": tail}
            with loader_of(urls, threads=1, **options) as loader:
                loader.load_state_dict(json.loads(state))
                iterator = iter(loader)
                ranks.append([next(iterator).id.tolist() for _ in range(left)])
        assert [sorted(sum(batch, [])) for batch in zip(*ranks, strict=True)] == whole[done : done + left]


def test_other_weights_or_labels_are_refused(folder: str, tmp_path: Path) -> None:
    with loader_of(balanced(folder)) as loader:
        state = loader.state_dict()
    for urls in (folder, balanced(folder, weights="sqrt"), balanced(folder, weights={2: 9})):
        with loader_of(urls) as loader, pytest.raises(StateError, match="fingerprint"):
            loader.load_state_dict(state)


def test_a_sample_without_a_label_is_left_to_on_error(tmp_path: Path) -> None:
    samples = [(f"k{n}", {"cls": b"bad" if n == 5 else str(n % 2).encode(), "id": str(n).encode()}) for n in range(24)]
    write_shard(tmp_path / "a.tar", samples)
    urls = balanced(str(tmp_path))
    with loader_of(urls) as loader, pytest.raises(FieldError, match="k5"):
        list(loader)
    with loader_of(urls, on_error="skip") as loader:
        numbers = [number for batch in loader for number in batch.id.tolist()]
        assert len(numbers) == 23
        assert 5 not in numbers
        assert loader.report().skipped["FieldError"] >= 1


def test_a_part_of_a_mix_may_be_balanced(folder: str) -> None:
    with loader_of(mix([(balanced(folder), 1), (folder, 1)], stop=240)) as loader:
        classes = Counter(c for batch in loader for c in batch.cls.tolist())
    assert classes == {0: 40 + 102, 1: 40 + 15, 2: 40 + 3}


def test_it_is_a_description(folder: str) -> None:
    made = balanced(folder, field="cls", weights={0: 0.5})
    assert pickle.loads(pickle.dumps(made)) == made
    assert loaders.balanced is balanced
    loader = pickle.loads(pickle.dumps(loader_of(made)))
    assert len(loader) == 10
    loader.close()

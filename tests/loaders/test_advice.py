"""What is called poor, and that what is proposed keeps its promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loaders import plan as plan_module
from loaders.advice import complaints, judge
from loaders.forecast import Run
from loaders.plan import Plan
from loaders.quality import batches_of, batches_of_plan, drift, mixing
from loaders.selection import OpenedDataset, Options
from shardwriter import ShardWriter
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.permutation import permutation

SAMPLES, CLASSES = 4000, 40


def write(folder: Path, *, shuffled: bool | None = None, shards: int = 10) -> Dataset:
    extra = {} if shuffled is None else {"shuffled": shuffled}
    with ShardWriter(folder / "s-%06d.tar", max_samples=SAMPLES // shards, extra=extra) as writer:
        for number in range(SAMPLES):
            writer.write({"__key__": f"{number:06d}", "cls": number * CLASSES // SAMPLES})
    return open_dataset(folder)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("sorted"))


def run_of(dataset: Dataset, plan: Plan, *, batch: int = 100, world: int = 1) -> Run:
    return Run(dataset=dataset, plan=plan, order=plan.epoch(0), batch_size=batch, world_size=world)


def plan_of(dataset: Dataset, *, lanes: int, block_bytes: int = 1 << 18, shuffle: bool = True) -> Plan:
    return OpenedDataset(dataset).plan(Options(lanes=lanes, block_bytes=block_bytes, shuffle=shuffle))


def judged(run: Run, *, labels: str | None = None):  # type: ignore[no-untyped-def]  # the type is what is tested
    batches = batches_of_plan(run.plan, run.order, batch_size=run.batch_size, world_size=run.world_size)
    return judge(run, batches, labels=labels)


def test_a_good_order_is_not_complained_about(dataset: Dataset) -> None:
    found = judged(run_of(dataset, plan_of(dataset, lanes=960), world=4), labels="cls")
    assert (found.by, found.complaints, found.proposals) == ("classes", (), ())
    assert [mixing.kinds for mixing in found.mixings] == [10, CLASSES]


def test_a_poor_order_is_with_what_is_poor_and_what_is_better(dataset: Dataset) -> None:
    run = run_of(dataset, plan_of(dataset, lanes=8))
    found = judged(run, labels="cls")
    assert found.complaints[0].startswith("a batch holds ")
    assert any("consecutive batches are alike" in text for text in found.complaints)
    assert found.proposals
    for proposal in found.proposals:
        better = plan_of(dataset, lanes=proposal.lanes, block_bytes=proposal.block_bytes)
        assert better.block == proposal.block
        after = judged(replace(run, plan=better, order=better.epoch(0)), labels="cls")
        assert after.mixings[-1].batch.share == pytest.approx(proposal.batch, abs=0.02)
        assert after.mixings[-1].batch.share > found.mixings[-1].batch.share


def test_without_labels_the_dataset_counts_as_sorted(dataset: Dataset) -> None:
    found = judged(run_of(dataset, plan_of(dataset, lanes=8)))
    assert found.by == "runs"
    assert found.mixings[-1].kinds == SAMPLES // 16
    assert found.complaints


def test_shards_packed_in_shuffled_order_mix_in_any_order(tmp_path: Path) -> None:
    dataset = write(tmp_path, shuffled=True)
    run = run_of(dataset, plan_of(dataset, lanes=8))
    assert (judged(run).by, judged(run).complaints) == (None, ())
    assert judged(run, labels="cls").complaints  # but these are not what the listing says


def test_in_dataset_order_nothing_is_judged(dataset: Dataset) -> None:
    found = judged(run_of(dataset, plan_of(dataset, lanes=8, shuffle=False)), labels="cls")
    assert found.by is None
    assert found.mixings[-1].batch.value < 3


def test_one_shard_is_told_apart_by_runs(tmp_path: Path) -> None:
    found = judged(run_of(dataset := write(tmp_path, shuffled=True, shards=1), plan_of(dataset, lanes=8)))
    assert [mixing.of for mixing in found.mixings] == ["runs"]


def test_what_is_proposed_can_be_had(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with 20 million samples, whose blocks have two at least.
    monkeypatch.setattr(plan_module, "MAX_BLOCKS", SAMPLES // 3)
    run = run_of(dataset, plan_of(dataset, lanes=8))
    found = judged(run, labels="cls").proposals
    assert found
    for proposal in found:
        assert proposal.block >= 4
        assert plan_of(dataset, lanes=proposal.lanes, block_bytes=proposal.block_bytes).block == proposal.block


def test_what_perfect_shuffles_have_too_is_no_complaint() -> None:
    # 48 samples in batches of 8: a perfect shuffle of them is measured against other perfect shuffles.
    for number in range(40):
        samples = permutation(48, (number, 0)).astype(np.int64)
        batches = batches_of(samples, 8)
        found = mixing(batches, lambda numbers: numbers // 16, of="runs", samples=48)
        places = drift(batches, samples=48)
        assert complaints(found, places, samples=48, world_size=1) == ()


def test_a_sorted_order_of_few_samples_is_one() -> None:
    batches = batches_of(np.arange(48), 8)
    found = mixing(batches, lambda numbers: numbers // 8, of="classes", samples=48)
    assert complaints(found, drift(batches, samples=48), samples=48, world_size=1)

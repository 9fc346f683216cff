"""A loader measured: counts that must agree, steps that make it wait or not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loaders import RandomResizedCrop, ShardLoader, Trace, bench
from loaders.bench import Bench
from tests.builders import write_labels, write_pictures
from wds_tools.errors import TooFewSamplesError, UsageError


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [60, 40], width=500, height=375)


def test_so_many_batches_of_as_many_epochs_as_it_takes(pictures: str) -> None:
    told: list[None] = []
    with ShardLoader(pictures, batch_size=20, image=RandomResizedCrop(32)) as loader:
        found = bench(loader, seconds=60, warmup=0, batches=13, progress=lambda: told.append(None))
    report = found.report
    assert (report.batches, report.samples, found.batch_size) == (13, 260, 20)
    assert len(told) == 14  # and the first one
    assert found.first_batch_seconds > 0
    assert 0 < found.slow == found.fast, "of so few batches the mean"
    assert found.verdict.bound != "nothing"


def test_the_warm_up_does_not_count(pictures: str) -> None:
    told: list[None] = []
    with ShardLoader(pictures, batch_size=20, fields=("cls",)) as loader:
        found = bench(loader, seconds=60, warmup=0.2, batches=3, progress=lambda: told.append(None))
        assert loader.report().batches == len(told)
    assert found.report.batches == 3 < len(told)


def test_one_batch_at_least(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=20, fields=("cls",)) as loader:
        found = bench(loader, seconds=1e-9, warmup=0)
    assert found.report.batches == 1


def test_a_step_is_taken_after_each_batch_and_does_not_count_as_waiting(tmp_path: Path) -> None:
    with ShardLoader(write_labels(tmp_path, [64]), batch_size=8, fields=("cls",)) as loader:
        found = bench(loader, seconds=60, warmup=0, batches=6, step_seconds=0.1)
    assert found.report.seconds >= 0.6
    assert found.step_wait_seconds <= found.report.seconds - 0.6, "the steps themselves are no waiting"
    assert found.step_share == pytest.approx(found.report.samples_per_second / 80, abs=1e-6)
    assert found.verdict.bound != "nothing"


def test_what_was_tried_speaks(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=20, image=RandomResizedCrop(32)) as loader:
        found = bench(loader, seconds=60, warmup=0, batches=5)
        plain = bench(loader, seconds=60, warmup=0, batches=5, smaller=False)
    assert plain.smaller is None
    assert found.smaller is not None
    assert found.smaller.side == 37
    decoding = replace(
        found.report,
        decode_cpu_seconds=found.report.decode_seconds,
        read_seconds=0.0,
        wait_seconds=found.report.seconds,
        seconds=found.report.decode_seconds / found.report.threads,
        cores=found.report.threads,
    )
    tried = replace(found, report=decoding)
    assert tried.verdict.bound == "decode"
    assert f"a 37-pixel reshard would give about {found.smaller.gain(decoding):.1f}x" in tried.verdict.sentence


def test_a_trace_beside_it(pictures: str) -> None:
    trace = Trace()
    with ShardLoader(pictures, batch_size=20, fields=("cls",)) as loader:
        loader.observe(trace)
        bench(loader, seconds=60, warmup=0, batches=9)
    assert [event.what for event in trace.events].count("wait") == 10


def test_all_of_it_is_json(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=20, image=RandomResizedCrop(32)) as loader:
        found = bench(loader, seconds=60, warmup=0, batches=4)
    facts = json.loads(json.dumps(found.as_dict()))
    assert isinstance(found, Bench)
    assert (facts["batches"], facts["bound"]) == (4, found.verdict.bound)
    assert facts["smaller"]["pictures"] > 0


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"warmup": -1.0}, {"step_seconds": float("nan")}, {"batches": 0}])
def test_wrong_use(pictures: str, wrong: dict[str, float]) -> None:
    with ShardLoader(pictures, batch_size=20) as loader, pytest.raises(UsageError, match=next(iter(wrong))):
        bench(loader, **wrong)  # type: ignore[arg-type]


def test_too_few_samples_are_said_as_always(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=101) as loader, pytest.raises(TooFewSamplesError):
        bench(loader)

"""What a loader says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loaders import RandomResizedCrop, Reading, ShardLoader, StreamLoader
from loaders.report import Report
from tests.builders import write_pictures, write_shard
from wds_tools.cores import usable_cores
from wds_tools.pictures.kernel import Capability


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [40, 24], width=600, height=400)


def run(loader: ShardLoader) -> Report:
    for _ in loader:
        pass
    return loader.report()


def test_everything_is_counted(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(224), threads=2) as loader:
        report = run(loader)
        dataset = loader.dataset
    assert (report.samples, report.batches, report.threads, report.prefetch) == (64, 4, 2, 2)
    _, begins, ends = dataset.locate(range(64))
    assert report.bytes >= int((ends - begins).sum())
    for name in ("seconds", "wait_seconds", "read_seconds", "decode_seconds", "decode_cpu_seconds", "batch_seconds"):
        assert getattr(report, name) > 0, name
    assert report.plan_seconds > 0
    assert report.cpu_seconds > 0
    assert 0 <= report.queue <= 2
    assert 0 < report.busy_share <= 1
    assert report.cores == usable_cores()


def test_the_sizes_of_pictures_are_looked_at(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(112), threads=2) as loader:
        report = run(loader)
    assert report.looked_at >= 8
    assert report.small_side == 128
    assert report.pixels == report.looked_at * 600 * 400
    assert report.small_pixels == pytest.approx(report.looked_at * 192 * 128)


def test_stages_share_out_the_time(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(224), threads=2) as loader:
        stages = {stage.name: stage for stage in run(loader).stages}
    threads = ("reading", "waiting for remote bytes", "decoding", "making batches", "without work")
    assert sum(stages[name].share for name in threads) == pytest.approx(1)
    assert stages["consumer waiting"].share + stages["consumer at work"].share == pytest.approx(1)
    assert stages["decoding"].microseconds == pytest.approx(stages["decoding"].seconds / 64 * 1e6)


def test_what_happened_since(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(224), threads=2) as loader:
        first = run(loader)
        both = run(loader)
    second = both.since(first)
    assert (both.samples, second.samples, second.batches) == (128, 64, 4)
    assert second.seconds == pytest.approx(both.seconds - first.seconds)
    assert both.since(both).verdict.bound == "nothing"


def test_errors_since(tmp_path: Path) -> None:
    # in the last batch of the epoch: what is made ahead of the next one does not come so far
    write_shard(tmp_path / "s-0.tar", [(f"{n:03d}", {"cls": b"x" if n == 35 else b"1"}) for n in range(40)])
    with ShardLoader(str(tmp_path), batch_size=10, fields=("cls",), on_error="skip", shuffle=False) as loader:
        first = run(loader)
        both = run(loader)
    assert first.skipped == {"FieldError": 1}
    assert both.since(first).skipped == {"FieldError": 1}
    assert both.since(both).skipped == {}


def test_it_reads_well_and_its_second_line_is_what_sets_the_pace(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(224), threads=2) as loader:
        next(iter(loader))
        text = str(loader.report().since(loader.report()))
        assert "bound" not in text
        report = run(loader)
    assert str(report).splitlines()[1] == report.verdict.sentence
    assert " samples in " in str(report)
    assert f"{report.cores_used:.1f} of {report.cores} cores used" in str(report)


def test_all_of_it_is_json(pictures: str) -> None:
    with ShardLoader(pictures, batch_size=16, image=RandomResizedCrop(224), read=Reading(prefetch=3)) as loader:
        report = run(loader)
    facts = json.loads(json.dumps(report.as_dict()))
    assert (facts["samples"], facts["prefetch"], facts["verdict"]) == (64, 3, report.verdict.sentence)
    assert {stage["name"] for stage in facts["stages"]} >= {"reading", "decoding"}


def test_a_missing_kernel_is_said_once(pictures: str, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "the decode kernel was not built. Install a C compiler."
    monkeypatch.setattr("loaders.loader.capability", lambda: Capability(False, False, "", why))
    with ShardLoader(pictures, batch_size=16) as loader:
        assert str(loader.report()).endswith(why)
        assert why not in str(loader.report())


def test_a_stream_has_a_thread_that_reads(pictures: str) -> None:
    options: dict[str, Any] = {"batch_size": 16, "image": RandomResizedCrop(96), "threads": 1}
    with StreamLoader(str(Path(pictures) / "*.tar"), **options) as loader:
        for _ in loader:
            pass
        report = loader.report()
    assert report.readers == 1
    assert report.verdict.bound != "nothing"
    assert report.busy_seconds == pytest.approx(report.decode_seconds + report.batch_seconds)

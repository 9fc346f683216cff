"""Bad samples: replaced alike for every world size, counted, listed, and left out when the list is given back."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from loaders import ShardLoader
from tests.builders import write_shard
from wds_tools.errors import HeaderError, ShardMissingError, StateError, TooManyFailuresError, UsageError

BAD = {5, 17, 18, 30}


def folder(tmp_path: Path, bad: set[int] = BAD, count: int = 40) -> str:
    for shard in range(2):
        numbers = range(shard * count // 2, (shard + 1) * count // 2)
        samples = [(f"k{i:02d}", {"cls": b"bad" if i in bad else str(i).encode()}) for i in numbers]
        write_shard(tmp_path / f"{shard}.tar", samples)
    return str(tmp_path)


def loader_of(urls: str, **options: Any) -> ShardLoader:
    return ShardLoader(urls, **{"batch_size": 4, "fields": ("cls",), "lanes": 4, "on_error": "skip", **options})


def global_batches(urls: str, world_size: int, **options: Any) -> list[list[int]]:
    batches: list[list[int]] = []
    for rank in range(world_size):
        with loader_of(urls, batch_size=8 // world_size, rank=rank, world_size=world_size, **options) as loader:
            for number, batch in enumerate(loader):
                batches += [[] for _ in range(number + 1 - len(batches))]
                batches[number] += batch.cls.tolist()
    return [sorted(batch) for batch in batches]


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_replacements_agree_for_every_world_size(tmp_path: Path, tail: str) -> None:
    urls = folder(tmp_path)
    first = global_batches(urls, 1, tail=tail)
    assert [len(batch) for batch in first] == [8] * 5
    assert global_batches(urls, 2, tail=tail) == global_batches(urls, 4, tail=tail) == first
    assert not {number for batch in first for number in batch} & BAD


def test_pad_marks_replacements(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path), tail="pad") as loader:
        valid = [number for batch in loader for number in batch.cls[batch.valid].tolist()]
    assert sorted(valid) == sorted(set(range(40)) - BAD)


def test_exact_replaces_nothing(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path), tail="exact") as loader:
        batches = [batch.cls.tolist() for batch in loader]
        assert len(batches) == len(loader) == 10
        assert loader.report().samples == 36
    assert sorted(number for batch in batches for number in batch) == sorted(set(range(40)) - BAD)


def test_failures_are_counted_logged_once_and_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listed = tmp_path / "quarantine.jsonl"
    with caplog.at_level(logging.WARNING), loader_of(folder(tmp_path), quarantine=listed) as loader:
        list(loader)
        list(loader)
        assert loader.report().skipped["FieldError"] >= 8
    assert len([record for record in caplog.records if "skipped a sample" in record.message]) == 1
    rows = [json.loads(line) for line in listed.read_text().splitlines()]
    assert {row["sample"] for row in rows} == BAD
    assert len(rows) == len(BAD)
    for row in rows:
        assert row["key"] == f"k{row['sample']:02d}"
        assert row["field"] == "cls"
        assert row["instead"] not in {f"k{i:02d}" for i in BAD}


def test_excluding_every_sample_is_said(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path), exclude=range(40)) as loader:
        with pytest.raises(UsageError, match="all are excluded"):
            next(iter(loader))


@pytest.mark.parametrize("where", ["missing/q.jsonl", ".", "0.tar/q.jsonl"])
def test_a_quarantine_that_cannot_be_written_is_said_before_the_first_batch(tmp_path: Path, where: str) -> None:
    with loader_of(folder(tmp_path, bad=set()), quarantine=tmp_path / where) as loader:
        with pytest.raises(UsageError, match=r"quarantine=.* cannot be written"):
            next(iter(loader))


def test_a_disk_that_fills_up_ends_the_list_and_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # /dev/full opens and takes no byte.
    with caplog.at_level(logging.WARNING), loader_of(folder(tmp_path), quarantine="/dev/full") as loader:
        assert len(list(loader)) == 10
        assert loader.report().skipped["FieldError"] >= 4
    assert len([record for record in caplog.records if "takes no more lines" in record.getMessage()]) == 1


def test_a_quarantine_file_given_back_replaces_without_reading(tmp_path: Path) -> None:
    urls, listed = folder(tmp_path), tmp_path / "quarantine.jsonl"
    with loader_of(urls, quarantine=listed) as loader:
        skipped = [batch.cls.tolist() for batch in loader]
    with loader_of(urls, exclude=listed, on_error="raise") as loader:
        assert [batch.cls.tolist() for batch in loader] == skipped
        assert not loader.report().skipped


def test_exclude_takes_indices(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path, bad=set()), exclude=[0, 39], tail="exact", on_error="raise") as loader:
        assert sorted(n for batch in loader for n in batch.cls.tolist()) == list(range(1, 39))


def test_a_quarantine_file_of_another_dataset_is_refused(tmp_path: Path) -> None:
    listed = tmp_path / "quarantine.jsonl"
    with loader_of(folder(tmp_path / "a"), quarantine=listed) as loader:
        list(loader)
    with pytest.raises(StateError, match="another dataset"):
        len(loader_of(folder(tmp_path / "b", count=20), exclude=listed))


def test_a_file_that_is_no_quarantine_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UsageError, match="no quarantine file"):
        len(loader_of(folder(tmp_path), exclude=tmp_path / "notes.txt"))


def test_a_damaged_header_is_skipped_as_content(tmp_path: Path) -> None:
    urls = folder(tmp_path, bad=set())
    with loader_of(urls) as loader:
        assert len(loader) == 10  # the index is made while the shard is whole
        shard = tmp_path / "0.tar"
        content = bytearray(shard.read_bytes())
        content[1024 * 3 + 148] ^= 1  # the checksum of the fourth sample's header
        shard.write_bytes(content)
        assert 3 not in [number for batch in loader for number in batch.cls.tolist()]
        assert loader.report().skipped["HeaderError"] >= 1
        with loader_of(urls, on_error="raise") as strict, pytest.raises(HeaderError, match=r"0\.tar.*offset 3072"):
            list(strict)


def test_a_shard_that_is_gone_is_raised_and_not_skipped(tmp_path: Path) -> None:
    urls = folder(tmp_path, bad=set())
    with loader_of(urls) as loader:
        assert len(loader) == 10
        (tmp_path / "1.tar").unlink()
        with pytest.raises(ShardMissingError, match=r"1\.tar"):
            list(loader)


def test_failures_stop_at_a_hundred(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path, bad=set(range(200)), count=200)) as loader:
        with pytest.raises(TooManyFailuresError, match="100 bad samples in a row"):
            list(loader)


def test_failures_without_end_are_an_error(tmp_path: Path) -> None:
    with loader_of(folder(tmp_path, bad=set(range(40)))) as loader:
        with pytest.raises(TooManyFailuresError, match=r"40 bad samples in a row.*wds verify"):
            list(loader)

"""Bad samples: replaced alike for every world size, counted, listed, and left out when the list is given back."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import webdataset as wds

import loaders
from loaders import ShardLoader, StreamLoader
from loaders.torch import ShardDataset
from tests.builders import write_shard
from wds_tools.errors import (
    FieldError,
    HeaderError,
    ShardMissingError,
    StateError,
    TooManyFailuresError,
    TruncatedShardError,
    UsageError,
)

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


# webdataset's handlers


def stream_of(urls: str, **options: Any) -> StreamLoader:
    return StreamLoader(urls, **{"batch_size": 4, "fields": ("cls",), "shuffle": False, **options})


def dataset_of(urls: str, **options: Any) -> Any:
    return ShardDataset(urls, **{"batch_size": 4, "fields": ("cls",), "lanes": 4, **options})


@pytest.mark.parametrize("handler", [wds.warn_and_continue, wds.ignore_and_continue])
@pytest.mark.parametrize("kind", [loader_of, stream_of, dataset_of])
def test_handlers_that_continue_skip(tmp_path: Path, kind: Any, handler: Any) -> None:
    urls = folder(tmp_path)
    with kind(urls, on_error=handler) as theirs:
        skipped = [batch.cls.tolist() for batch in theirs]
    with kind(urls, on_error="skip") as ours:
        assert [batch.cls.tolist() for batch in ours] == skipped
    assert not {number for batch in skipped for number in batch} & BAD


def test_the_handler_that_raises_raises(tmp_path: Path) -> None:
    urls = folder(tmp_path)
    for kind in (loader_of, stream_of, dataset_of):
        with kind(urls, on_error=wds.reraise_exception) as loader, pytest.raises(FieldError, match="b'bad'"):
            list(loader)


def test_raw_samples_take_handlers(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [(key, {"cls": b"1"}) for key in "abc"])
    shard.write_bytes(shard.read_bytes()[:2200])  # within the last header, so that "b" may have lost a field
    samples = loaders.samples(shard, on_error=wds.warn_and_continue)
    assert [sample["__key__"] for sample in samples] == ["a"]
    assert samples.skipped.total() == 1
    with pytest.raises(TruncatedShardError):
        list(loaders.samples(shard, on_error=wds.reraise_exception))


def own(_: Exception) -> bool:
    return True


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (wds.warn_and_stop, "warn_and_stop, which ends an epoch at the first bad sample"),
        (wds.ignore_and_stop, "ignore_and_stop, which ends"),
        (own, "<function own.*one of your own has no counterpart"),
        ("ignore", "on_error is 'ignore', expected 'raise' or 'skip'$"),
        (None, "on_error is None"),
    ],
)
@pytest.mark.parametrize("kind", [loader_of, stream_of, dataset_of, loaders.samples])
def test_what_has_no_counterpart_is_refused_at_once(tmp_path: Path, kind: Any, handler: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        kind(folder(tmp_path), on_error=handler)

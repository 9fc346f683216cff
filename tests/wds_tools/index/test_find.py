"""Bare shards are indexed once: from sidecars that fit, else by a scan; the result is kept; trouble is named."""

import json
import logging
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.wds_tools.made_shards import make_dataset, make_shard, samples
from wds_tools.dataset import open_dataset
from wds_tools.errors import NotATarError, ShardError, ShardMissingError, TruncatedShardError, UsageError
from wds_tools.index import find as index
from wds_tools.index import sidecars
from wds_tools.index.cache import IndexCache
from wds_tools.sources.resolve import open_source
from wds_tools.tar.walk import walk_source

NOTHING = IndexCache(None)


def indexed(paths: list[Path], cache: IndexCache = NOTHING) -> list[index.ShardIndex]:
    return index.index_shards(index.file_facts([str(path) for path in paths]), cache)


def shards(folder: Path, counts: list[int]) -> tuple[list[Path], list[list[int]]]:
    rows = make_dataset(folder, counts)
    return sorted(folder.glob("*.tar")), [row.tolist() for row in rows]


def test_a_scan_finds_what_tarfile_finds_in_the_order_of_the_shards(tmp_path: Path) -> None:
    paths, rows = shards(tmp_path, [5, 1, 30, 2, 7, 3, 4, 1, 9, 11, 2])
    found = indexed(paths)
    assert [each.offsets.tolist() for each in found] == rows
    assert [each.size for each in found] == [path.stat().st_size for path in paths]
    assert {each.origin for each in found} == {"scan"}


def test_sidecars_save_the_scan(tmp_path: Path) -> None:
    paths, rows = shards(tmp_path, [5, 6, 7])
    sidecars.write_energon(tmp_path / "train-000000.tar.idx", np.array(rows[0], np.uint64))
    with open_source(str(paths[1])) as source:
        sidecars.write_dali(tmp_path / "train-000001.idx", walk_source(source))
    found = indexed(paths)
    assert [each.origin for each in found] == ["energon", "dali", "scan"]
    assert [each.offsets.tolist() for each in found] == rows


def test_a_sidecar_of_another_shard_is_passed_over_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths, rows = shards(tmp_path, [5])
    sidecars.write_energon(tmp_path / "train-000000.tar.idx", np.array([0, 512], np.uint64))
    with caplog.at_level(logging.WARNING):
        assert [(each.origin, each.offsets.tolist()) for each in indexed(paths)] == [("scan", rows[0])]
    assert "train-000000.tar.idx is passed over" in caplog.text


def test_what_was_found_is_kept_until_the_shard_changes(tmp_path: Path) -> None:
    paths, rows = shards(tmp_path / "data", [5, 3])
    cache = IndexCache(tmp_path / "cache")
    assert [each.origin for each in indexed(paths, cache)] == ["scan", "scan"]
    assert [each.origin for each in indexed(paths, cache)] == ["cache", "cache"]
    make_shard(paths[0], samples(0, 8))
    again = indexed(paths, cache)
    assert [each.origin for each in again] == ["scan", "cache"]
    assert [len(each.offsets) for each in again] == [9, 4]
    assert again[1].offsets.tolist() == rows[1]


def test_a_shard_written_anew_with_the_same_size_is_noticed_by_its_time(tmp_path: Path) -> None:
    paths, _ = shards(tmp_path / "data", [5])
    cache, size = IndexCache(tmp_path / "cache"), paths[0].stat().st_size
    indexed(paths, cache)
    make_shard(paths[0], [("a.jpg", b"1"), ("b.jpg", b"2")])
    os.truncate(paths[0], size)
    os.utime(paths[0], ns=(1, 1))
    assert [(each.origin, len(each.offsets)) for each in indexed(paths, cache)] == [("scan", 3)]


def test_an_empty_tar_has_no_samples_and_an_empty_file_is_an_error(tmp_path: Path) -> None:
    for name, size in (("a.tar", 1024), ("b.tar", 10240)):
        (tmp_path / name).write_bytes(bytes(size))
    make_shard(tmp_path / "c.tar", [("d/", b"")])
    assert [len(each.offsets) for each in indexed(sorted(tmp_path.glob("*.tar")))] == [1, 1, 1]
    (tmp_path / "d.tar").touch()
    with pytest.raises(TruncatedShardError, match="0 bytes") as caught:
        indexed([tmp_path / "c.tar", tmp_path / "d.tar"])
    assert caught.value.url == str(tmp_path / "d.tar")


def test_the_first_bad_shard_in_order_is_the_one_named(tmp_path: Path) -> None:
    paths, _ = shards(tmp_path, [2] * 12)
    for at in (4, 9):
        paths[at].write_bytes(b"<!DOCTYPE html>" * 100)
    with pytest.raises(NotATarError) as caught:
        indexed(paths)
    assert caught.value.url == str(paths[4])


def test_a_compressed_shard_cannot_be_indexed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz"):
        pass
    with pytest.raises(ShardError, match=r"cannot be indexed.*gunzip -k"):
        indexed([tmp_path / "a.tar.gz"])


def test_missing_shards_are_counted_and_named(tmp_path: Path) -> None:
    paths, _ = shards(tmp_path, [1, 1])
    with pytest.raises(ShardMissingError, match="7 of 9 shards do not exist") as caught:
        index.file_facts([str(path) for path in paths] + [str(tmp_path / f"no{at}.tar") for at in range(7)])
    assert "no0.tar" in str(caught.value)
    assert "no6.tar" not in str(caught.value)


def test_what_is_no_file_or_not_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a file"):
        index.file_facts([str(tmp_path)])
    with pytest.raises(UsageError, match="s3://"):
        index.file_facts(["s3://b/a.tar"])


def test_counts_of_others_are_compared_and_a_difference_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths, _ = shards(tmp_path, [5, 3, 2])
    (tmp_path / "sizes.json").write_text(json.dumps({"train-000000.tar": 5, "train-000001.tar": 4, "x": None}))
    (tmp_path / "train-000002_stats.json").write_text(json.dumps({"successes": 2, "count": 3}))
    expected = {"train-000000.tar": 5, "train-000001.tar": 4, "train-000002.tar": 2}
    assert index.read_counts(tmp_path) == expected
    with caplog.at_level(logging.WARNING):
        indexed(paths)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "train-000001.tar" in line
    assert "holds 3 samples" in line


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a.tar": "many"}'])
def test_damaged_counts_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "sizes.json").write_text(text)
    assert index.read_counts(tmp_path) == {}


@pytest.mark.parametrize("name", ["a.idx", "a.tar.idx", "sizes.json"])
def test_a_named_pipe_in_the_place_of_a_sidecar_is_passed_over(tmp_path: Path, name: str) -> None:
    make_shard(tmp_path / "a.tar", samples(0, 3))
    os.mkfifo(tmp_path / name)
    assert len(open_dataset(tmp_path / "a.tar", cache_dir=tmp_path / "cache")) == 3

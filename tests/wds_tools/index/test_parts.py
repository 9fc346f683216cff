"""Shards named without a listing, foreign listings, and several of them: opened all the same, as one dataset."""

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.wds_tools.made_shards import make_dataset, make_shard, samples
from wds_tools.dataset import Dataset, ShardRecord, open_dataset, write_listing
from wds_tools.errors import StaleIndexError, UsageError
from wds_tools.index import parts
from wds_tools.urls import Urls

Open = Callable[[Urls], Dataset]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda urls: open_dataset(urls, cache_dir=tmp_path / "cache")


def listed(
    folder: Path, counts: list[int], *, stem: str = "train", name: str = "dataset.json", **extra: object
) -> Path:
    rows = make_dataset(folder, counts, stem=stem)
    paths = sorted(folder.glob(f"{stem}-*.tar"))
    records = [
        ShardRecord(url=path.name, samples=len(row) - 1, bytes=path.stat().st_size, offsets=row)
        for path, row in zip(paths, rows, strict=True)
    ]
    write_listing(folder / name, records, name=stem, extra=extra)
    return folder / name


def kept(tmp_path: Path) -> int:
    """How many index files the cache holds: none while listings answer."""
    return sum(path.is_file() for path in (tmp_path / "cache").rglob("*"))


def rows(dataset: Dataset) -> list[list[int]]:
    ends = np.cumsum(dataset.counts + 1)
    return [row.tolist() for row in np.split(dataset.offsets, ends[:-1])]


def test_bare_shards_are_scanned_once(tmp_path: Path, opened: Open) -> None:
    expected = [row.tolist() for row in make_dataset(tmp_path / "data", [5, 0, 3])]
    for _ in range(2):
        dataset = opened(tmp_path / "data")
        assert rows(dataset) == expected
        assert (dict(dataset.listing), dataset.classes, dataset.shuffled, dataset.place) == ({}, None, None, None)
        assert kept(tmp_path) == 3
    assert rows(pickle.loads(pickle.dumps(dataset))) == expected


def test_a_large_set_of_bare_shards_is_mapped_from_the_cache(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_SMALL", 4)
    expected = [row.tolist() for row in make_dataset(tmp_path / "data", [5, 0, 3])]
    for _ in range(2):
        dataset = opened(tmp_path / "data")
        assert rows(dataset) == expected
        assert len(pickle.dumps(dataset)) < 1200
    for path in (tmp_path / "cache").rglob("set-*"):
        path.write_bytes(path.read_bytes()[:100])
    assert rows(opened(tmp_path / "data")) == expected
    assert rows(opened(tmp_path / "data")) == expected
    make_shard(tmp_path / "data" / "train-000001.tar", samples(0, 2))
    assert opened(tmp_path / "data").counts.tolist() == [5, 2, 3]


def test_the_listing_beside_the_shards_saves_the_scan(tmp_path: Path, opened: Open) -> None:
    listed(tmp_path / "data", [5, 4, 3, 2], classes=["a"])
    whole = rows(opened(tmp_path / "data"))
    for chosen in ([1, 2], [0, 1, 2, 3], [3, 0], [2, 1, 0], [0, 2, 3]):
        dataset = opened([f"{tmp_path}/data/train-{at:06d}.tar" for at in chosen])
        assert rows(dataset) == [whole[at] for at in chosen]
        assert dataset.classes == ("a",)  # of any of its shards
        assert rows(pickle.loads(pickle.dumps(dataset))) == rows(dataset)
    assert kept(tmp_path) == 0


def test_listings_of_other_names_are_found_beside_too(tmp_path: Path, opened: Open) -> None:
    listed(tmp_path / "data", [5], stem="train", name="train.json")
    listed(tmp_path / "data", [4, 1], stem="val", name="val.json")
    assert opened(f"{tmp_path}/data/val-*.tar").counts.tolist() == [4, 1]
    assert opened(tmp_path / "data" / "val.json").counts.tolist() == [4, 1]
    assert kept(tmp_path) == 0


def test_a_listing_beside_that_does_not_fit_is_passed_over(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    listed(tmp_path / "data", [5, 4])
    make_shard(tmp_path / "data" / "train-000001.tar", samples(0, 9))
    make_shard(tmp_path / "data" / "train-000002.tar", samples(0, 1))
    with caplog.at_level(logging.WARNING):
        assert opened(f"{tmp_path}/data/train-00000{{0,1}}.tar").counts.tolist() == [5, 9]
    assert caplog.text.count("passed over") == 1
    assert "bytes of 'train-000001.tar', which has" in caplog.text
    (tmp_path / "data" / "dataset.json").write_text("{")
    assert opened(f"{tmp_path}/data/*.tar").counts.tolist() == [5, 9, 1]


def foreign(folder: Path, counts: list[int], **changes: object) -> Path:
    """A listing as wids makes it."""
    make_dataset(folder, counts)
    paths = sorted(folder.glob("*.tar"))
    shards = [
        {"url": path.name, "nsamples": count, "filesize": path.stat().st_size, "md5sum": "0"} | changes
        for path, count in zip(paths, counts, strict=True)
    ]
    text = json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": "n", "shardlist": shards})
    (folder / "dataset.json").write_text(text)
    return folder / "dataset.json"


def test_a_listing_of_others_is_used_and_its_shards_are_indexed(tmp_path: Path, opened: Open) -> None:
    place = foreign(tmp_path / "data", [5, 3])
    dataset = opened(place)
    assert dataset.counts.tolist() == [5, 3]
    assert dataset.place == str(place)
    assert dataset.listing["name"] == "n"
    assert kept(tmp_path) == 2


@pytest.mark.parametrize(("changes", "problem"), [({"nsamples": 6}, "6 samples"), ({"filesize": 7}, "7 bytes")])
def test_a_listing_of_others_must_fit(tmp_path: Path, opened: Open, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(StaleIndexError, match=problem) as caught:
        opened(foreign(tmp_path / "data", [5, 3], **changes))
    assert "train-00000" in str(caught.value)


def test_several_datasets_are_one_in_the_order_given(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = listed(tmp_path / "one", [5, 4], classes=["a", "b"], shuffled=True)
    second = listed(tmp_path / "two", [3], classes=["a", "b"], shuffled=False)
    make_dataset(tmp_path / "bare", [2, 1])
    dataset = opened([first, tmp_path / "two"])
    assert dataset.counts.tolist() == [5, 4, 3]
    assert rows(dataset) == rows(opened(first)) + rows(opened(second))
    assert (dataset.classes, dataset.shuffled, dataset.place) == (("a", "b"), None, None)
    mixed = opened([f"{tmp_path}/bare/*.tar", second, f"{tmp_path}/one/train-000001.tar"])
    assert mixed.counts.tolist() == [2, 1, 3, 4]
    assert dict(mixed.listing) == {}
    monkeypatch.setattr(parts, "_SMALL", 4)
    for _ in range(2):
        again = opened([first, second])
        assert rows(again) == rows(dataset)
        assert rows(pickle.loads(pickle.dumps(again))) == rows(dataset)


def test_a_shard_in_two_of_them_is_an_error(tmp_path: Path, opened: Open) -> None:
    place = listed(tmp_path / "data", [5, 4])
    with pytest.raises(UsageError, match="twice") as caught:
        opened([place, f"{tmp_path}/data/train-000001.tar"])
    assert str(caught.value.url).endswith("train-000001.tar")


def test_without_a_cache_directory_all_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_SMALL", 4)
    (tmp_path / "file").touch()
    expected = [row.tolist() for row in make_dataset(tmp_path / "data", [5, 3])]
    dataset = open_dataset(tmp_path / "data", cache_dir=tmp_path / "file")
    assert rows(dataset) == expected
    assert rows(pickle.loads(pickle.dumps(dataset))) == expected


def test_a_listing_beside_of_other_shards_is_passed_over_in_silence(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    listed(tmp_path / "data", [5, 4])
    make_shard(tmp_path / "data" / "other.tar", samples(0, 1))
    with caplog.at_level(logging.WARNING):
        assert opened(tmp_path / "data" / "other.tar").counts.tolist() == [1]
        assert opened(f"{tmp_path}/data/{{train-000000,other}}.tar").counts.tolist() == [5, 1]
    assert not caplog.records

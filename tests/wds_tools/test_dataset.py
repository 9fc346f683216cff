"""A dataset: opened from a listing in constant time, located in any order, pickled small, checked at each step."""

import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.made_shards import make_dataset, make_shard, samples
from wds_tools import shard
from wds_tools.dataset import Dataset, ShardRecord, open_dataset, write_listing
from wds_tools.errors import ListingError, StaleIndexError, UsageError
from wds_tools.sources.resolve import open_source

COUNTS = [5, 0, 1, 12]


def listed(folder: Path, counts: list[int], **extra: object) -> Path:
    rows = make_dataset(folder, counts)
    paths = sorted(folder.glob("train-*.tar"))
    records = [
        ShardRecord(url=path.name, samples=len(row) - 1, bytes=path.stat().st_size, offsets=row)
        for path, row in zip(paths, rows, strict=True)
    ]
    write_listing(folder / "dataset.json", records, name="train", extra=extra)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return listed(tmp_path / "data", COUNTS, classes=["cat", "dog"], shuffled=True, fields={"jpg": 18})


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return open_dataset(folder, cache_dir=folder.parent / "cache")


def keys(dataset: Dataset, ids: list[int]) -> list[str]:
    """The keys of the samples at these places, read from the shards."""
    found = []
    for at, begin, end in zip(*dataset.locate(ids), strict=True):
        with open_source(dataset.urls[at]) as source:
            dataset.check_shard(int(at), source)
            buffer = bytearray(int(end - begin))
            source.read_into(int(begin), memoryview(buffer))
        found.append(shard.parse_sample(memoryview(buffer), url=dataset.urls[at], offset=int(begin))["__key__"])
    return found


def test_the_facts(dataset: Dataset, folder: Path) -> None:
    assert len(dataset) == 18
    assert list(dataset.urls) == [str(folder / f"train-{at:06d}.tar") for at in range(4)]
    assert dataset.counts.tolist() == COUNTS
    assert dataset.starts.tolist() == [0, 5, 5, 6, 18]
    assert dataset.sizes.tolist() == [os.path.getsize(url) for url in dataset.urls]
    assert dataset.offsets.shape == (22,)
    assert dataset.offsets.dtype == np.uint64
    assert dataset.classes == ("cat", "dog")
    assert dataset.shuffled is True
    assert dataset.listing["fields"] == {"jpg": 18}
    assert dataset.place == str(folder / "dataset.json")
    assert repr(dataset) == f"<Dataset 18 samples in 4 shards, {sum(dataset.sizes.tolist()):,} bytes>"


def test_each_sample_lies_where_it_is_said_to(dataset: Dataset) -> None:
    ids = [17, 0, 5, 4, 6, 4]
    assert keys(dataset, ids) == [f"{at:05d}" for at in ids]
    assert keys(dataset, list(range(18))) == [f"{at:05d}" for at in range(18)]


def test_samples_fill_their_shards(dataset: Dataset) -> None:
    at, begin, end = dataset.locate(np.arange(18))
    assert {str(each.dtype) for each in (at, begin, end)} == {"int64"}
    inside = at[1:] == at[:-1]
    np.testing.assert_array_equal(begin[1:][inside], end[:-1][inside])


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=12), data=st.data())
def test_located_as_by_a_loop(tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject) -> None:
    place = tmp_path_factory.mktemp("d") / "dataset.json"
    rng = np.random.default_rng(sum(counts))
    rows = [np.cumsum(rng.integers(1, 9, count + 1)).astype(np.uint64) * np.uint64(512) for count in counts]
    records = [
        ShardRecord(url=f"{at}.tar", samples=len(row) - 1, bytes=int(row[-1]) + 1024, offsets=row)
        for at, row in enumerate(rows)
    ]
    write_listing(place, records, name="n", durable=False)
    dataset = open_dataset(place)
    places = [(at, int(row[i]), int(row[i + 1])) for at, row in enumerate(rows) for i in range(len(row) - 1)]
    ids = data.draw(st.lists(st.integers(0, len(places) - 1), max_size=40)) if places else []
    assert list(zip(*(each.tolist() for each in dataset.locate(ids)), strict=True)) == [places[i] for i in ids]


@pytest.mark.parametrize("ids", [[18], [-1], [0, 99]])
def test_a_number_outside(dataset: Dataset, ids: list[int]) -> None:
    with pytest.raises(UsageError, match="18"):
        dataset.locate(ids)


def test_nobody_changes_it(dataset: Dataset) -> None:
    for array in (dataset.counts, dataset.sizes, dataset.starts, dataset.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_pickle_is_small_and_maps_the_offsets_again(tmp_path: Path) -> None:
    listed(tmp_path, [400, 300])
    dataset = open_dataset(tmp_path)
    data = pickle.dumps(dataset)
    assert len(data) < 1500
    again = pickle.loads(data)
    assert list(again.urls) == list(dataset.urls)
    assert (again.listing, again.place) == (dataset.listing, dataset.place)
    for one, other in zip(again.locate([699, 0]), dataset.locate([699, 0]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_spawned_process_may_have_another_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    data = pickle.dumps(open_dataset("data/dataset.json"))
    monkeypatch.chdir("/")
    assert keys(pickle.loads(data), [17]) == ["00017"]


def test_a_shard_of_another_size_is_named_when_it_is_opened(dataset: Dataset, folder: Path) -> None:
    make_shard(folder / "train-000003.tar", samples(0, 30))
    with open_source(dataset.urls[3]) as source:
        with pytest.raises(StaleIndexError, match=r"wds index --force .*dataset\.json") as caught:
            dataset.check_shard(3, source)
        assert caught.value.url == dataset.urls[3]
        assert f"{source.size():,}" in str(caught.value)
        assert f"{dataset.sizes[3]:,}" in str(caught.value)


def test_offsets_of_another_listing_are_refused(folder: Path, tmp_path: Path) -> None:
    other = listed(tmp_path / "other", [5, 0, 1, 11])
    same = listed(tmp_path / "same", COUNTS)
    offsets = np.load(same / "dataset.offsets.npy")
    good = (folder / "dataset.offsets.npy").read_bytes()
    (folder / "dataset.offsets.npy").write_bytes((other / "dataset.offsets.npy").read_bytes())
    with pytest.raises(StaleIndexError, match="21 numbers, 22 expected") as caught:
        open_dataset(folder)
    assert "wds index --force" in str(caught.value)
    np.save(folder / "dataset.offsets.npy", offsets + np.uint64(512) * (np.arange(22) == 0))
    with pytest.raises(StaleIndexError, match="another listing"):
        open_dataset(folder)
    np.save(folder / "dataset.offsets.npy", offsets * np.uint64(100))
    with pytest.raises(StaleIndexError, match=r"train-000000\.tar"):
        open_dataset(folder)
    (folder / "dataset.offsets.npy").unlink()
    with pytest.raises(StaleIndexError, match="missing"):
        open_dataset(folder)
    (folder / "dataset.offsets.npy").write_bytes(good)
    assert len(open_dataset(folder)) == 18


def test_damage_inside_the_offsets_is_found_when_the_sample_is_located(folder: Path) -> None:
    offsets = np.load(folder / "dataset.offsets.npy")
    offsets[2] = offsets[3]
    np.save(folder / "dataset.offsets.npy", offsets)
    dataset = open_dataset(folder)
    dataset.locate([0, 3, 17])
    with pytest.raises(StaleIndexError, match="lies from"):
        dataset.locate([0, 2])


def test_a_listing_whose_offsets_name_no_sizes(folder: Path) -> None:
    text = (folder / "dataset.json").read_text().replace('"filesize"', '"bytes"')
    (folder / "dataset.json").write_text(text)
    with pytest.raises(ListingError, match="filesize"):
        open_dataset(folder)


def test_offsets_of_an_interrupted_writing_are_not_taken_for_the_old_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Killed between the two renames: new offsets beside the old listing.
    from wds_tools.index import listing

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    row = np.arange(19, dtype=np.uint64) * np.uint64(512)
    record = ShardRecord(url="train-000000.tar", samples=18, bytes=99999, offsets=row)
    monkeypatch.setattr(listing, "write_atomic", stop)
    with pytest.raises(KeyboardInterrupt):
        write_listing(folder / "dataset.json", [record], name="n")
    with pytest.raises(StaleIndexError):
        open_dataset(folder)


def synthetic(folder: Path, shards: int, each: int) -> Path:
    row = np.arange(each + 1, dtype=np.uint64) * np.uint64(107_520)
    records = [
        ShardRecord(url=f"train-{at:06d}.tar", samples=each, bytes=int(row[-1]) + 1024, offsets=row)
        for at in range(shards)
    ]
    write_listing(folder / "dataset.json", records, name="train", durable=False)
    return folder / "dataset.json"


def test_twenty_thousand_shards_cost_no_objects_per_sample(tmp_path: Path) -> None:
    place = synthetic(tmp_path, 20_000, 50)
    open_dataset(synthetic(tmp_path, 1, 1))  # what is imported on first use
    place = synthetic(tmp_path, 20_000, 50)
    tracemalloc.start()
    dataset = open_dataset(place)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset) == 1_000_000
    assert kept < 4_000_000
    assert peak < 60_000_000
    assert len(pickle.dumps(dataset)) < 3_000_000


@pytest.mark.long
def test_twenty_million_samples_stay_on_disk(tmp_path: Path) -> None:
    code = """
import sys
from wds_tools.dataset import open_dataset
import numpy as np
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
before = anonymous()
dataset = open_dataset(sys.argv[1])
for _ in range(100):
    dataset.locate(np.random.default_rng(0).integers(0, len(dataset), 1024))
print(len(dataset), anonymous() - before)
"""
    place = synthetic(tmp_path, 20_000, 1000)
    done = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, text=True, check=True)
    count, kib = map(int, done.stdout.split())
    assert count == 20_000_000
    assert kib < 80_000

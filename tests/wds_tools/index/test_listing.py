"""dataset.json: what is written reads back, others read it, what others wrote is read, and damage is named."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.wds_tools.made_shards import make_dataset
from wds_tools.errors import ListingError, ShardMissingError, UsageError
from wds_tools.index.listing import Listing, ShardRecord, parse_listing, read_listing, write_listing


def record(url: str, samples: int, **more: Any) -> ShardRecord:
    row = np.arange(samples + 1, dtype=np.uint64) * np.uint64(1024)
    return ShardRecord(url=url, samples=samples, bytes=samples * 1024 + 1024, offsets=row, **more)


def listed(folder: Path, counts: list[int]) -> Path:
    rows = make_dataset(folder, counts)
    records = [
        ShardRecord(url=path.name, samples=len(row) - 1, bytes=path.stat().st_size, offsets=row)
        for path, row in zip(sorted(folder.glob("*.tar")), rows, strict=True)
    ]
    write_listing(folder / "dataset.json", records, name="train", extra={"classes": ["cat", "dog"], "shuffled": True})
    return folder / "dataset.json"


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    records = [record("a.tar", 3, checksum="sha256:00"), record("sub/b.tar", 0), record("/abs/c.tar", 2)]
    write_listing(tmp_path / "train.json", records, name="n", extra={"fields": {"jpg": 5}, "classes": ["é", "b"]})
    listing = read_listing(str(tmp_path / "train.json"))
    assert listing.urls == [str(tmp_path / "a.tar"), str(tmp_path / "sub/b.tar"), "/abs/c.tar"]
    assert listing.counts.tolist() == [3, 0, 2]
    assert listing.sizes.tolist() == [4096, 1024, 3072]
    assert listing.offsets == str(tmp_path / "train.offsets.npy")
    assert listing.facts["classes"] == ["é", "b"]
    assert listing.facts["fields"] == {"jpg": 5}
    assert "shardlist" not in listing.facts
    np.testing.assert_array_equal(np.load(listing.offsets), np.concatenate([each.offsets for each in records]))
    assert sorted(os.listdir(tmp_path)) == ["train.json", "train.offsets.npy"]


def test_the_bytes_depend_on_the_content_alone(tmp_path: Path) -> None:
    texts = []
    for extra in ({"b": 1, "a": {"y": 1, "x": 2}}, {"a": {"x": 2, "y": 1}, "b": 1}):
        write_listing(tmp_path / "dataset.json", [record("a.tar", 2)], name="n", extra=extra)
        texts.append((tmp_path / "dataset.json").read_bytes() + (tmp_path / "dataset.offsets.npy").read_bytes())
    assert texts[0] == texts[1]


def test_names_that_are_no_utf8_survive(tmp_path: Path) -> None:
    write_listing(tmp_path / "dataset.json", [record("\udce9 'q'\n.tar", 1)], name="\udce9")
    (tmp_path / "dataset.json").read_bytes().decode("ascii")
    assert read_listing(str(tmp_path / "dataset.json")).urls == [f"{tmp_path}/\udce9 'q'\n.tar"]


@pytest.mark.parametrize(
    ("records", "extra", "problem"),
    [
        ([], {}, "without shards"),
        ([("a.tar", 1), ("a.tar", 2)], {}, "twice"),
        ([("a.tar", 1)], {"shardlist": []}, "shardlist"),
        ([("a.tar", 1)], {"x": float("nan")}, "JSON"),
        ([("a.tar", 1)], {"x": {1, 2}}, "JSON"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, records: list[tuple[str, int]], extra: dict[str, object], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        write_listing(tmp_path / "dataset.json", [record(*each) for each in records], name="n", extra=extra)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "row",
    [
        np.array([0, 512], np.uint64),
        np.array([0, 0, 9], np.uint64),
        np.array([0, 1, 9999], np.uint64),
        np.array([0, 1, 2]),
    ],
)
def test_a_record_whose_offsets_do_not_fit(row: Any) -> None:
    with pytest.raises(UsageError, match="2 samples in 2048 bytes"):
        ShardRecord(url="a.tar", samples=2, bytes=2048, offsets=row)


def elsewhere(code: str, *arguments: str) -> str:
    """Run in another process: webdataset and wids leave files open, which is a failure here."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def test_webdataset_reads_the_shards_of_a_listing(tmp_path: Path) -> None:
    code = """
import sys, webdataset
for sample in webdataset.WebDataset(sys.argv[1:], shardshuffle=False, empty_check=False):
    print(sample["__key__"], int(sample["cls"]))
"""
    found = elsewhere(code, *read_listing(str(listed(tmp_path, [3, 2]))).urls)
    assert found.splitlines() == ["00000 0", "00001 1", "00002 2", "00003 3", "00004 4"]


@pytest.mark.skipif(importlib.util.find_spec("wids") is None, reason="webdataset comes with wids up to 0.2 only")
def test_wids_reads_it(tmp_path: Path) -> None:
    code = """
import sys, wids
found = wids.ShardListDataset(sys.argv[1], cache_dir=sys.argv[2], transformations=[], keep=True)
print(len(found), [int(found[at][".cls"].read()) for at in (4, 0, 2)])
"""
    found = elsewhere(code, str(listed(tmp_path / "data", [3, 2])), str(tmp_path / "cache"))
    assert found == "5 [4, 0, 2]\n"


def test_the_listing_has_what_wids_asks_for(tmp_path: Path) -> None:
    facts = json.loads(listed(tmp_path, [3, 2]).read_bytes())
    assert (facts["__kind__"], facts["wids_version"]) == ("wids-shard-index-v1", 1)
    assert [(each["url"], each["nsamples"]) for each in facts["shardlist"]] == [
        ("train-000000.tar", 3),
        ("train-000001.tar", 2),
    ]
    assert [each["filesize"] for each in facts["shardlist"]] == [
        (tmp_path / each["url"]).stat().st_size for each in facts["shardlist"]
    ]


def parse(facts: Any, fetch: Callable[[str], bytes] | None = None) -> Listing:
    return parse_listing(json.dumps(facts).encode(), "/d/dataset.json", fetch=fetch)


def test_listings_made_by_wids() -> None:
    shards = [{"url": "b.tar", "nsamples": 2, "filesize": 9, "md5sum": "0"}, {"url": "http://h/a.tar", "nsamples": 3}]
    listing = parse({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards})
    assert listing.urls == ["/d/b.tar", "http://h/a.tar"]
    assert listing.counts.tolist() == [2, 3]
    assert listing.sizes.tolist() == [9, -1]
    assert (listing.offsets, listing.crc) == (None, None)


@pytest.mark.parametrize(
    ("base", "expected"),
    [("sub", "/d/sub/a.tar"), ("/e/", "/e/a.tar"), ("http://h/x", "http://h/x/a.tar"), ("", "/d/a.tar")],
)
def test_a_base_moves_relative_urls(base: str, expected: str) -> None:
    facts = {"wids_version": 1, "base": base, "shardlist": [{"url": "a.tar", "nsamples": 1}]}
    assert parse(facts).urls == [expected]


def test_several_datasets_come_in_order() -> None:
    def part(url: str) -> dict[str, Any]:
        return {"shardlist": [{"url": url, "nsamples": 1}], "weight": 2.0}

    other = json.dumps({"wids_version": 1} | part("c.tar")).encode()
    asked = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return other

    facts = {"wids_version": 1} | part("a.tar") | {"datasets": [part("b.tar"), {"source_url": "o/l.json"}]}
    assert parse(facts, fetch).urls == ["/d/a.tar", "/d/b.tar", "/d/o/c.tar"]
    assert asked == ["/d/o/l.json"]


GOOD = {"url": "a.tar", "nsamples": 1}


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ([], "no.* object"),
        ({"shardlist": [GOOD]}, "wids_version"),
        ({"wids_version": 2, "shardlist": [GOOD]}, "says 2"),
        ({"wids_version": 1}, "no shards"),
        ({"wids_version": 1, "shardlist": {}}, "no list"),
        ({"wids_version": 1, "shardlist": [GOOD, "b.tar"]}, "shard 1 .*no object"),
        ({"wids_version": 1, "shardlist": [{"nsamples": 1}]}, "shard 0 .*no url"),
        ({"wids_version": 1, "shardlist": [GOOD, {"url": 5, "nsamples": 1}]}, "shard 1 .*no url"),
        ({"wids_version": 1, "shardlist": [{"url": "a.tar"}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": -1}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": 1.5}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": None}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": [10]}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"filesize": [3]}]}, "no number of bytes"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": 1 << 62}]}, "more than any dataset"),
        ({"wids_version": 1, "shardlist": [GOOD | {"nsamples": 10**30}]}, "no number of samples"),
        ({"wids_version": 1, "shardlist": [GOOD | {"filesize": "9"}]}, "filesize"),
        ({"wids_version": 1, "datasets": "x"}, "datasets"),
    ],
)
def test_damage_is_named_with_the_place(facts: Any, problem: str) -> None:
    with pytest.raises(ListingError, match=problem) as caught:
        parse(facts)
    assert caught.value.url == "/d/dataset.json"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"wids_version": 1, "shardl'])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(ListingError, match="JSON"):
        parse_listing(data, "/d/dataset.json")


def test_a_listing_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ShardMissingError):
        read_listing(str(tmp_path / "dataset.json"))

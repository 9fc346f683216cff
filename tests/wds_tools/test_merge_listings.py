import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import picture, write_labels, write_shard
from wds_tools.dataset import open_dataset
from wds_tools.errors import ListingError, NoShardsError, TargetError, UsageError
from wds_tools.index.listing import ShardRecord, write_listing
from wds_tools.make_index import make_index
from wds_tools.merge_listings import merge_listings
from wds_tools.shard import scan
from wds_tools.sources import fsspec
from wds_tools.sources.local import LocalFile
from wds_tools.sources.options import Remote
from wds_tools.tally import Tally


def part(folder: Path, number: int, parts: int, samples: int, **more: Any) -> Path:
    """One part with its listing, as packing leaves it, made by other means."""
    tally, rows = Tally(), []
    for index in range(samples):
        fields = {"jpg": picture(index, width=20 + number), "cls": str(number).encode()}
        rows.append((f"{number}/{index}", fields))
        tally.add(fields.items())
    records = []
    if samples:
        shard = write_shard(folder / f"s-{number}-of-{parts}-000000.tar", rows)
        with LocalFile(str(shard)) as source:
            found = scan(source)
        record = ShardRecord(url=shard.name, samples=samples, bytes=found.size, offsets=found.offsets)
        records = [dataclasses.replace(record, checksum=f"xxh3:{number}")]
    path = folder / f"s-{number}-of-{parts}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    extra = {"part": [number, parts], "tally": tally.state(), "classes": ["a"], "shuffled": True} | tally.facts() | more
    write_listing(path, records, name="s", extra=extra, empty=True)
    return path


def facts(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.fixture
def parts(tmp_path: Path) -> Callable[..., list[Path]]:
    return lambda *samples, **more: [
        part(tmp_path, number, len(samples), count, **more) for number, count in enumerate(samples)
    ]


def test_parts_are_joined_in_the_order_of_their_numbers(tmp_path: Path, parts: Callable[..., list[Path]]) -> None:
    made = merge_listings(parts(3, 2, 4)[::-1])
    assert (made.listing, made.parts, made.shards, made.samples) == (tmp_path / "dataset.json", 3, 3, 9)
    dataset = open_dataset(made.listing)
    assert [Path(url).name for url in dataset.urls] == [f"s-{number}-of-3-000000.tar" for number in range(3)]
    assert dataset.counts.tolist() == [3, 2, 4]
    assert (dataset.classes, dataset.shuffled) == (("a",), True)
    assert (tmp_path / "classes.txt").read_text() == "a\n"


def test_the_joined_listing_counts_what_all_parts_hold(tmp_path: Path, parts: Callable[..., list[Path]]) -> None:
    found = facts(Path(merge_listings(parts(3, 2, failed={"truncated": 2})).listing))
    assert found["fields"] == {"cls": 5, "jpg": 5}
    assert found["labels"] == {"cls": {"0": 3, "1": 2}}
    assert found["pictures"]["jpg"]["width"] == {"min": 20, "median": 20, "max": 21}
    assert found["failed"] == {"truncated": 4}
    assert found["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert [shard["checksum"] for shard in found["shardlist"]] == ["xxh3:0", "xxh3:1"]
    assert not {"part", "tally"} & set(found)


def test_a_part_of_which_nothing_was_packed_is_no_missing_part(parts: Callable[..., list[Path]]) -> None:
    made = merge_listings(parts(3, 0, 2))
    assert (made.parts, made.shards) == (3, 2)
    with pytest.raises(ListingError, match="names no shards"):
        open_dataset(Path(made.listing).with_name("s-1-of-3.json"))


def test_missing_parts_are_named(parts: Callable[..., list[Path]]) -> None:
    with pytest.raises(UsageError, match="2 of 4 parts are missing: 1, 3"):
        merge_listings(parts(1, 1, 1, 1)[::2])


def test_a_part_that_comes_twice_is_refused(parts: Callable[..., list[Path]]) -> None:
    with pytest.raises(UsageError, match="part 0 of 2 is given twice"):
        merge_listings([parts(1, 1)[0]] * 2)


def test_parts_of_other_runs_are_refused_and_the_difference_named(tmp_path: Path) -> None:
    one = part(tmp_path, 0, 2, 1, seed=1)
    with pytest.raises(UsageError, match="parts of different runs: classes, seed differ"):
        merge_listings([one, part(tmp_path, 1, 2, 1, seed=2, classes=["b"])])
    with pytest.raises(UsageError, match="parts of 2 and of 3"):
        merge_listings([one, part(tmp_path, 1, 3, 1)])


def test_a_listing_that_is_there_is_replaced_only_when_asked(parts: Callable[..., list[Path]]) -> None:
    listings = parts(1, 1)
    first = Path(merge_listings(listings).listing).read_bytes()
    with pytest.raises(TargetError, match="--force"):
        merge_listings(listings)
    assert Path(merge_listings(listings, force=True).listing).read_bytes() == first


def test_an_empty_folder_is_not_the_current_one(parts: Callable[..., list[Path]]) -> None:
    with pytest.raises(UsageError, match="out is empty"):
        merge_listings(parts(1, 1), out="")


def test_other_listings_are_joined_as_they_are_given(tmp_path: Path) -> None:
    for name, counts in (("b", [2, 3]), ("a", [4])):
        write_labels(tmp_path / name, counts)
        make_index(str(tmp_path / name))
    made = merge_listings([tmp_path / "b/dataset.json", tmp_path / "a/dataset.json"], out=tmp_path)
    dataset = open_dataset(made.listing)
    assert dataset.counts.tolist() == [2, 3, 4]
    assert [Path(url).parent.name for url in dataset.urls] == ["b", "b", "a"]
    assert facts(Path(made.listing))["fields"] == {"cls": 9}
    assert facts(Path(made.listing))["shardlist"][0]["url"] == "b/s-0000.tar"


def test_reports_and_originals_of_parts_are_joined_in_their_order(
    tmp_path: Path, parts: Callable[..., list[Path]]
) -> None:
    listings = [
        part(tmp_path, number, 3, 1, failed={"damaged": 1} if number != 1 else {}, originals=f"s-{number}.keys.tsv")
        for number in range(3)
    ]
    for number in range(3):
        (tmp_path / f"s-{number}.keys.tsv").write_text(f"{number}\tname-{number}\n")
        if number != 1:
            (tmp_path / f"s-{number}-of-3.failures.jsonl").write_text(f'{{"path": "{number}"}}\n')
    made = merge_listings(listings[::-1])
    assert (tmp_path / "failures.jsonl").read_text() == '{"path": "0"}\n{"path": "2"}\n'
    assert (tmp_path / "s.keys.tsv").read_text() == "0\tname-0\n1\tname-1\n2\tname-2\n"
    assert facts(Path(made.listing))["originals"] == "s.keys.tsv"
    mended = parts(1, 1)
    assert merge_listings(mended, force=True).samples == 2
    assert not (tmp_path / "failures.jsonl").exists()


def test_a_report_that_is_gone_is_said(
    tmp_path: Path, parts: Callable[..., list[Path]], caplog: pytest.LogCaptureFixture
) -> None:
    merge_listings(parts(1, 1, failed={"damaged": 1}))
    assert "s-0-of-2.failures.jsonl is gone" in caplog.text
    assert (tmp_path / "failures.jsonl").read_bytes() == b""


def test_parts_of_other_inputs_are_refused_by_their_run(tmp_path: Path) -> None:
    listings = [part(tmp_path, number, 2, 1, run=f"run {number}") for number in range(2)]
    with pytest.raises(UsageError, match="different runs: run differ"):
        merge_listings(listings)
    listings[1] = part(tmp_path, 1, 2, 1, run="run 0")
    assert "run" not in facts(Path(merge_listings(listings).listing))


def stored(folder: Path, base: str) -> None:
    """The files of a folder, put into a store."""
    for path in sorted(folder.iterdir()):
        fsspec.put(f"{base}/{path.name}", path)


def test_parts_in_a_store_are_joined_there(tmp_path: Path, parts: Callable[..., list[Path]]) -> None:
    base = "memory://merge/parts"
    parts(3, 0, 2, failed={"damaged": 1})
    (tmp_path / "s-2-of-3.failures.jsonl").write_bytes(b"{}\n")
    stored(tmp_path, base)
    made = merge_listings([f"{base}/s-*-of-3.json"])
    assert (made.listing, made.parts, made.samples) == (f"{base}/dataset.json", 3, 5)
    dataset = open_dataset(str(made.listing))
    assert list(dataset.urls) == [f"{base}/s-{number}-of-3-000000.tar" for number in (0, 2)]
    with fsspec.open_fsspec(str(made.listing), Remote()) as source:
        text = bytearray(source.size())
        source.read_into(0, memoryview(text))
    assert [shard["url"] for shard in json.loads(text)["shardlist"]] == [
        f"s-{number}-of-3-000000.tar" for number in (0, 2)
    ]
    assert {"failures.jsonl", "classes.txt", "dataset.offsets.npy"} <= set(fsspec.names(f"{base}/"))
    with pytest.raises(TargetError, match="--force"):
        merge_listings([f"{base}/s-{{0..2}}-of-3.json"])
    here = merge_listings([f"{base}/s-{{0..2}}-of-3.json"], out=tmp_path / "here")
    assert list(open_dataset(here.listing).urls) == list(dataset.urls)


def test_a_listing_in_a_store_lists_no_shards_of_this_machine(parts: Callable[..., list[Path]]) -> None:
    with pytest.raises(UsageError, match="cannot list shards of this machine"):
        merge_listings(parts(1, 1), out="memory://merge/here")
    with pytest.raises(UsageError, match="a web server takes no files"):
        merge_listings(parts(1, 1), out="http://host/here")


def test_a_pattern_that_matches_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoShardsError, match="no listing matches"):
        merge_listings([f"{tmp_path}/x-*-of-3.json"])


def test_what_cannot_be_joined_is_refused(tmp_path: Path, parts: Callable[..., list[Path]]) -> None:
    with pytest.raises(UsageError, match="no listings"):
        merge_listings([])
    write_labels(tmp_path / "whole", [1])
    make_index(str(tmp_path / "whole"))
    with pytest.raises(UsageError, match="the listing of no part, others are"):
        merge_listings([parts(1)[0], tmp_path / "whole/dataset.json"])
    with pytest.raises(UsageError, match="one of the listings to be joined"):
        merge_listings([tmp_path / "whole/dataset.json"])
    with pytest.raises(UsageError, match="none of the listings has a shard"):
        merge_listings(parts(0))
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(ListingError, match="not a JSON object"):
        merge_listings([tmp_path / "bad.json"])

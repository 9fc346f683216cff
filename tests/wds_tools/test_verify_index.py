"""What listings and sidecars say, held against the shards."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from tests.builders import write_labels, write_pictures, write_shard
from wds_tools.make_index import make_index
from wds_tools.verify import Verification, verify


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_labels(tmp_path, [4, 6])
    make_index(tmp_path, dali=True, energon=True)
    return tmp_path


def kinds(result: Verification) -> list[tuple[str, str | None]]:
    return [(each.kind, Path(each.url or "").name) for each in result.problems]


def change(folder: Path, **facts: Any) -> None:
    """Change what the listing says of its second shard."""
    path = folder / "dataset.json"
    listing = json.loads(path.read_text())
    listing["shardlist"][1].update(facts)
    path.write_text(json.dumps(listing))


def test_what_fits_is_no_problem_named_by_folder_listing_or_shard(folder: Path) -> None:
    for urls in (folder, folder / "dataset.json", folder / "s-0001.tar", [str(folder / "s-000{1,0}.tar")]):
        assert verify(urls).problems == []


def test_a_shard_of_another_size_or_count_is_stale(folder: Path) -> None:
    change(folder, filesize=1)
    assert kinds(verify(folder)) == [("StaleIndexError", "s-0001.tar")]
    write_labels(folder, [4, 7])
    problems = verify(folder / "s-0001.tar").problems
    assert all(each.kind == "StaleIndexError" for each in problems)
    assert any("6 samples, the shard has 7" in each.problem for each in problems)
    assert all("wds index --force" in (each.cure or "") for each in problems if each.url and each.url.endswith(".tar"))


def test_offsets_that_place_samples_elsewhere_are_stale(folder: Path) -> None:
    path = folder / "dataset.offsets.npy"
    offsets = np.load(path)
    offsets[7] += 512
    np.save(path, offsets)
    assert kinds(verify(folder)) == [("StaleIndexError", "s-0001.tar")]


def test_offsets_of_another_length_or_none_are_a_problem_of_the_listing(folder: Path) -> None:
    np.save(folder / "dataset.offsets.npy", np.zeros(3, np.uint64))
    assert "StaleIndexError" in {kind for kind, _ in kinds(verify(folder / "s-0000.tar"))}
    (folder / "dataset.offsets.npy").unlink()
    assert "StaleIndexError" in {kind for kind, _ in kinds(verify(folder))}


@pytest.mark.parametrize("kind", ["sha256", "md5", "xxh3"])
def test_checksums_are_compared(folder: Path, kind: str) -> None:
    data = (folder / "s-0001.tar").read_bytes()
    digest = xxhash.xxh3_64(data).hexdigest() if kind == "xxh3" else hashlib.new(kind, data).hexdigest()
    name, value = ("md5sum", digest) if kind == "md5" else ("checksum", f"{kind}:{digest}")
    change(folder, **{name: value})
    assert verify(folder).problems == []
    change(folder, **{name: value[:-1] + ("0" if value[-1] != "0" else "1")})
    (problem,) = verify(folder).problems
    assert digest in problem.problem


def test_an_unknown_checksum_is_not_passed_over(folder: Path) -> None:
    change(folder, checksum="crc99:00")
    (problem,) = verify(folder).problems
    assert "crc99" in problem.problem


def test_sidecars_that_do_not_fit_are_problems(folder: Path) -> None:
    (folder / "s-0001.idx").write_text((folder / "s-0000.idx").read_text())
    (folder / "s-0000.tar.idx").write_bytes(b"odd")
    assert sorted(kinds(verify(folder))) == [("ListingError", "s-0000.tar.idx"), ("StaleIndexError", "s-0001.idx")]


def test_a_listing_that_is_damaged_is_a_problem_and_the_shards_beside_are_read(folder: Path) -> None:
    (folder / "dataset.json").write_text("{")
    result = verify(str(folder / "*.tar"))
    assert kinds(result) == [("ListingError", "dataset.json")]
    assert result.samples == 10
    assert kinds(verify(folder)) == [("ListingError", "dataset.json")]


def test_compressed_shards_are_read_and_have_no_index(tmp_path: Path) -> None:
    plain = write_shard(tmp_path / "a.tar", [("a", {"cls": b"1"})])
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(plain.read_bytes()))
    result = verify([plain, tmp_path / "b.tar.gz"])
    assert (result.problems, result.samples) == ([], 2)


def recount(folder: Path, **facts: Any) -> None:
    """Change what the listing says of the whole."""
    path = folder / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"samples": 11}, "the listing says 11 samples, the shards have 10"),
        ({"fields": {"cls": 9}}, "the listing says fields cls: 9, the shards have 10"),
        ({"fields": {"cls": 10, "jpg": 3}}, "the listing says fields jpg: 3, the shards have 0"),
        ({"labels": {"cls": {str(n): 1 for n in range(9)}}}, "the listing says labels cls 9: 0, the shards have 1"),
    ],
)
def test_what_a_listing_counts_is_compared_with_all_of_its_shards(
    folder: Path, facts: dict[str, Any], problem: str
) -> None:
    recount(folder, **facts)
    (found,) = verify(folder).problems
    assert (found.problem, found.url) == (problem, str(folder / "dataset.json"))
    assert verify(folder / "s-0001.tar").problems == []  # one shard says nothing of the whole


def test_the_sizes_of_pictures_are_compared_where_pictures_are_decoded(tmp_path: Path) -> None:
    write_pictures(tmp_path, [3], width=40)
    make_index(tmp_path)
    recount(tmp_path, pictures={"jpg": {"width": {"min": 40, "median": 41, "max": 40}}})
    assert verify(tmp_path).problems == []
    problems = [each.problem for each in verify(tmp_path, decode=True).problems]
    assert "the listing says pictures jpg width median: 41, the shards have 40" in problems


def test_a_listing_is_not_blamed_for_a_shard_that_is_damaged(folder: Path) -> None:
    data = (folder / "s-0001.tar").read_bytes()
    (folder / "s-0001.tar").write_bytes(data[:1024])
    problems = verify(folder).problems
    assert problems
    assert str(folder / "dataset.json") not in {each.url for each in problems}

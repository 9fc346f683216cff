"""make_index: the listing beside foreign shards, kept where it fits, replaced only when told to."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.builders import write_labels, write_shard, write_tar
from wds_tools.dataset import open_dataset
from wds_tools.errors import GroupingError, ListingError, TargetError, TruncatedShardError
from wds_tools.make_index import make_index


def test_the_offsets_are_those_of_the_archives(tmp_path: Path) -> None:
    write_labels(tmp_path, [3, 5])
    moved: list[int] = []
    (made,) = make_index(tmp_path, advance=moved.append)
    assert (made.listing, made.made, made.shards, made.samples) == (tmp_path / "dataset.json", True, 2, 8)
    assert sum(moved) == 2
    expected = []
    for shard in sorted(tmp_path.glob("*.tar")):
        with tarfile.open(shard) as archive:
            members = archive.getmembers()
            expected += [member.offset for member in members] + [members[-1].offset_data + 512]
    assert np.load(tmp_path / "dataset.offsets.npy").tolist() == expected
    dataset = open_dataset(tmp_path)
    assert (len(dataset), dataset.listing["fields"]) == (8, {"cls": 8})


def test_a_listing_that_fits_is_left_as_it_is(tmp_path: Path) -> None:
    write_labels(tmp_path, [3])
    make_index(tmp_path)
    before = (tmp_path / "dataset.json").stat()
    (again,) = make_index(str(tmp_path / "*.tar"))
    assert not again.made
    assert again.samples == 3
    assert (tmp_path / "dataset.json").stat().st_mtime_ns == before.st_mtime_ns


def test_one_that_does_not_fit_is_replaced_only_by_force_and_keeps_what_a_scan_cannot_know(tmp_path: Path) -> None:
    write_labels(tmp_path, [3])
    make_index(tmp_path)
    listing = json.loads((tmp_path / "dataset.json").read_text())
    (tmp_path / "dataset.json").write_text(json.dumps(listing | {"classes": ["x", "y"], "name": "mine"}))
    write_labels(tmp_path, [4, 2])
    with pytest.raises(TargetError, match="force"):
        make_index(str(tmp_path / "*.tar"))
    (made,) = make_index(tmp_path, force=True)
    assert (made.made, made.samples, made.shards) == (True, 6, 2)
    dataset = open_dataset(tmp_path)
    assert (dataset.classes, dataset.listing["name"], len(dataset)) == (("x", "y"), "mine", 6)


def test_a_damaged_listing_is_made_again_by_force(tmp_path: Path) -> None:
    write_labels(tmp_path, [3])
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(ListingError):
        make_index(tmp_path / "dataset.json")
    (made,) = make_index(tmp_path / "dataset.json", force=True)
    assert (made.made, len(open_dataset(tmp_path))) == (True, 3)


def test_a_listing_of_another_name_keeps_its_name(tmp_path: Path) -> None:
    write_labels(tmp_path, [3])
    make_index(tmp_path)
    (tmp_path / "val.json").write_bytes((tmp_path / "dataset.json").read_bytes())
    (made,) = make_index(tmp_path / "val.json", force=True)
    assert made.listing == tmp_path / "val.json"
    assert len(open_dataset(tmp_path / "val.json")) == 3


def test_each_folder_gets_its_own(tmp_path: Path) -> None:
    write_labels(tmp_path / "a", [3])
    write_labels(tmp_path / "b", [2, 2])
    made = make_index(str(tmp_path / "{a,b}"))
    assert [(Path(each.listing).parent.name, each.samples) for each in made] == [("a", 3), ("b", 4)]


def test_sidecars_are_written_for_whoever_reads_them(tmp_path: Path) -> None:
    write_labels(tmp_path, [2])
    make_index(tmp_path)
    make_index(tmp_path, dali=True, energon=True)  # also where the listing is there
    assert (tmp_path / "s-0000.idx").read_text() == "v1.2 2\ncls 512 1 000000.cls\ncls 1536 1 000001.cls\n"
    assert np.fromfile(tmp_path / "s-0000.tar.idx", "<u8").tolist() == [0, 1024, 2048]


def test_what_is_passed_over_is_noted(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [("README", b"x"), ("a.cls", b"1")])
    (made,) = make_index(shard)
    assert list(made.notes) == [str(shard)]


def test_a_bad_shard_leaves_no_listing(tmp_path: Path) -> None:
    write_labels(tmp_path, [3, 3])
    cut = tmp_path / "s-0001.tar"
    cut.write_bytes(cut.read_bytes()[:1500])
    with pytest.raises(TruncatedShardError):
        make_index(tmp_path)
    write_shard(cut, [("a", {"cls": b"1"}), ("b", {"cls": b"1"}), ("a", {"txt": b"1"})])
    with pytest.raises(GroupingError):
        make_index(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s-0000.tar", "s-0001.tar"]

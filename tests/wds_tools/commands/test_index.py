"""`wds index`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.builders import write_labels, write_tar
from wds_tools.cli import root
from wds_tools.dataset import open_dataset


def index(*args: str) -> Result:
    return CliRunner().invoke(root, ["index", *args])


def test_it_says_what_it_made_and_what_was_there(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [3, 4])
    done = index(folder, "--dali", "--energon")
    assert done.exit_code == 0
    assert done.stdout == f"{folder}/dataset.json: 7 samples in 2 shards, 20.5 KB\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".tar") == [
        "dataset.json",
        "dataset.offsets.npy",
        "s-0000.idx",
        "s-0000.tar.idx",
        "s-0001.idx",
        "s-0001.tar.idx",
    ]
    assert len(open_dataset(folder)) == 7
    assert "was there and fits" in index(folder).stdout


def test_json_has_the_same_facts(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [3])
    (made,) = json.loads(index("--json", folder).stdout)
    assert made == {
        "listing": f"{folder}/dataset.json",
        "made": True,
        "shards": 1,
        "samples": 3,
        "bytes": 10240,
        "classes": None,
        "notes": {},
    }


def test_members_that_are_passed_over_are_noted_on_stderr(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"")])
    done = index(str(tmp_path))
    assert "README" in done.stderr
    assert "README" not in done.stdout


def test_an_unfit_listing_needs_force(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [3])
    index(folder)
    write_labels(tmp_path, [30])
    done = index(f"{folder}/*.tar")
    assert done.exit_code == 2
    assert "wds index --force" in done.stderr
    assert index("--force", folder).exit_code == 0
    assert len(open_dataset(folder)) == 30


def test_classes_beside_are_taken_and_kept(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [3])
    (tmp_path / "classes.txt").write_text("Größe\nzebra\n", encoding="utf-8")
    assert index(folder).stdout.endswith("KB, 2 classes from classes.txt\n")
    assert open_dataset(folder).classes == ("Größe", "zebra")
    (tmp_path / "classes.txt").unlink()
    assert "classes.txt" not in index("--force", folder).stdout
    assert open_dataset(folder).classes == ("Größe", "zebra")


def test_a_listing_without_classes_takes_them_on_force(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [3])
    index(folder)
    (tmp_path / "classes.txt").write_bytes(b"a\r\nb\r\n")
    assert index("--force", folder).exit_code == 0
    assert open_dataset(folder).classes == ("a", "b")


def test_merge_joins_listings(tmp_path: Path) -> None:
    for name, counts in (("a", [2, 3]), ("b", [4])):
        index(write_labels(tmp_path / name, counts))
    done = index("--merge", f"{tmp_path}/a/dataset.json", f"{tmp_path}/b/dataset.json", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{tmp_path}/dataset.json: 9 samples in 3 shards, ")
    assert done.stdout.endswith("from 2 listings\n")
    assert len(open_dataset(tmp_path / "dataset.json")) == 9
    again = index("--merge", f"{tmp_path}/a/dataset.json", "--out", str(tmp_path))
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    facts = json.loads(
        index("--merge", "--force", "--json", f"{tmp_path}/a/dataset.json", "--out", str(tmp_path)).stdout
    )
    assert (facts["parts"], facts["samples"]) == (1, 5)


def test_merge_writes_no_sidecars(tmp_path: Path) -> None:
    assert index("--merge", "--dali", f"{tmp_path}/a.json").exit_code == 2

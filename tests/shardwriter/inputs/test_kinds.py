from collections.abc import Callable
from pathlib import Path

import pytest

from shardwriter.inputs.kinds import KINDS, kind_of_source
from wds_tools.errors import UsageError

Fill = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "manifest"), ("a.TSV", "manifest"), ("a.jsonl", "manifest"), ("a.parquet", "manifest"),
        ("x.npy", "array"), ("x.pt", "torch"), ("x.pth", "torch"), ("x.rec", "recordio"), ("x.tfrecord", "tfrecord"),
        ("train-*.tfrecord", "tfrecord"), ("t.tfrecord-00000-of-00010", "tfrecord"), ("t.tfrecord.gz", "tfrecord"),
        ("a.tar", "shards"), ("a-{0..9}.tar", "shards"), ("a.tar.gz", "shards"), ("dataset.json", "shards"),
        ("http://host/a-{00..11}.tar", "shards"), ("s3://bucket/t/dataset.json", "shards"),
    ],
)  # fmt: skip
def test_names_say_what_files_are(name: str, kind: str) -> None:
    assert kind_of_source(name) == kind


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["cat/1.jpg", "dog/2.jpg"], "folders"),
        (["cat/1.jpg", "dog/2.jpg", "readme.txt"], "folders"),
        (["train/cat/1.jpg", "val/cat/2.jpg"], "folders"),  # which class_folders refuses with the commands to give
        (["1.jpg", "2.png"], "flat"),
        (["1.jpg", "1.txt", "1.json"], "flat"),
        (["1.txt", "1.json"], "flat"),
        (["a.tar", "b.tar", "dataset.json", "classes.txt"], "shards"),
        (["a.tar.gz"], "shards"),
        (["t.tfrecord-00000-of-00002", "t.tfrecord-00001-of-00002", "labels.txt"], "tfrecord"),
        (["t.rec", "t.idx"], "recordio"),
        (["cat/1.jpg", ".hidden/1.txt"], "folders"),
    ],
)
def test_folders_are_what_lies_in_them(tmp_path: Path, fill: Fill, names: list[str], kind: str) -> None:
    assert kind_of_source(str(fill(tmp_path, dict.fromkeys(names, b"")))) == kind


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ["0/1.jpg", "0/1.txt", "1/2.jpg"],
            r"pictures with sidecars: they may be classes.*--input folders.*--input flat",
        ),
        (
            ["train_A_1.pt", "train_A_2.pt", "train_B_1.pt", "notes.md"],
            r"--field train_a=train_A_\{\}\.pt --field train_b=train_B_\{\}\.pt",
        ),
        (["a.bin", "b.bin"], "nothing that is known"),
        ([], "nothing that is known"),
    ],
)
def test_folders_that_could_be_several_things_are_refused(
    tmp_path: Path, fill: Fill, names: list[str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        kind_of_source(str(fill(tmp_path, dict.fromkeys(names, b""))))


def test_files_that_are_not_known_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    with pytest.raises(UsageError, match=r"a\.zip is cannot be seen from its name.*--input: folders.*unpacked"):
        kind_of_source(str(tmp_path / "a.zip"))
    with pytest.raises(UsageError, match="does not exist"):
        kind_of_source(str(tmp_path / "nothing"))
    assert len(KINDS) == 9

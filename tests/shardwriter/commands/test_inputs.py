from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from shardwriter.commands import inputs
from shardwriter.commands.inputs import InputOptions, input_options, make_input
from shardwriter.inputs.kinds import KINDS, Kind
from shardwriter.inputs.opening import nearest_folder
from tests.builders import picture, write_shard
from wds_tools.errors import UsageError
from wds_tools.sample import SPECIAL

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Make an input by a command line in the test's folder, and say what its first sample is."""

    @click.command()
    @click.argument("source")
    @input_options
    def command(source: str, chosen: InputOptions) -> None:
        with make_input(source, chosen, temporary=tmp_path / "not/there/yet") as samples:
            sample = samples.sample(0)
            fields = " ".join(sorted(sample.keys() - SPECIAL))
            click.echo(f"{type(samples).__name__} {len(samples)} {sample['__key__']} {fields}")

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(command, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output.strip()

    monkeypatch.chdir(tmp_path)
    return call


def files(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(picture(1) if name.endswith("jpg") else b"1")


def test_class_folders_and_flat_folders(run: Run) -> None:
    files("p/cat/1.jpg", "p/dog/2.jpg", "classes.txt")
    assert run("p") == "ClassFolders 2 cat/1 cls jpg"
    assert run("p", "--keys", "number") == "ClassFolders 2 00000000 cls jpg"
    Path("classes.txt").write_text("dog\ncat\n")
    assert run("p", "--classes", "classes.txt") == "ClassFolders 2 dog/2 cls jpg"
    assert run("p", "--input", "flat") == "FlatFolder 2 cat/1 jpg"
    files("f/1.jpg", "f/1.cls", "f/1.txt")
    assert run("f") == "FlatFolder 1 1 cls jpg txt"
    assert run("f", "--fields", "jpg;png, cls, json?") == "FlatFolder 1 1 cls jpg"


def test_tables(run: Run) -> None:
    files("p/1.jpg")
    Path("t.csv").write_text("file;n;c\np/1.jpg;x;hello\n")
    line = ["t.csv", "--delimiter", ";", "--label-column", "n", "--column", "c=txt", "--key-column", "c"]
    assert run(*line) == "Manifest 1 hello cls jpg txt"
    Path("t.tsv").write_text("a\tb\n1.jpg\t3\n")
    line = ["t.tsv", "--image-column", "a", "--label-column", "b", "--labels", "name", "--root", "p"]
    assert run(*line, "--encoding", "latin-1") == "Manifest 1 1 cls jpg"


def test_patterns_arrays_and_torch_files(run: Run) -> None:
    Path("d").mkdir()
    torch.save(torch.zeros(3, 4, 4, dtype=torch.uint8), "d/a_1.pt")
    torch.save(torch.tensor(3), "d/l_1.pt")
    assert run("d", "--field", "a=a_{}.pt", "--field", "cls=l_{}.pt") == "PatternFiles 1 1 a.pt cls"
    np.save("x.npy", np.zeros((5, 3, 4, 4), np.uint8))
    np.save("y.npy", np.arange(5))
    line = ["x.npy", "--label-array", "y.npy", "--array-field", "png", "--layout", "chw"]
    assert run(*line) == "ArrayFile 5 00000000 cls png"
    torch.save([{"image": torch.zeros(2), "y": 1}], "many.pt")
    assert run("many.pt", "--column", "image=npy", "--column", "y=cls") == "TorchFile 1 00000000 cls npy"


def test_shards_and_records(run: Run) -> None:
    write_shard(Path("s/a.tar"), [("k", {"cls": b"1"}), ("l", {"cls": b"2"})])
    assert run("s") == "Shards 2 k cls"
    assert run("s/*.tar", "--where", "cls == 2") == "Shards 1 l cls"
    from tests.shardwriter.inputs.test_recordio import image, write
    from tests.shardwriter.inputs.test_tfrecord import imagenet
    from tests.shardwriter.inputs.test_tfrecord import write as write_tfrecord

    write(Path("r.rec"), image(3, 1.0))
    assert run("r.rec", "--label-field", "label.npy", "--id-field", "id") == "RecordIO 1 00000000 id jpg label.npy"
    write_tfrecord(Path("t.tfrecord"), imagenet(4))
    assert run("t.tfrecord") == "TFRecords 1 00000000 cls jpg"
    line = ["t.tfrecord", "--column", "image/encoded=jpg", "--key-column", "image/filename"]
    assert run(*line) == "TFRecords 1 n01/4 jpg"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["p", "--label-column", "x"],
            "--label-column is for a table with a row a sample, and p is taken for one folder",
        ),
        (["p", "--field", "a=x.pt"], "must hold {} once"),
        (["p", "--input", "pattern"], "no patterns are given"),
        (["none"], "does not exist"),
    ],
)
def test_options_that_do_not_belong_are_refused(run: Run, arguments: list[str], words: str) -> None:
    files("p/cat/1.jpg")
    with pytest.raises(UsageError, match=words):
        run(*arguments)


def test_pairs_need_a_sign() -> None:
    @click.command()
    @click.argument("source")
    @input_options
    def command(source: str, chosen: InputOptions) -> None:
        raise AssertionError

    result = CliRunner().invoke(command, ["t.csv", "--column", "caption"])
    assert result.exit_code == 2
    assert "write it as NAME=VALUE" in result.output


def test_temporary_files_go_to_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert nearest_folder(tmp_path / "a/b/c") == tmp_path
    assert nearest_folder("s3://bucket/x") is None
    assert nearest_folder(None) is None


def test_every_kind_can_be_chosen_and_made() -> None:
    kinds: tuple[Any, ...] = get_args(Kind)
    assert set(kinds) == set(KINDS) == set(inputs._KINDS) == set(inputs._MAKERS)

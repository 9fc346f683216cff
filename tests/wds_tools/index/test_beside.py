"""Shards put into an indexed folder later are not passed over in silence."""

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.builders import write_labels, write_shard
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.errors import TargetError
from wds_tools.index.beside import unlisted
from wds_tools.make_index import make_index
from wds_tools.urls import expand
from wds_tools.verify import verify


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_labels(tmp_path, [3, 4, 5])
    make_index(tmp_path)
    write_shard(tmp_path / "s-0003.tar", [("new", {"cls": b"1"})])
    return tmp_path


def test_opening_the_folder_says_so_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(open_dataset(folder)) == 12
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "1 shard beside the listing that it does not list: 's-0003.tar'" in line
    assert f"wds index --force {folder}`" in line
    caplog.clear()
    assert len(expand(f"{folder}/")) == 3
    assert "s-0003.tar" in caplog.text


def test_only_the_first_of_many_are_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(4, 9):
        write_shard(folder / f"s-{number:04d}.tar", [("new", {"cls": b"1"})])
    open_dataset(folder)
    assert (
        "6 shards beside the listing that it does not list: 's-0003.tar', 's-0004.tar', 's-0005.tar', ..."
        in caplog.text
    )


def test_the_listing_itself_is_opened_without_a_word(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(open_dataset(folder / "dataset.json")) == 12
    assert not verify(folder / "dataset.json").problems
    assert not make_index(folder / "dataset.json")[0].made
    assert not caplog.records


def test_a_folder_that_is_listed_whole_is_opened_without_a_word(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CliRunner().invoke(root, ["index", "--force", str(folder)]).exit_code == 0
    monkeypatch.chdir(folder)
    for name in (".", str(folder), f"file://{folder}"):
        assert len(open_dataset(name)) == 13
        assert not verify(name).problems
    assert not caplog.records


def test_what_another_listing_lists_is_accounted_for(folder: Path) -> None:
    dataset = str(folder / "dataset.json")
    assert unlisted(dataset, expand(dataset)) == ["s-0003.tar"]
    make_index(folder, force=True)
    for name in ("dataset.json", "dataset.offsets.npy"):
        text = (folder / name).read_bytes().replace(b"dataset.offsets", b"val.offsets")
        (folder / name.replace("dataset", "val")).write_bytes(text)
    assert unlisted(dataset, expand(dataset)[:3]) == []


def test_index_refuses_and_verify_counts_it(folder: Path) -> None:
    with pytest.raises(TargetError, match=r"s-0003\.tar.*wds index --force"):
        make_index(folder)
    done = CliRunner().invoke(root, ["index", str(folder)])
    assert done.exit_code != 0
    assert done.stderr.count("s-0003.tar") == 1
    done = CliRunner().invoke(root, ["verify", str(folder)])
    assert done.exit_code == 1
    assert "s-0003.tar" in done.stdout
    assert "1 problem (" in done.stdout


def test_the_cure_can_be_pasted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_dataset(folder.rename(folder.with_name("my shards")))
    assert f"`wds index --force '{folder.with_name('my shards')}'`" in caplog.text

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import shardwriter
from shardwriter import ShardWriter
from shardwriter.journal import Journal, ShardLine
from wds_tools.cli import COMMANDS, root
from wds_tools.dataset import open_dataset

Picture = Callable[..., bytes]


@pytest.fixture
def pictures(tmp_path: Path, picture: Picture) -> Path:
    for number in range(12):
        path = tmp_path / "pictures" / ("ant", "bee")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return tmp_path / "pictures"


def wds(*arguments: object) -> Result:
    return CliRunner().invoke(root, [*map(str, arguments)])


def test_packs_and_says_what_came_of_it(tmp_path: Path, pictures: Path) -> None:
    result = wds("pack", pictures, tmp_path / "out", "--max-samples", 5)
    assert result.exit_code == 0, result.output
    assert "packed 12 pictures of 2 classes into 3 shards" in result.stdout
    assert str(tmp_path / "out/dataset.json") in result.stdout
    assert "12 samples" in result.stderr
    assert len(open_dataset(tmp_path / "out/dataset.json")) == 12


def test_prints_json_alone_on_stdout(tmp_path: Path, pictures: Path) -> None:
    result = wds("pack", pictures, tmp_path / "out", "--json", "--name", "val", "--no-shuffle")
    facts = json.loads(result.stdout)
    assert (facts["packed"], facts["shards"], facts["classes"]) == (12, 1, ["ant", "bee"])
    assert facts["listing"] == str(tmp_path / "out/dataset.json")
    assert (tmp_path / "out/val-000000.tar").exists()
    assert open_dataset(tmp_path / "out/dataset.json").shuffled is False


def test_exit_status_1_when_pictures_could_not_be_packed(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    (pictures / "ant/cut.jpg").write_bytes(picture()[:-9])
    (pictures / "ant/page.jpg").write_bytes(b"<html>")
    (pictures / "ant/Thumbs.db").touch()
    (pictures / "bee/really.jpg").write_bytes(picture(kind="PNG"))
    result = wds("pack", pictures, tmp_path / "out")
    assert result.exit_code == 1
    assert "not packed: 1 truncated, 1 unsupported; see " + str(tmp_path / "out/failures.jsonl") in result.stdout
    assert "left out: 1 no picture's extension, .db" in result.stdout
    assert "1 of another format" in result.stdout


def test_exit_status_2_and_one_line_when_used_wrongly(tmp_path: Path, pictures: Path) -> None:
    for arguments in (
        (tmp_path / "missing", tmp_path / "out"),
        (pictures, pictures / "out"),
        (pictures, tmp_path / "o", "--name", "a/b"),
    ):
        result = wds("pack", *arguments)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""
    wds("pack", pictures, tmp_path / "out")
    again = wds("pack", pictures, tmp_path / "out")
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert wds("pack", pictures, tmp_path / "out", "--overwrite").exit_code == 0


def test_says_once_that_there_are_no_labels(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "flat").mkdir()
    for number in range(3):
        (tmp_path / f"flat/{number}.jpg").write_bytes(picture(number))
    result = wds("pack", tmp_path / "flat", tmp_path / "out")
    assert result.exit_code == 0
    assert result.output.count("without labels") == 1
    assert "fields=('jpg',)" in result.stderr
    assert "(1.cls, 1.txt, 1.json)" in result.stderr
    assert "labels" not in wds("pack", tmp_path / "flat", tmp_path / "named", "--fields", "jpg").output
    for number in range(3):
        (tmp_path / f"flat/{number}.cls").write_text("1")
    assert "labels" not in wds("pack", tmp_path / "flat", tmp_path / "labelled").output


def test_takes_the_labels_of_another_dataset(tmp_path: Path, pictures: Path) -> None:
    (tmp_path / "classes.txt").write_bytes(b"zebra\r\nbee\nant\n")
    result = wds("pack", pictures, tmp_path / "out", "--classes", tmp_path / "classes.txt")
    assert result.exit_code == 0
    assert open_dataset(tmp_path / "out/dataset.json").classes == ("zebra", "bee", "ant")


def test_limits_reach_the_writer(tmp_path: Path, pictures: Path) -> None:
    size = 2048 * 4
    assert wds("pack", pictures, tmp_path / "out", "--max-bytes", size).exit_code == 0
    assert all(path.stat().st_size <= size for path in (tmp_path / "out").glob("*.tar"))
    assert wds("pack", pictures, tmp_path / "small", "--max-pixels", 100, "--check", "decode").exit_code == 1


def test_a_taken_target_names_only_options_that_the_command_has(tmp_path: Path, pictures: Path) -> None:
    wds("pack", pictures, tmp_path / "out")
    other = wds("pack", pictures, tmp_path / "out", "--name", "val", "--overwrite")
    assert other.exit_code == 2
    assert "Write to another folder: one a dataset, such as out/train and out/val." in other.stderr
    with ShardWriter(tmp_path / "busy/train-%06d.tar") as writer:
        writer.write({"__key__": "a", "cls": 1})
        busy = wds("pack", pictures, tmp_path / "busy")
    assert "another writer is at work" in busy.stderr
    assert not any("listing=" in result.stderr for result in (other, busy))


def test_a_folder_of_splits_is_refused_in_one_line_and_nothing_is_made(tmp_path: Path, pictures: Path) -> None:
    (tmp_path / "tv").mkdir()
    pictures.rename(tmp_path / "tv/train")
    result = wds("pack", tmp_path / "tv", tmp_path / "out")
    assert result.exit_code == 2
    assert f"`wds pack {tmp_path}/tv/train out/train`" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", sorted(Path(shardwriter.__file__).parent.rglob("*.py")), ids=lambda path: path.name)
def test_every_command_that_a_module_names_exists(path: Path) -> None:
    assert set(re.findall(r"\bwds ([a-z][a-z-]*)", path.read_text())) <= {name.split()[0] for name in COMMANDS}


def test_a_stopped_run_goes_on_and_other_options_are_refused(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Journal.shard

    def stop(journal: Journal, line: ShardLine) -> None:
        real(journal, line)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "shard", stop)
        assert wds("pack", pictures, tmp_path / "out", "--max-samples", 5).exit_code == 130
    refused = wds("pack", pictures, tmp_path / "out", "--max-samples", 6)
    assert refused.exit_code == 2
    assert "max_samples was 5, is 6" in refused.stderr
    result = wds("pack", pictures, tmp_path / "out", "--max-samples", 5, "--jobs", 2)
    assert result.exit_code == 0
    assert "went on where an earlier run was stopped: 5 samples were there" in result.stdout


def test_splits_and_duplicates_are_summarised_and_told_to_programs(
    tmp_path: Path, pictures: Path, picture: Picture
) -> None:
    (pictures / "ant/again.jpg").write_bytes(picture(4))
    arguments = ("pack", pictures, tmp_path / "out", "--split", "val=0.4", "--dedup")
    result = wds(*arguments)
    assert result.exit_code == 0
    for name in ("val", "train"):
        assert str(tmp_path / "out" / name / "dataset.json") in result.stdout
    assert "left out: 1 duplicate; see" in result.stdout
    facts = json.loads(wds(*arguments, "--overwrite", "--json").stdout)
    assert facts["packed"] == facts["splits"]["val"]["packed"] + facts["splits"]["train"]["packed"] == 12
    assert facts["duplicates"] == 1


def test_parts_make_a_dataset_that_is_joined(tmp_path: Path, pictures: Path) -> None:
    for part in ("0/2", "1/2"):
        assert wds("pack", pictures, tmp_path / "out", "--part", part).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tar")) == [
        "train-0-of-2-000000.tar",
        "train-1-of-2-000000.tar",
    ]
    assert wds("index", "--merge", *(tmp_path / "out").glob("train-*-of-2.json")).exit_code == 0
    wds("pack", pictures, tmp_path / "whole")
    joined, whole = (json.loads((tmp_path / name / "dataset.json").read_bytes()) for name in ("out", "whole"))
    told = {"shardlist", "bytes", "offsets_crc32"}  # there are two shards, with an end each
    assert {key: joined[key] for key in joined if key not in told} == {
        key: whole[key] for key in whole if key not in told
    }
    assert wds("verify", "--decode", tmp_path / "out").exit_code == 0


def test_too_many_failures_end_with_status_1(tmp_path: Path, pictures: Path) -> None:
    (pictures / "ant/page.jpg").write_bytes(b"<html>")
    result = wds("pack", pictures, tmp_path / "out", "--max-failures", 0)
    assert result.exit_code == 1
    assert "1 sample could not be packed, and max_failures is 0" in result.stderr
    assert (tmp_path / "out/failures.jsonl").exists()


def test_the_listing_keeps_the_command_without_folders_and_without_what_decides_nothing(
    tmp_path: Path, pictures: Path
) -> None:
    (tmp_path / "classes.txt").write_text("ant\nbee\n")
    wds(
        "pack", pictures, tmp_path / "out", "--classes", tmp_path / "classes.txt", "--jobs", 2, "--no-shuffle",
        "--split", "val=0.3", "--to", "png", "--checksum", "none",
    )  # fmt: skip
    command = open_dataset(tmp_path / "out/train").listing["command"]
    assert command == "wds pack SOURCE OUT --classes classes.txt --no-shuffle --split val=0.3 --checksum none --to png"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--part", "2/2"), ("--part", "1"), ("--part", "-1/2"), ("--split", "val"), ("--split", "val=2"),
        ("--split", "val=0.1", "--split", "val=0.2"), ("--jobs", "0"), ("--max-failures", "-1"), ("--checksum", "md5"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_status_2_and_make_nothing(
    tmp_path: Path, pictures: Path, arguments: tuple[str, ...]
) -> None:
    assert wds("pack", pictures, tmp_path / "out", *arguments).exit_code == 2
    assert not (tmp_path / "out").exists()


def test_every_option_is_in_a_section_of_the_help() -> None:
    text = wds("pack", "--help").stdout
    other = text[text.index("Other options:") : text.index("Examples:")]
    assert other.split() == ["Other", "options:", "-h,", "--help", "Show", "this", "message", "and", "exit."]


def test_help_says_what_becomes_of_dots() -> None:
    assert "cat/a.b.1.png is cat/a_b_1" in " ".join(wds("pack", "--help").stdout.split())


def test_help_has_an_example_and_the_exit_status() -> None:
    text = wds("pack", "--help").stdout
    assert "wds pack pictures/train out/train" in text
    assert "Exit status: 0 all packed, 1 some pictures were not" in text


def test_all_parts_are_packed_and_joined(tmp_path: Path, pictures: Path) -> None:
    result = wds("pack", pictures, tmp_path / "out", "--parts", 3, "--max-samples", 3)
    assert result.exit_code == 0, result.output
    assert "packed 12 pictures of 2 classes into 6 shards" in result.stdout
    assert "3 of 3 parts" in result.stderr
    assert len(open_dataset(tmp_path / "out/dataset.json")) == 12
    assert "--parts" not in json.loads((tmp_path / "out/dataset.json").read_bytes())["command"]
    again = wds("pack", pictures, tmp_path / "out", "--parts", 3)
    assert (again.exit_code, "already holds" in again.stderr) == (2, True)


def test_one_part_and_all_parts_are_not_asked_for_at_once(tmp_path: Path, pictures: Path) -> None:
    for more in (("--parts", 3), ("--engine", "ray")):
        result = wds("pack", pictures, tmp_path / "out", "--part", "0/3", *more)
        assert (result.exit_code, "Leave part away" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("asked", [("--parts", 13), ("--part", "0/13"), ("--part", "12/13")])
def test_more_parts_than_samples_are_refused_before_anything_is_written(
    tmp_path: Path, pictures: Path, asked: tuple[object, ...]
) -> None:
    result = wds("pack", pictures, tmp_path / "out", *asked)
    assert result.exit_code == 2
    assert "12 samples, less than one for each of 13 parts. Ask for 12 parts or fewer" in result.stderr
    assert not (tmp_path / "out").exists()


def test_files_of_patterns_are_counted_as_files(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"label_{number}.cls").write_text(str(number))
        (tmp_path / f"words_{number}.txt").write_text("a cat")
    fields = ("--field", "cls=label_{}.cls", "--field", "txt=words_{}.txt")
    result = wds("pack", tmp_path, tmp_path.parent / "out", *fields)
    assert result.exit_code == 0, result.output
    assert "reading the source: 8 files in" in result.stderr
    assert "packing: 4 samples in" in result.stderr

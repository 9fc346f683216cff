"""`wds verify`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.builders import write_labels, write_shard, write_tar
from wds_tools.cli import root


def verify(*args: str) -> Result:
    return CliRunner().invoke(root, ["verify", *args])


def test_a_sound_dataset_is_status_0(tmp_path: Path) -> None:
    done = verify("--decode", write_labels(tmp_path, [3, 4]))
    assert (done.exit_code, done.stdout) == (0, "2 shards, 7 samples, 20.5 KB read: all sound\n")


def test_problems_are_a_line_each_and_status_1(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"cls": b"x"}), ("b", {"cls": b"1"}), ("c", {"cls": b"2.5"})])
    done = verify("--decode", str(shard))
    *problems, summary = done.stdout.splitlines()
    assert done.exit_code == 1
    assert len(problems) == 2
    for line, key, offset in zip(problems, "ac", (0, 2048), strict=True):
        assert line.startswith("FieldError: ")
        assert f"(shard {shard}, offset {offset}, key {key}, field cls)" in line
    assert summary == "1 shard, 3 samples, 10.2 KB read: 2 problems"


def test_notes_are_no_problems(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"")])
    done = verify(str(shard))
    assert done.exit_code == 0
    assert done.stdout.startswith(f"note: {shard}: 1 file whose name makes no sample")


def test_json_lists_everything(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"cls": b"x"})])
    done = verify("--json", "--decode", str(shard))
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (found["shards"], found["samples"]) == (1, 1)
    assert [(each["kind"], each["key"], each["field"], each["offset"]) for each in found["problems"]] == [
        ("FieldError", "a", "cls", 0)
    ]


def test_progress_goes_to_stderr(tmp_path: Path) -> None:
    done = verify(write_labels(tmp_path, [3]))
    assert done.stderr.startswith("verifying: 3 samples in ")


def test_the_last_line_says_that_fields_were_not_decoded(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"cls": b"no number"})])
    done = verify(str(shard))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("1 shard, 1 sample, 10.2 KB read: all sound (headers and index only")
    assert "--decode" in done.stdout
    assert "headers and index only" not in verify("--decode", str(shard)).stdout


def test_of_many_problems_of_a_kind_ten_are_shown_and_json_has_all(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [(f"{at:03d}", {"cls": b"x"}) for at in range(150)])
    lines = verify("--decode", str(shard)).stdout.splitlines()
    assert sum(line.startswith("FieldError: ") and "key" in line for line in lines) == 10
    assert lines[-2:] == [
        "FieldError: ... and 140 more of this kind; --json lists all",
        "1 shard, 150 samples, 163.8 KB read: 150 problems",
    ]
    assert len(json.loads(verify("--json", "--decode", str(shard)).stdout)["problems"]) == 150

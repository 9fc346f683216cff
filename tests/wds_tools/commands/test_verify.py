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
    assert done.stdout.startswith(f"note: {shard}: 1 files")


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

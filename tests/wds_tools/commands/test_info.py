"""`wds info`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from shardwriter import ShardWriter
from tests.builders import picture, write_pictures, write_tar
from wds_tools.cli import root


def info(*args: str) -> Result:
    return CliRunner().invoke(root, ["info", *args])


def test_what_the_writer_knows_is_shown(tmp_path: Path) -> None:
    extra = {"classes": [f"class{n}" for n in range(12)], "shuffled": True}
    with ShardWriter(tmp_path / "pets-%06d.tar", max_samples=3, extra=extra) as writer:
        for number in range(8):
            writer.write({"__key__": f"{number}", "jpg": picture(number), "cls": number})
    lines = info(str(tmp_path)).output.splitlines()
    assert lines[0].split() == ["name", "pets"]
    assert lines[1].startswith("shards    3, samples in each: 2 to 3, ")
    assert lines[2] == "samples   8"
    assert lines[3].startswith("fields    jpg: picture, 8 samples, ")
    assert lines[3].endswith("8 jpeg, 48x36 on average")
    assert lines[4] == "          cls: int, 8 samples, 1 byte on average"
    assert lines[5].startswith("classes   12: class0, class1, ")
    assert lines[5].endswith("class9, ...")
    assert lines[6] == "order     shuffled when packed"
    assert lines[7] == f"index     the listing {tmp_path}/dataset.json"
    assert len(lines) == 8


def test_of_foreign_shards_it_says_what_is_unknown(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [3])
    output = info(folder).output
    assert "3 of 3 looked at" in output
    assert "order     unknown" in output
    assert "index     a scan" in output


def test_notes_name_the_shard(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"")])
    assert f"note      {tmp_path}/a.tar: 1 file whose name" in info(str(tmp_path)).output


def test_json_has_the_same_facts(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [3, 2])
    found = json.loads(info("--json", folder).output)
    assert (found["shards"], found["samples"], found["looked_at"], found["classes"]) == (2, 5, 5, None)
    assert found["fields"]["jpg"]["pictures"]["formats"] == {"jpeg": 5}


def test_a_shard_that_cannot_be_indexed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"<html>" * 200)
    done = info(str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "a.tar" in done.stderr

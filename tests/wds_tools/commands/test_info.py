"""`wds info`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from shardwriter import ShardWriter, pack
from tests.builders import picture, write_pictures, write_shard, write_tar
from wds_tools.cli import root
from wds_tools.make_index import make_index


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


def test_what_packing_has_counted_is_shown(tmp_path: Path) -> None:
    for number in range(9):
        path = tmp_path / "pictures" / ("ant", "bee", "bee")[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number, width=40 + number))
    (tmp_path / "pictures/ant/page.jpg").write_bytes(b"<html>")
    pack(tmp_path / "pictures", tmp_path / "out", seed=7, max_samples=5)
    lines = dict(line.split(maxsplit=1) for line in info(str(tmp_path / "out")).output.splitlines())
    assert lines["fields"].endswith("9 jpeg, 40 to 48 (median 44) wide, 36 high")
    assert lines["labels"] == "cls: 2 different ones, from 3 samples (label 0) to 6 (label 1)"
    assert lines["order"] == "shuffled when packed, seed 7"
    assert lines["checksum"].startswith("xxh3 of each shard")
    assert lines["left"] == "out  1 unsupported"
    assert lines["made"] == "by   shardwriter.pack(source, out, max_samples=5, seed=7)"
    found = json.loads(info("--json", str(tmp_path / "out")).output)
    assert found["pictures"]["jpg"]["height"] == {"min": 36, "median": 36, "max": 36}
    assert found["labels"] == {"cls": {"0": 3, "1": 6}}


def test_what_a_strange_listing_says_is_passed_over(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [3])
    make_index(folder)
    listing = json.loads((tmp_path / "dataset.json").read_text())
    listing |= {"fields": 3, "labels": ["x"], "pictures": "many", "failed": 1, "command": {}, "seed": "seven"}
    (tmp_path / "dataset.json").write_text(json.dumps(listing))
    done = info(folder)
    assert done.exit_code == 0
    assert "3 of 3 looked at" in done.output


def test_of_foreign_shards_it_says_what_is_unknown(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [3])
    output = info(folder).output
    assert "3 of 3 looked at" in output
    assert "order     unknown" in output
    assert "index     a scan" in output


def test_notes_name_the_shard(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("README", b""), ("a.txt", b"")])
    assert f"note      {tmp_path}/a.tar: 1 file whose name" in info(str(tmp_path)).output


def test_a_field_that_is_counted_and_not_seen_is_listed(tmp_path: Path) -> None:
    samples = [(f"{n:03d}", {"jpg": picture(n)} | ({"txt": b"rare"} if n == 1 else {})) for n in range(200)]
    write_shard(tmp_path / "a.tar", samples)
    make_index(tmp_path)
    lines = info(str(tmp_path)).output.splitlines()
    assert any("jpg: picture, 200 samples" in line and "of 64 looked at 64 jpeg" in line for line in lines)
    assert any("txt: 1 sample, not among the 64 looked at" in line for line in lines)


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

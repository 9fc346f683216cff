"""`wds cat`."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shardwriter import ShardWriter
from tests.builders import picture, write_shard, write_tar
from wds_tools.cli import root


def cat(*args: str) -> Result:
    return CliRunner().invoke(root, ["cat", *args])


@pytest.fixture
def shards(tmp_path: Path) -> str:
    array = io.BytesIO()
    np.save(array, np.zeros((2, 3), np.float32))
    with ShardWriter(tmp_path / "s-%06d.tar", max_samples=2, extra={"classes": ["ant", "bee", "cat", "dog"]}) as writer:
        for number in range(4):
            writer.write(
                {
                    "__key__": f"k/{number}",
                    "jpg": picture(number),
                    "cls": number,
                    "txt": "a caption " * 100,
                    "npy": array.getvalue(),
                    "json": {"a": [1, None]},
                    "odd": b"\x00\xff",
                }
            )
    return str(tmp_path)


def test_a_field_goes_out_byte_for_byte(shards: str) -> None:
    assert cat(shards, "k/3", "jpg").stdout_bytes == picture(3)
    assert cat(shards, "k/3", "ODD").stdout_bytes == b"\x00\xff"


@pytest.mark.parametrize("number", range(4))
def test_a_number_finds_the_same_sample_as_its_key(shards: str, number: int) -> None:
    assert cat(shards, f"#{number}", "jpg").stdout_bytes == picture(number)
    assert cat(shards, f"#{number}").output == cat(shards, f"k/{number}").output


@pytest.mark.parametrize("named", [".", "s-{000000..000001}.tar", "dataset.json"])
def test_a_path_may_be_relative(shards: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards)
    for chosen in ("k/3", "#3"):
        assert cat(named, chosen).output == cat(shards, "k/3").output
        assert json.loads(cat(named, chosen, "--json").output)["url"] == f"{shards}/s-000001.tar"


def test_without_a_field_every_field_is_shown_decoded(shards: str) -> None:
    lines = cat(shards, "k/2").output.splitlines()
    shown = {line.split()[0]: line for line in lines}
    assert shown["key"].endswith("k/2")
    assert shown["shard"].endswith("s-000001.tar")
    assert "jpeg 48x36 RGB" in shown["jpg"]
    assert shown["cls"].endswith("2 (cat)")
    assert "(1,002 characters)" in shown["txt"]
    assert "float32 (2, 3)" in shown["npy"]
    assert "{'a': [1, None]}" in shown["json"]
    assert r"b'\x00\xff'" in shown["odd"]


def test_a_field_that_does_not_decode_is_shown_as_that(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"jpg": b"<html>", "cls": b"x"})])
    lines = cat(str(shard), "a").output.splitlines()
    assert all("cannot be read" in line for line in lines[2:])
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("args", "status", "named"),
    [
        (("k/9",), 2, "k/9"),
        (("#4",), 2, "#3"),
        (("#x",), 2, "#x"),
        (("k/1", "png"), 1, "jpg, cls"),
        (("k/1", "__url__"), 1, "jpg, cls"),
    ],
)
def test_what_is_not_there_is_named(shards: str, args: tuple[str, ...], status: int, named: str) -> None:
    done = cat(shards, *args)
    assert (done.exit_code, done.stdout) == (status, "")
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_key_may_hold_what_a_terminal_may_not(tmp_path: Path) -> None:
    shard = write_tar(tmp_path / "a.tar", [("a\x1b[31m.txt", b"red")])
    assert cat(str(shard), "a\x1b[31m", "txt").output == "red"
    assert "\x1b" not in cat(str(shard), "#0").output


def test_a_sample_comes_as_json_too(shards: str) -> None:
    shown = json.loads(cat(shards, "#1", "--json").stdout)
    assert set(shown) == {"key", "url", "fields"}
    assert shown["fields"]["jpg"]["kind"] == "picture"
    assert shown["fields"]["jpg"]["bytes"] == len(cat(shards, "#1", "jpg").stdout_bytes)
    assert cat(shards, "#1", "jpg", "--json").exit_code == 2


@pytest.mark.parametrize(("key", "dots"), [("k/v1.2.final", True), ("k.1/v", False), ("nothing", False)])
def test_a_key_that_no_sample_can_have_is_answered_with_how_keys_are_made(shards: str, key: str, dots: bool) -> None:
    found = cat(shards, key)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"no sample of 2 shards has the key {key!r}" in found.stderr
    assert ("puts _ for other dots" in found.stderr) == dots

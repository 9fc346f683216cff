"""`wds bench codecs` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.wds_tools.pictures.made import jpeg, saved, scene
from wds_tools.cli import root


def _wds(*arguments: object) -> Result:
    return CliRunner().invoke(root, [*map(str, arguments)], prog_name="wds")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(saved(scene(90, 60), "PNG"))
    (tmp_path / "b.jpg").write_bytes(jpeg(90, 60))
    return tmp_path


def test_prints_a_line_for_each_format_and_quality(pictures: Path) -> None:
    done = _wds("bench", "codecs", pictures, "--to", "jpg", "--to", "png", "--to", "npy", "--rounds", 1)
    assert done.exit_code == 0, done.output
    about, _, head, *lines = done.stdout.splitlines()
    assert about.startswith("2 pictures, 90 x 60 pixels on average")
    assert head.split()[:4] == ["format", "quality", "KB", "bits/pixel"]
    assert [line.split()[0] for line in lines] == ["as", "jpg", "jpg", "jpg", "jpg", "png", "npy"]
    assert "exact" in lines[-1]
    assert "exact" not in lines[0]
    assert "2 pictures" in done.stderr


def test_qualities_are_for_those_formats_that_have_them(pictures: Path) -> None:
    arguments = ("--to", "jpg", "--to", "png", "--quality", 40, "--quality", 60, "--resize", 30, "--rounds", 1)
    done = _wds("bench", "codecs", pictures, *arguments, "--json")
    facts = json.loads(done.stdout)
    assert [(row["form"], row["quality"]) for row in facts["rows"]] == [("jpg", 40), ("jpg", 60), ("png", None)]
    assert (facts["resize"], facts["mean_width"], facts["mean_height"], facts["pictures"]) == (30, 45, 30, 2)


def test_files_that_cannot_be_read_are_told_and_change_the_exit_status(pictures: Path) -> None:
    for number in range(7):
        (pictures / f"bad{number}.jpg").write_bytes(b"<html>")
    done = _wds("bench", "codecs", pictures, "--to", "npy")
    assert done.exit_code == 1
    assert done.stderr.count("cannot be read: ") == 5
    assert "bad0.jpg" in done.stderr
    assert "... and 2 more" in done.stderr


def test_nothing_to_measure_is_a_usage_error(tmp_path: Path) -> None:
    done = _wds("bench", "codecs", tmp_path)
    assert (done.exit_code, "no pictures there" in done.stderr) == (2, True)

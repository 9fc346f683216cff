"""Small files, and what is none."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import loaders
from tests.builders import picture, write_labels
from wds_tools.cli import root
from wds_tools.errors import UsageError
from wds_tools.make_index import make_index
from wds_tools.small import read_lines, read_small


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_small(tmp_path / "f", most=5) == b"12345"
    with pytest.raises(UsageError, match="more than the 4 bytes"):
        read_small(tmp_path / "f", most=4)


def test_lines_are_names_whatever_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"cat\r\n\n  \nsnow\x85dog\x0b\ncaf\xe9\n")
    assert read_lines(tmp_path / "f") == ["cat", "snow\udc85dog\x0b", "caf\udce9"]


@pytest.fixture(params=["device", "pipe"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What never ends, and what never begins."""
    if request.param == "device":
        return Path("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_what_is_no_file_is_refused_wherever_a_small_file_is_named(tmp_path: Path, endless: Path) -> None:
    with pytest.raises(UsageError, match="not a pipe or a device"):
        read_small(endless)
    (tmp_path / "p/cat").mkdir(parents=True)
    (tmp_path / "p/cat/1.jpg").write_bytes(picture(1))
    result = CliRunner().invoke(root, ["pack", str(tmp_path / "p"), str(tmp_path / "out"), "--classes", str(endless)])
    assert (result.exit_code, "not a pipe or a device" in result.stderr) == (2, True)
    write_labels(tmp_path / "d", [3])
    with pytest.raises(UsageError, match="not a pipe or a device"):
        len(loaders.ShardLoader(tmp_path / "d", batch_size=1, fields=("cls",), exclude=endless))
    (tmp_path / "d/classes.txt").symlink_to(endless)
    with pytest.raises(UsageError, match="not a pipe or a device"):
        make_index(tmp_path / "d")


def test_a_folder_or_nothing_is_told_by_the_system(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_small(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none")

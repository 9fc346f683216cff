"""`wds ls`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import write_labels, write_tar
from wds_tools.cli import root


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return write_labels(tmp_path, [2, 2])


def ls(*args: str) -> Result:
    return CliRunner().invoke(root, ["ls", *args])


def test_a_line_a_sample_with_fields_and_sizes(folder: str) -> None:
    done = ls(folder)
    assert done.exit_code == 0
    assert done.output.splitlines() == [f"00000{n}\tcls:1" for n in range(4)]


def test_long_lines_say_shard_and_offset(folder: str) -> None:
    last = ls("--long", folder).output.splitlines()[-1].split("\t")
    assert [cell.strip() for cell in last] == ["1024", "1", "s-0001.tar", "000003", "cls:1"]


def test_json_lines_can_be_read_back(folder: str) -> None:
    found = [json.loads(line) for line in ls("--json", folder).output.splitlines()]
    assert found[2] == {"url": f"{folder}/s-0001.tar", "key": "000002", "offset": 0, "fields": {"cls": 1}}


@pytest.mark.parametrize(("number", "lines"), [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_it_stops_after_n_samples(folder: str, number: int, lines: int) -> None:
    assert len(ls("-n", str(number), folder).output.splitlines()) == lines


def test_several_urls_are_listed_in_their_order(folder: str) -> None:
    done = ls(f"{folder}/s-0001.tar", f"{folder}/s-0000.tar")
    assert [line[:6] for line in done.output.splitlines()] == ["000002", "000003", "000000", "000001"]


def test_a_damaged_shard_is_listed_up_to_the_damage(folder: str) -> None:
    shard = Path(folder, "s-0000.tar")
    shard.write_bytes(shard.read_bytes()[:1200])
    done = ls(str(shard))
    assert done.exit_code == 1
    assert done.stdout == "000000\tcls:1\n"
    assert done.stderr.startswith("wds: ")
    assert str(shard) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_names_that_would_break_lines_are_escaped(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("a\nb.txt", b"")])
    assert ls(str(tmp_path / "a.tar")).output == "a\\nb\ttxt:0\n"


def test_nothing_to_list_is_used_wrongly(tmp_path: Path) -> None:
    assert ls(str(tmp_path / "no.tar")).exit_code == 2
    assert ls().exit_code == 2

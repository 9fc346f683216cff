"""`wds doctor`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from wds_tools.cli import root


def doctor(*args: str) -> Result:
    return CliRunner().invoke(root, ["doctor", *args])


def test_each_finding_is_a_line_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(1_000_000))
    answer = doctor(str(tmp_path))
    assert answer.exit_code == 0
    lines = [line for line in answer.output.splitlines() if not line.startswith(" ")]
    assert [line.split("  ")[0].strip() for line in lines if line.split()[0] not in {"ok", "note"}] == []
    assert lines[0].split()[:3] == ["ok", "versions", "shardstream"]
    assert lines[-1].split()[:2] == ["ok", "disk"]


def test_json_holds_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(1_000_000))
    found = json.loads(doctor("--json", str(tmp_path)).output)
    assert {"name", "value", "state", "advice"} == set(found[0])
    assert [finding["name"] for finding in found][-1] == "disk"


def test_a_folder_that_holds_nothing_is_used_wrongly(tmp_path: Path) -> None:
    answer = doctor(str(tmp_path))
    assert answer.exit_code == 2
    assert "holds no file to read" in answer.output

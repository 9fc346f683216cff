"""The benchmarks really run: all of them, on a few pictures, with plausible rows. No figure is judged here."""

import json
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks.http import MISSING
from benchmarks.material import Material, prepare
from benchmarks.peers.limit import LIMIT
from benchmarks.table import OURS


def test_material_is_made_once_and_in_four_shards(material: Material) -> None:
    before = {path: path.stat().st_mtime_ns for path in material.folder.rglob("*")}
    again = prepare(material.folder, count=material.count)
    assert {path: path.stat().st_mtime_ns for path in material.folder.rglob("*")} == before
    assert (len(again.files()), len(again.shards), len(again.small_shards)) == (material.count, 4, 4)
    assert 50_000 < again.mean_bytes() < 200_000


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # webdataset leaves its files open
@pytest.mark.parametrize("name", command.BENCHMARKS)
def test_each_runs_and_keeps_its_rows(
    material: Material, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "http" and MISSING:
        pytest.skip(f"{MISSING[0]} is not installed")
    monkeypatch.setattr(command, "QUICK_COUNT", material.count)
    kept = tmp_path / "kept.json"
    peers = [f"--peer={peer}" for peer in (OURS, LIMIT)]  # the others are tested beside this
    assert command.main(["--quick", "--only", name, "--data", str(material.folder), "--json", str(kept), *peers]) == 0
    facts = json.loads(kept.read_text())
    assert facts["pictures"] == material.count
    assert any(row["who"].startswith(OURS) for row in facts["rows"])
    ran = [row for row in facts["rows"] if row["value"] is not None]  # a Python without a lock may not be there
    assert ran
    assert all(row["value"] > 0 for row in ran if not row["at_most"])
    assert "quick: these figures mean nothing" in capsys.readouterr().out
    assert not (material.folder / "written").exists()

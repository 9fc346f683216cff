"""The benchmarks really run: all of them, on a few pictures, with plausible rows. No figure is judged here."""

import json
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks.http import MISSING
from benchmarks.material import prepare
from benchmarks.table import OURS

COUNT = 132  # a batch of 64 for each of the two workers of the peers, and a few more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    prepare(folder, count=COUNT)
    return folder


def test_material_is_made_once_and_in_four_shards(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    material = prepare(folder, count=COUNT)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert (len(material.files()), len(material.shards), len(material.small_shards)) == (COUNT, 4, 4)
    assert 50_000 < material.mean_bytes() < 200_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # webdataset leaves its files open
@pytest.mark.parametrize("name", command.BENCHMARKS)
def test_each_runs_and_keeps_its_rows(
    folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "http" and MISSING:
        pytest.skip(f"{MISSING[0]} is not installed")
    monkeypatch.setattr(command, "QUICK_COUNT", COUNT)
    kept = tmp_path / "kept.json"
    assert command.main(["--quick", "--only", name, "--data", str(folder), "--json", str(kept)]) == 0
    facts = json.loads(kept.read_text())
    assert facts["pictures"] == COUNT
    assert any(row["who"].startswith(OURS) for row in facts["rows"])
    assert all(row["value"] > 0 for row in facts["rows"] if not row["at_most"])
    assert "quick: these figures mean nothing" in capsys.readouterr().out
    assert not (folder / "written").exists()

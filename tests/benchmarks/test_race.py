"""The race over a few pictures: who runs, who does not and why, what is compared. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.material import Material
from benchmarks.peers import PEERS
from benchmarks.peers.limit import LIMIT
from benchmarks.peers.ours import OURS_STOCK
from benchmarks.race import RACE, race
from benchmarks.table import OURS, Row
from benchmarks.timing import Watch

QUICK = Watch(rounds=1, machine=False)
CV2 = "Dataset of files (cv2)"


def named(rows: list[Row], work: str) -> dict[str, Row]:
    return {row.who: row for row in rows if row.work == work}


@pytest.mark.long
def test_all_are_timed_and_compared_with_ours_the_limit_and_the_fastest_other(material: Material) -> None:
    rows = race(material, QUICK, names=[CV2, OURS_STOCK, LIMIT, OURS])
    ran = named(rows, RACE)
    assert ran.keys() == {CV2, OURS_STOCK, LIMIT, OURS}
    assert [row.value for row in ran.values()] == sorted((row.value or 0 for row in ran.values()), reverse=True)
    for row in ran.values():
        assert row.value is not None
        assert row.spread is not None
        assert row.spread[0] <= row.value <= row.spread[1]
        assert row.of_limit is not None
        assert row.of_limit > 0
        assert PEERS[row.who].does in row.note
    assert "opencv" in ran[CV2].note
    assert (ran[LIMIT].of_limit, ran[OURS].ratio) == (1.0, None)
    assert (ran[CV2].ratio or 0) > 0
    goals = {(row.who, row.work): row.goal for row in rows if row.goal is not None}
    assert goals == {
        (OURS, f"over {CV2}"): 2.4,
        (OURS, f"over {LIMIT}"): 1.15,
        (OURS_STOCK, f"over {CV2}"): 1.7,
        (OURS_STOCK, f"over {LIMIT}"): 0.85,
    }


@pytest.mark.long
def test_who_cannot_run_is_named_with_the_reason(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "environments" / "dali" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho built for another machine >&2\nexit 3\n")
    broken.chmod(0o755)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))  # where there is no compiler
    fresh = Material(**{**vars(material), "folder": tmp_path})
    absent = named(race(fresh, QUICK, names=["DALI (CPU)", LIMIT], environments=tmp_path / "environments"), RACE)
    assert {who: (row.value, row.note) for who, row in absent.items()} == {
        "DALI (CPU)": (None, "it ended with status 3: built for another machine"),
        LIMIT: (None, "RuntimeError: there is no C compiler"),
    }

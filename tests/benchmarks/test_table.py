"""Rows: ratios, goals, the printed table, the kept JSON."""

import json
from pathlib import Path

import pytest

from benchmarks.table import OURS, Row, environment, rows_of, text, write_json
from benchmarks.timing import Timing


def test_a_ratio_is_the_median_over_the_rounds() -> None:
    timings = {OURS: Timing(rates=[10.0, 20.0, 30.0]), "them": Timing(rates=[5.0, 5.0, 10.0], noisy=1)}
    ours, theirs = rows_of("work", timings, {"them": 2.5})
    assert (ours.value, ours.ratio, ours.goal, ours.met) == (20.0, None, None, None)
    assert (theirs.value, theirs.ratio, theirs.met, theirs.noisy) == (5.0, 3.0, True, 1)
    assert (ours.spread, theirs.spread) == ((10.0, 30.0), (5.0, 10.0))


@pytest.mark.parametrize(
    ("ratio", "goal", "at_most", "met"),
    [
        (2.0, 2.0, False, True),
        (1.9, 2.0, False, False),
        (0.4, 0.5, True, True),
        (0.6, 0.5, True, False),
        (1.0, None, False, None),
    ],
)
def test_goals_are_met_or_missed(ratio: float, goal: float | None, *, at_most: bool, met: bool | None) -> None:
    assert Row(work="w", who="a", value=1, unit="s", ratio=ratio, goal=goal, at_most=at_most).met is met


def test_the_table_lines_up_and_says_what_fell_short() -> None:
    rows = [
        Row(work="raw", who=OURS, value=12345.6, unit="samples/s"),
        Row(work="raw", who="webdataset", value=0.1234, unit="samples/s", ratio=7.5, goal=8.0, noisy=2),
        Row(work="start", who=OURS, value=0.2, unit="s", ratio=0.2, goal=0.5, at_most=True),
        Row(work="race", who="them", value=850.0, unit="/s", spread=(800.0, 1000.0), of_limit=0.5),
        Row(work="race", who="others", value=None, unit="", note="ImportError: no such thing"),
    ]
    head, first, second, third, spread, absent = text(rows).splitlines()
    assert head.split() == ["work", "who", "value", "spread", "of", "limit", "ours/theirs", "goal"]
    assert spread.split() == ["race", "them", "850", "/s", "800", "..", "1,000", "0.50"]
    assert absent.split() == ["race", "others", "-", "did", "not", "run:", "ImportError:", "no", "such", "thing"]
    assert first.split() == ["raw", OURS, "12,346", "samples/s"]
    assert second.split() == ["raw", "webdataset", "0.123", "samples/s", "7.50", ">=", "8", "SHORT", "(2", "noisy)"]
    assert third.split()[-3:] == ["<=", "0.5", "ok"]
    assert first.index("samples/s") == second.index("samples/s")


def test_json_keeps_rows_and_circumstances(tmp_path: Path) -> None:
    row = Row(work="raw", who="webdataset", value=5.0, unit="samples/s", ratio=9.0, goal=8.0)
    write_json(tmp_path / "new" / "a.json", [row], environment() | {"rounds": 5})
    kept = json.loads((tmp_path / "new" / "a.json").read_text())
    assert kept["rows"][0]["met"] is True
    assert kept["rows"][0]["value"] == 5.0
    assert kept["packages"]["numpy"]
    assert kept["cores"] >= 1

"""The picture of the race: who ran is on it, in the colours that tell ours, the limit and the others apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.peers import PEERS
from benchmarks.peers.limit import LIMIT
from benchmarks.picture import LIMIT_COLOUR, OTHERS_COLOUR, OURS_COLOUR, draw
from benchmarks.race import RACE
from benchmarks.table import OURS, Row

FACTS = {"pictures": 4000, "mean_picture_bytes": 108_000.0, "cpu": "a processor", "rounds": 5}


def row(who: str, value: float | None) -> Row:
    return Row(work=RACE, who=who, value=value, unit="pictures/s", of_limit=None if value is None else value / 2000)


def pixels_of(path: Path, colour: str) -> int:
    pixels = np.asarray(Image.open(path).convert("RGB"))
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((pixels == wanted).all(axis=2).sum())


def test_bars_are_as_long_as_they_are_fast_and_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "new" / "peers.png"
    draw([row("FFCV", 500), row(OURS, 2500), row(LIMIT, 2000), row("datago + cv2", None)], FACTS, path)
    ours, limit, other = (pixels_of(path, colour) for colour in (OURS_COLOUR, LIMIT_COLOUR, OTHERS_COLOUR))
    assert 4.5 < ours / other < 5.5
    assert 3.6 < limit / other < 4.4
    assert path.stat().st_size < 100_000


def test_nothing_touches_an_edge(tmp_path: Path) -> None:
    """Neither the longest of the names nor the label of the longest bar, whichever that is."""
    rows = [row(who, 12_345_678.0 if who == max(PEERS, key=len) else 5e6) for who in PEERS]
    draw(rows, FACTS, tmp_path / "all.png")
    pixels = np.asarray(Image.open(tmp_path / "all.png").convert("L"))
    inked = np.flatnonzero((pixels < 250).any(axis=0))
    assert inked[0] >= 10
    assert pixels.shape[1] - 1 - inked[-1] >= 10
    lines = np.flatnonzero((pixels < 250).any(axis=1))
    assert lines[0] >= 4
    assert pixels.shape[0] - 1 - lines[-1] >= 4


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw([row(OURS, 2500), row(LIMIT, 2000)], FACTS, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()

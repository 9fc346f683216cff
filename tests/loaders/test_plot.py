"""The picture of an order."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loaders.plan import Plan
from loaders.plot import check_plot, draw
from loaders.quality import batches_of_plan, perfect
from wds_tools.errors import UsageError


def _drawn(path: Path, *, shuffle: bool) -> np.ndarray:
    counts = np.full(10, 300, dtype=np.int64)
    plan = Plan(counts=counts, sizes=counts * 1000, lanes=30, block=10, shuffle=shuffle)
    ours = batches_of_plan(plan, plan.epoch(0), batch_size=25, world_size=4)
    ideal = perfect(ours, samples=3000)
    draw(path, ours, ideal, lambda samples: samples // 300, of="shards", samples=3000, title="a test")
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def _spread(picture: np.ndarray) -> float:
    """How far apart the blue dots lie above each other, in the middle of the left half."""
    middle = picture.shape[1] // 4
    strip = picture[60:, middle - 10 : middle + 10]
    return float(np.nonzero(strip[..., 2] - strip[..., 0] > 40)[0].std())


def test_orders_differ_and_the_perfect_shuffle_does_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    mixed, straight = (_drawn(tmp_path / f"{shuffle}.png", shuffle=shuffle) for shuffle in (True, False))
    assert mixed.shape == straight.shape
    half = mixed.shape[0] // 2
    assert _spread(mixed[:half]) > 4 * _spread(straight[:half])  # dots all over, and a line
    right = slice(mixed.shape[1] // 2 + 10, None)
    assert np.array_equal(mixed[60:half, right], straight[60:half, right])


def test_what_cannot_be_drawn_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    check_plot(Path("a.svg"))
    with pytest.raises(UsageError, match="png"):
        check_plot(Path("a.jpg.zip"))
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(UsageError, match=r"pip install 'shardstream\[plot\]'"):
        check_plot(Path("a.png"))

"""The picture of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loaders.engine import Span
from loaders.timeline import draw_timeline
from loaders.trace import Event, Trace
from wds_tools.errors import UsageError


def made_up(batches: int, *, waits: float = 0.2) -> Trace:
    """A batch of 10 every half second, for the last part of which the consumer waits."""
    trace = Trace()
    for number in range(batches):
        at = trace.begun + number / 2
        trace._add(Event("shardstream-decode-0", "batch", Span(at - 0.1, at - 0.01), number, 10))
        trace._add(Event("consumer", "wait", Span(at - waits, at), number, 10))
    return trace


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    draw_timeline(tmp_path / "run.png", made_up(40), title="a run", prefetch=2)
    with Image.open(tmp_path / "run.png") as image:
        assert image.size == (900, 495)
        pixels = np.asarray(image.convert("RGB"))
    rate, waits = (np.abs(pixels - np.array(colour)).sum(-1) < 60 for colour in ((31, 95, 168), (236, 205, 202)))
    assert rate.sum() > 500  # a line and its mean
    assert waits.sum() > 20_000  # the part that was waited


def test_too_short(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too few"):
        draw_timeline(tmp_path / "run.png", made_up(2), title="", prefetch=2)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        draw_timeline(tmp_path / "nowhere" / "run.png", made_up(9), title="", prefetch=2)

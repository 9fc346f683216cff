"""A few kills of each kind, always the same ones; `make kills` does many, at moments of its own."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import pytest

from tests.kills.scenes import SCENES, scene_of

KILLS = 5
NEEDS_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS_TORCH if name == "loader" else ()) for name in SCENES])
def test_what_is_killed_leaves_nothing_half_and_ends_in_the_same_bytes(tmp_path: Path, name: str) -> None:
    with contextlib.closing(scene_of(name, tmp_path / "scene")) as scene:
        for seed in range(KILLS):
            try:
                scene.kill_once(seed, tmp_path / str(seed))
            except Exception as error:
                error.add_note(f"Again: python -m tests.kills 1 --of {name} --seed {seed}")
                raise
        assert scene.victims.kills >= KILLS

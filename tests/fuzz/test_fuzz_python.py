"""Each parser in Python runs under atheris, and a few seconds of it find nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.fuzz.fuzz_python import run, targets

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed"),
]


@pytest.mark.parametrize("name", targets())
def test_changed_inputs_are_taken_or_refused(name: str, tmp_path: Path) -> None:
    taken, refused, status = run(name, "3", tmp_path)
    assert not status, (tmp_path / f"{name}.log").read_text(errors="replace")[-3000:]
    assert min(taken, refused) > 0
    assert [each.name for each in tmp_path.glob(f"{name}-*")] == []

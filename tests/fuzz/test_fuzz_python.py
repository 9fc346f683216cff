"""All parsers in Python run under atheris, and a few seconds of each find nothing."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets.table import TARGETS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed"),
]


def test_changed_inputs_are_taken_or_refused(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, tests.fuzz.fuzz_python as it; sys.exit(it.fuzz_all('3', [], pathlib.Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    counts = re.findall(r"^(\w+): .* inputs, (\S+) taken, (\S+) refused$", done.stdout, re.MULTILINE)
    assert [name for name, _, _ in counts] == list(TARGETS)
    assert all(taken != "0" != refused for _, taken, refused in counts), counts

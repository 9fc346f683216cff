"""The fuzzer of the walk is built and runs, and a few seconds of it find nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.fuzz_walk import build, environment

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (sys.platform == "linux" and shutil.which("gcc")), reason="nothing to build with"),
]


def test_changed_archives_wake_no_sanitizer_and_are_walked_alike(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.fuzz_walk", build(tmp_path), "5", "3"]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=root, env=environment(), check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[0]) > 50

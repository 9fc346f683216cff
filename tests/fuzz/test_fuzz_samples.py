"""The fuzzer of whole samples is built and runs, and a few seconds of it find nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.fuzz_pixels import build
from tests.fuzz.fuzz_samples import begin

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("gcc") and Path("/usr/include/jpeglib.h").exists()), reason="nothing to build with"
    ),
]


def test_changed_samples_wake_no_sanitizer(tmp_path: Path) -> None:
    command = [build(tmp_path, "fuzz_samples"), "5", "3", *map(str, begin(tmp_path))]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert min(int(word) for word in run.stdout.split() if word.isdigit()) > 100

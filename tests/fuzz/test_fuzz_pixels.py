"""The fuzzer is built and runs, and a few seconds of it find nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.fuzz_pixels import begin, build

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("gcc") and Path("/usr/include/jpeglib.h").exists()), reason="nothing to build with"
    ),
]


def test_changed_pictures_wake_no_sanitizer(tmp_path: Path) -> None:
    run = subprocess.run(
        [build(tmp_path, "fuzz_pixels"), "5", "3", *begin(tmp_path)], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    decoded, left_to_others, damaged, *_ = (int(word) for word in run.stdout.split() if word.isdigit())
    assert min(decoded, left_to_others, damaged) > 100

"""The fuzzer of the Huffman decoder is built and runs, and a few seconds of it find no difference and nothing wrong."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.fuzz_huffman import begin
from tests.fuzz.fuzz_pixels import build

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("gcc") and Path("/usr/include/jpeglib.h").exists()), reason="nothing to build with"
    ),
]


def test_changed_pictures_are_decoded_alike_and_wake_no_sanitizer(tmp_path: Path) -> None:
    command = [build(tmp_path, "fuzz_huffman"), "5", "3", *map(str, begin(tmp_path))]
    run = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    inputs, by_us, by_libjpeg, refused = (int(word) for word in run.stdout.split() if word.isdigit())
    assert min(by_us, by_libjpeg, refused) > 100
    assert by_us > inputs / 5

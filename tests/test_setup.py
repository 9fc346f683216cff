"""What is in C is built as far as a machine allows, and what cannot be built never fails an installation."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = Path("wds_tools") / "pictures"

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler")]


def _built(folder: Path, compiler: str) -> str:
    """What the kernel says of its libjpeg after a build with this compiler; "none" where nothing was built at all."""
    source = folder / "source"
    (source / PICTURES).mkdir(parents=True)
    for path in (*ROOT.glob("wds_tools/_*.[ch]"), *ROOT.glob(f"{PICTURES}/_pixels*.[ch]"), ROOT / "setup.py"):
        shutil.copy(path, source / path.relative_to(ROOT))
    script = folder / "cc"
    script.write_text(f"#!/bin/sh\n{compiler}\n")
    script.chmod(0o755)
    command = ["env", f"CC={script}", "CFLAGS=-O0", sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    built = list((source / PICTURES).glob("_pixels*.so"))
    for needs_no_library in ("_walk", "_philox"):
        assert len(list((source / "wds_tools").glob(f"{needs_no_library}*.so"))) == len(built)
    if not built:
        return "none"
    load = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('wds_tools.pictures._pixels', sys.argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); m.Kernel(); print(m.JPEG)"
    )
    run = subprocess.run([sys.executable, "-c", load, built[0]], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_with_all_that_is_needed_the_kernel_has_both_halves(tmp_path: Path) -> None:
    if not Path("/usr/include/jpeglib.h").exists():
        pytest.skip("libjpeg-turbo's headers are not installed")
    assert _built(tmp_path, 'exec gcc "$@"').startswith("libjpeg-turbo ")


def test_without_libjpeg_it_has_the_half_that_resizes(tmp_path: Path) -> None:
    no_headers = 'case "$*" in *_jpeg.c*|*-ljpeg*) echo "jpeglib.h: No such file" >&2; exit 1;; esac'
    assert not _built(tmp_path, f'{no_headers}\nexec gcc "$@"')


def test_without_a_compiler_there_is_none_and_no_error(tmp_path: Path) -> None:
    assert _built(tmp_path, "exit 1") == "none"

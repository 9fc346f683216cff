"""`python -m tests.fuzz.fuzz_walk [SECONDS]`: the walk over tar headers under sanitizers, fed with changed archives.

Compiles the extension itself with gcc's address and undefined-behaviour sanitizers, loads it into a Python that runs
under them and takes its memory from malloc, so that each buffer has fences at its exact ends, and compares what it
returns with its twin in Python. Any report, and any difference, ends it with status 1.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

from tests.wds_tools.tar.archives import archive
from tests.wds_tools.tar.test_runs import ALL, said
from tests.wds_tools.tar.test_walk import mutated
from wds_tools.tar import plain

PACKAGE = Path(__file__).parents[2] / "wds_tools"
FLAGS = ["-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
BEGIN = [*ALL, archive([(f"é/{i}.seg.PNG", b"") for i in range(20)])]


def main() -> int:
    """Fuzz for so many seconds; the process under the sanitizers is this one again, given the module."""
    if len(sys.argv) == 4:
        return run(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.fuzz.fuzz_walk", build(Path(folder)), seconds]
        runs = [subprocess.Popen([*command, str(seed)], env=environment()) for seed in range(os.cpu_count() or 1)]
        ends = [process.wait() for process in runs]
    return int(any(ends))


def build(folder: Path) -> str:
    """The extension under sanitizers."""
    target = str(folder / "_walk.so")
    sources = [str(PACKAGE / name) for name in ("_walk.c", "_walk_member.c")]
    include = f"-I{sysconfig.get_paths()['include']}"
    subprocess.run(["gcc", *FLAGS, "-DPy_LIMITED_API=0x030B0000", include, *sources, "-o", target], check=True)
    return target


def environment() -> dict[str, str]:
    """For a Python that is not compiled with sanitizers, and does not give back all memory when it ends."""
    libraries = (
        subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], check=True, capture_output=True, text=True).stdout
        for name in ("asan", "ubsan")
    )
    preload = ":".join(path.strip() for path in libraries)
    return {**os.environ, "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}


def run(module: str, seconds: float, seed: int) -> int:
    """Compare until the time is over; prints how many archives that were."""
    compiled, count, end = load(module), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        content = mutated(BEGIN[count % len(BEGIN)], (seed << 40) + count)
        if said(compiled, content) != said(plain, content):
            sys.stderr.write(f"seed {seed}, number {count}: C and Python differ\n")
            return 1
        count += 1
    sys.stdout.write(f"{count} archives walked alike\n")
    return 0


def load(path: str) -> ModuleType:
    """The module in the file."""
    spec = importlib.util.spec_from_file_location("wds_tools._walk", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())

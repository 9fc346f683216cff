"""`python -m tests.fuzz.fuzz_python [SECONDS [TARGET ...]]`: the parsers in Python under atheris, a process a target.

What is fed to a target and what it must hold stands in `targets`; atheris follows the branches that inputs take. Inputs
that opened new ones stay in build/fuzz/TARGET, so that a later run begins there; an input that fails is written beside,
and `python -m tests.fuzz.fuzz_python FILE TARGET` tries it again. Hangs are inputs of 20 seconds, memory is 2 GB for a
process. Needs atheris, which is on PyPI for Linux on x86_64.
"""

from __future__ import annotations

import logging
import os
import random
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a file anew for each input: 3 ms on some disks
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-len_control=0"]
_COUNTS = struct.Struct("<QQ")


def main() -> int:
    """Fuzz each target for so many seconds; the process that does is this one again, given the folders."""
    if sys.argv[1:2] == ["--target"]:
        return fuzz(sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
    first, *names = sys.argv[1:] or ["60"]
    if Path(first).is_file():
        return again(Path(first), names[0])
    ends = [run(name, first, BUILD)[2] for name in names or targets()]
    return int(any(ends))


def targets() -> Sequence[str]:
    """The names of all."""
    from tests.fuzz.targets.table import TARGETS

    return list(TARGETS)


def run(name: str, seconds: str, root: Path) -> tuple[int, int, int]:
    """Let it run in a process of its own; the inputs taken, those refused, and that process's status."""
    root.mkdir(parents=True, exist_ok=True)
    log = root / f"{name}.log"
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, log.open("wb") as output:
        command = [sys.executable, "-m", "tests.fuzz.fuzz_python", "--target", name, seconds, folder, str(root)]
        own = {**os.environ, "XDG_CACHE_HOME": folder}
        done = subprocess.run(command, cwd=BUILD.parents[1], env=own, stdout=output, stderr=output, check=False)
        counts = Path(folder, "counts")
        taken, refused = _COUNTS.unpack(counts.read_bytes()) if counts.exists() else (0, 0)
    sys.stdout.write(f"{name}: {taken + refused:,} inputs, {taken:,} taken, {refused:,} refused\n")
    if done.returncode:
        sys.stdout.write(log.read_text(errors="replace")[-6000:])
    sys.stdout.flush()
    return taken, refused, done.returncode


def fuzz(name: str, seconds: str, folder: Path, root: Path) -> int:
    """Fuzz in this process. It is ended by libFuzzer, so what is counted is in the file `counts` at any time."""
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["wds_tools", "shardwriter", "loaders"]):
        from tests.fuzz.targets.table import TARGETS
    from tests.fuzz.targets.target import tried

    target = TARGETS[name]
    scratch, corpus = folder / "scratch", root / name
    for each in (scratch, corpus):
        each.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    counts = os.open(folder / "counts", os.O_WRONLY | os.O_CREAT)
    ends = [0, 0]

    def once(data: bytes) -> None:
        ends[not tried(target, data, scratch)] += 1
        os.pwrite(counts, _COUNTS.pack(*ends), 0)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        made: bytes = atheris.Mutate(data, most)
        return target.mend(made)[:most] if random.Random(seed).random() < 0.5 else made

    logging.disable(logging.CRITICAL)
    tracemalloc.start()
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={root / name}-", *LIMITS]
    atheris.Setup([sys.argv[0], *options, str(corpus)], once, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


def again(path: Path, name: str) -> int:
    """Try one input."""
    from tests.fuzz.targets.table import TARGETS
    from tests.fuzz.targets.target import tried

    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        taken = tried(TARGETS[name], path.read_bytes(), Path(folder))
    sys.stdout.write("taken\n" if taken else "refused\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

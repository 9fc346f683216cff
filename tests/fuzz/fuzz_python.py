"""`python -m tests.fuzz.fuzz_python [SECONDS [TARGET ...]]`: the parsers in Python under atheris, a process a target.

What is fed to a target and what it must hold stands in `targets`; atheris follows the branches that inputs take. Inputs
that opened new ones stay in build/fuzz/TARGET, so that a later run begins there; an input that fails is written beside,
and `python -m tests.fuzz.fuzz_python FILE TARGET` tries it again. Hangs are inputs of 20 seconds, memory is 2 GB for a
process. Needs atheris, which is on PyPI for Linux on x86_64.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import struct
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.targets.target import Target

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a file anew for each input: 3 ms on some disks
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-len_control=0"]
_COUNTS = struct.Struct("<QQ")


def main() -> int:
    """Fuzz each target for so many seconds, or try one input again."""
    first, *names = sys.argv[1:] or ["60"]
    if Path(first).is_file():
        return again(Path(first), names[0])
    return fuzz_all(first, names, BUILD)


def fuzz_all(seconds: str, names: Sequence[str], root: Path) -> int:
    """Fuzz these targets, or all, one after the other; 1 where one of them fails.

    Code is prepared for atheris as it is imported, which takes 4 seconds: once, and each target in a fork.
    """
    import atheris  # type: ignore[import-untyped]

    packages = ["wds_tools", "shardwriter", "loaders"]
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=packages):  # a line a module
        from tests.fuzz.targets.table import TARGETS

    root.mkdir(parents=True, exist_ok=True)
    ends = [run(TARGETS[name], seconds, root) for name in names or TARGETS]
    return int(any(ends))


def run(target: Target, seconds: str, root: Path) -> int:
    """Let it run in a process of its own, and say how many inputs it took and refused; that process's status."""
    log = root / f"{target.name}.log"
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                fuzz(target, seconds, Path(folder), root, log)
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        counts = Path(folder, "counts")
        taken, refused = _COUNTS.unpack(counts.read_bytes()) if counts.exists() else (0, 0)
    sys.stdout.write(f"{target.name}: {taken + refused:,} inputs, {taken:,} taken, {refused:,} refused\n")
    if status:
        sys.stdout.write(log.read_text(errors="replace")[-6000:])
    return status


def fuzz(target: Target, seconds: str, folder: Path, root: Path, log: Path) -> None:
    """Fuzz in this process. It is ended by libFuzzer, so what is counted is in the file `counts` at any time."""
    import atheris

    from tests.fuzz.targets.target import tried

    scratch, corpus = folder / "scratch", root / target.name
    for each in (scratch, corpus):
        each.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["XDG_CACHE_HOME"] = str(folder)
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
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={root / target.name}-", *LIMITS]
    atheris.Setup([sys.argv[0], *options, str(corpus)], once, custom_mutator=mutate)
    atheris.Fuzz()


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

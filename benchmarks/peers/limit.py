"""The limit: libjpeg-turbo, decoding nothing but the crops, in as many processes at once as the others have workers.

`limit.c` is compiled here against the system's library, the one that this project's kernel uses. The crops have the
size and place that RandomResizedCrop draws, decoded at the smallest DCT scale that still covers 224x224. The pictures
lie in memory before the clock starts; nothing is resized or put into batches.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers.peer import PARALLEL, SIZE, Peer, Work, loose_pictures

__all__ = ["LIMIT", "PEERS"]

LIMIT = "libjpeg-turbo alone, only the crop"
SOURCE = Path(__file__).with_suffix(".c")


def _compile(target: Path) -> None:
    if target.exists() and target.stat().st_mtime > SOURCE.stat().st_mtime:
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("there is no C compiler")
    done = subprocess.run(
        [compiler, "-O3", "-o", str(target), str(SOURCE), "-ljpeg"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(next((line for line in done.stderr.splitlines() if "error" in line), done.stderr))


def _prepare(work: Work, target: Path) -> None:
    lines = _crops(work)
    for processes in (1, PARALLEL):
        for at in range(processes):
            (target / f"{processes}-{at}.txt").write_text("".join(lines[at::processes]))


def _crops(work: Work) -> list[str]:
    import numpy as np

    from loaders import RandomResizedCrop
    from wds_tools.pictures.facts import read_facts
    from wds_tools.pictures.resize import scale_for

    random, geometry = np.random.default_rng(0), RandomResizedCrop(SIZE)
    lines = []
    for path in loose_pictures(work)[0]:
        facts = read_facts(path.read_bytes())
        box, _ = geometry.place(facts.width, facts.height, random.random(44).tolist())
        assert box is not None
        scale = scale_for(box, (SIZE, SIZE))
        edges = (box.left, box.top, box.left + box.width, box.top + box.height)
        inside = (-(-facts.width // scale), -(-facts.height // scale)) * 2
        rounded = (math.floor(edge / scale) if at < 2 else math.ceil(edge / scale) for at, edge in enumerate(edges))
        lines.append(f"{scale} {' '.join(str(min(pair)) for pair in zip(rounded, inside, strict=True))} {path}\n")
    return lines


def _run(work: Work) -> Iterator[int]:
    assert work.own is not None
    folder = Path(work.own)
    _compile(folder / "limit")
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [folder / "limit", folder / f"{work.parallel}-{at}.txt"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for at in range(work.parallel)
        ]
        said = [_line(process) for process in processes]
        if not all(line.startswith("libjpeg-turbo") for line in said):
            raise RuntimeError(f"the limit's programs said {said}")
        yield 0
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            yield int(_line(process))


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


PEERS = [
    Peer(
        name=LIMIT,
        does="files in memory; decodes the crop, does not resize; processes",
        run=_run,
        prepare=_prepare,
        limit=True,
    )
]

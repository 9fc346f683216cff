"""From the constructor to the first batch: what a user waits for at each start.

Each sample is a fresh process. It imports everything, then says so, and the clock runs until it has its first batch of
64 crops. The shards are in the page cache, their listing lies beside them; webdataset starts two worker processes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.material import Material
from benchmarks.peers.peer import BATCH
from benchmarks.table import OURS, Row
from benchmarks.timing import Watch, compare

__all__ = ["first_batch"]

LIMIT_SECONDS = 0.5

PREAMBLE = """
import sys
urls = sys.argv[1:]
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
def done():
    print("done", flush=True)
    sys.stdin.readline()
"""
OURS_CODE = f"""{PREAMBLE}
import loaders.torch
ready()
crop = loaders.RandomResizedCrop(224)
loader = loaders.torch.ShardLoader(urls, batch_size={BATCH}, fields=("jpg", "cls"), image=crop)
assert next(iter(loader))[0].shape == ({BATCH}, 3, 224, 224)
done()
loader.close()
"""
THEIRS_CODE = f"""{PREAMBLE}
import torch, webdataset, PIL.Image
from benchmarks.peers.crops import pillow_crop
from benchmarks.peers.webdataset import webdataset_batches
ready()
batches = webdataset_batches(urls, pillow_crop, batch={BATCH}, workers=2)
assert next(batches) == {BATCH}
done()
batches.close()
"""


def first_batch(material: Material, watch: Watch) -> list[Row]:
    """In seconds; ours must stay under half of one."""
    codes = {OURS: OURS_CODE, "webdataset + Pillow": THEIRS_CODE}
    timings = compare({who: partial(_start, code, material.shards) for who, code in codes.items()}, watch)
    return [
        Row(
            work="first batch",
            who=who,
            value=1 / timing.rate,
            unit="s",
            ratio=1 / timing.rate if who == OURS else timings[OURS].rate / timing.rate,
            goal=LIMIT_SECONDS if who == OURS else None,
            at_most=who == OURS,
            noisy=timing.noisy,
        )
        for who, timing in timings.items()
    ]


def _start(code: str, urls: Sequence[str]) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *urls], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _expect(process.stdout.readline(), "ready")
        yield 0
        process.stdin.write("go\n")
        process.stdin.flush()
        _expect(process.stdout.readline(), "done")
        yield 1
        process.stdin.write("end\n")
        process.stdin.flush()


def _expect(line: str, word: str) -> None:
    if line.strip() != word:
        raise RuntimeError(f"the process said {line!r} where {word!r} was expected")

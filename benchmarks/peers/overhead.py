"""What is left of our loader when decoding costs nothing, and what is left of that when only reading is done.

No contestants of the race, since they make no pictures; `scaling` has them run in processes of their own likewise.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.peers.peer import BATCH, SIZE, Peer, Work, loose_pictures

__all__ = ["NULL", "PEERS", "READS"]

NULL = "null decode"
READS = "positioned reads"
PICTURES = 40_000
"""In a sample, or it would be over in a blink."""


class _NullKernel:
    """In place of the C object: takes the call and leaves the memory as it is."""

    def jpeg(self, *_: object) -> None:
        return None

    def units(self) -> int:
        return 1


def _load() -> None:
    from wds_tools.pictures import _pixels
    from wds_tools.pictures.kernel import capability

    if not capability().jpeg:  # asked before: its self-test wants real pixels
        raise RuntimeError(capability().missing)
    _pixels.Kernel = _NullKernel  # type: ignore[assignment, misc]


def _null(work: Work) -> Iterator[int]:
    from loaders import RandomResizedCrop
    from loaders.torch import ShardLoader

    done = 0
    with ShardLoader(
        work.shards,
        batch_size=BATCH,
        fields=("jpg", "cls"),
        image=RandomResizedCrop(SIZE),
        tail="exact",
        threads=work.parallel,
    ) as loader:
        while done < PICTURES:
            for pictures, _ in loader:
                done += len(pictures)
                yield len(pictures)


def _reads(work: Work) -> Iterator[int]:
    """As many bytes from the same tars at places drawn by chance: `os.pread`, one thread, nothing looked at."""
    sizes, draw = [path.stat().st_size for path in loose_pictures(work)[0]], random.Random(0)
    with ExitStack() as stack:
        files = [stack.enter_context(Path(url).open("rb", buffering=0)) for url in work.shards]
        shards = [(file.fileno(), os.fstat(file.fileno()).st_size) for file in files]
        places = []
        for size in random.Random(0).choices(sizes, k=PICTURES):
            file, room = draw.choice(shards)
            places.append((file, size, draw.randrange(room - size)))
        yield 0
        for begin in range(0, PICTURES, 1000):
            for file, size, offset in places[begin : begin + 1000]:
                os.pread(file, size, offset)
            yield 1000


PEERS = [
    Peer(
        name=NULL,
        does="our loader, in which the kernel's call returns at once",
        run=_null,
        load=_load,
        packages=("shardstream", "torch", "numpy"),
        ours=True,
    ),
    Peer(name=READS, does="the same number of bytes from the same tars", run=_reads),
]

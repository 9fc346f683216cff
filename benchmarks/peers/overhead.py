"""What is left of our loader when decoding costs nothing, and what is left of that when only reading is done.

Also our loader in a Python without the lock of the interpreter, where somebody has put one (README.md says how). No
contestants of the race; `scaling` has them run in processes of their own likewise.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import BATCH, SIZE, Peer, Work, loose_pictures
from benchmarks.table import OURS

__all__ = ["FREE", "FREE_NULL", "NULL", "PEERS", "READS"]

NULL = "null decode"
READS = "positioned reads"
FREE = f"{OURS}, free-threaded Python"
FREE_NULL = f"{NULL}, free-threaded Python"
PICTURES = 40_000
"""In a sample, or it would be over in a blink."""
_DECODE_NOTHING = 3


class _NullKernel:
    """In place of the C object: does everything but decode, and leaves the memory as it is."""

    def __init__(self, real: Callable[[], Any]) -> None:
        self._kernel = real()

    def jpeg(self, *_: object) -> None:
        return None

    def samples(self, *arguments: Any) -> Any:
        return self._kernel.samples(*arguments[:-1], _DECODE_NOTHING)

    def units(self) -> int:
        return 1


def _load_null() -> None:
    from wds_tools.pictures import _pixels
    from wds_tools.pictures.kernel import capability

    if not capability().jpeg:  # asked before: its self-test wants real pixels
        raise RuntimeError(capability().missing)
    _pixels.Kernel = partial(_NullKernel, _pixels.Kernel)  # type: ignore[assignment, misc]


def _load_free() -> None:
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        raise RuntimeError("this Python has a lock; README.md says where one without is looked for")
    from wds_tools.pictures.kernel import capability

    if not capability().huffman:  # built for another Python only
        raise RuntimeError(capability().missing)


def _load_free_null() -> None:
    _load_free()
    _load_null()


def _epochs(least: int, work: Work) -> Iterator[int]:
    """Whole epochs with so many pictures or more, of the loader of numpy arrays: not every Python has a torch."""
    from loaders import RandomResizedCrop, ShardLoader

    done = 0
    with ShardLoader(
        work.shards,
        batch_size=BATCH,
        fields=("jpg", "cls"),
        image=RandomResizedCrop(SIZE),
        tail="exact",
        threads=work.parallel,
    ) as loader:
        while done < least:
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
        does="our loader, in which nothing is decoded, though all the rest is done",
        run=partial(_epochs, PICTURES),
        load=_load_null,
        packages=("shardstream", "numpy"),
        ours=True,
    ),
    Peer(name=READS, does="the same number of bytes from the same tars", run=_reads),
    Peer(
        name=FREE,
        does="our loader in a Python without the lock",
        run=partial(_epochs, 1),
        load=_load_free,
        packages=("shardstream", "numpy"),
        environment="free-threaded",
        ours=True,
    ),
    Peer(
        name=FREE_NULL,
        does="the same, in which nothing is decoded, though all the rest is done",
        run=partial(_epochs, PICTURES),
        load=_load_free_null,
        packages=("shardstream", "numpy"),
        environment="free-threaded",
        ours=True,
    ),
]

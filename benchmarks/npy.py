"""Arrays to batches: uint8 arrays of 224 x 224 x 3 in `npy` fields, against memcpy.

Ours reads shards from the page cache with two threads, finds each array by its headers and has batches of 64 in their
order. memcpy copies the same rows, from memory to batches that are used again, by two threads, without reading, looking
or ordering anything: what is left to win. The random crop of the same arrays is beside it, which resizes and flips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

import loaders
from benchmarks.material import Material, once
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Watch, compare
from shardwriter import ShardWriter
from wds_tools.urls import expand

__all__ = ["npy"]

BATCH = 64
PARALLEL = 2
SIDE = 224
_MOST = 2048  # arrays: 300 MB
_SHARDS = 4


def npy(material: Material, watch: Watch) -> list[Row]:
    """Batches as they are stored, and cropped."""
    count = min(material.count, _MOST)
    urls = expand(once(material.folder / f"arrays-{count}-v1", partial(_write, count=count)))
    contestants = {
        OURS: partial(_batches, urls, None),
        "memcpy": partial(_memcpy, count),
        "random crop of them": partial(_batches, urls, loaders.RandomResizedCrop(SIDE)),
    }
    return rows_of("arrays 224x224x3, batches of 64", compare(contestants, watch), {"memcpy": 0.5}, unit="arrays/s")


def _write(target: Path, *, count: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    with ShardWriter(target / "arrays-%06d.tar", max_samples=-(-count // _SHARDS)) as writer:
        for number in range(count):
            writer.write({"__key__": f"{number:06d}", "npy": np.roll(pixels, number), "cls": number % 10})


def _batches(urls: Sequence[str], image: loaders.RandomResizedCrop | None) -> Iterator[int]:
    with loaders.ShardLoader(
        urls, batch_size=BATCH, fields=("npy", "cls"), image=image, threads=PARALLEL, tail="exact"
    ) as loader:
        for _ in range(3):
            for arrays, _labels in loader:
                yield len(arrays)


def _memcpy(count: int) -> Iterator[int]:
    source = np.ones((count, SIDE * SIDE * 3), np.uint8)
    batches = [np.ones((BATCH, SIDE * SIDE * 3), np.uint8) for _ in range(2 * PARALLEL)]
    order = np.random.default_rng(0).permutation(count)[: count // BATCH * BATCH].reshape(-1, BATCH).tolist()
    jobs = [(batches[number % len(batches)], rows) for number, rows in enumerate(order * 3)]
    with ThreadPoolExecutor(PARALLEL) as pool:
        yield from pool.map(lambda job: _copied(source, *job), jobs)


def _copied(source: npt.NDArray[np.uint8], batch: npt.NDArray[np.uint8], rows: Sequence[int]) -> int:
    for place, row in enumerate(rows):
        np.copyto(batch[place], source[row])
    return len(rows)

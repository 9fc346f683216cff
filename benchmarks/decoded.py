"""A later epoch with a cache of decoded pictures, against the first, and against a loader without one.

All crop to 224, flip, and have batches of 64 by two threads. The first epoch with a cache decodes whole pictures to 256
and writes them down; without one only the crop is decoded. What a later epoch costs is the crop, the flip and the copy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial

import loaders
from benchmarks.material import Material
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Watch, compare

__all__ = ["decoded"]

BATCH = 64
PARALLEL = 2
BYTES = "4GB"


def decoded(material: Material, watch: Watch) -> list[Row]:
    """From memory, and from a folder, whose files are in the page cache."""
    with tempfile.TemporaryDirectory(dir=material.folder) as folder:
        contestants = {
            OURS: partial(_later, material.shards, "ram"),
            "later epochs, cache in a folder": partial(_later, material.shards, f"{folder}/later"),
            "first epoch, cache in memory": partial(_first, material.shards, "ram"),
            "without a cache": partial(_first, material.shards, None),
        }
        timings = compare(contestants, watch)
    goals = {"first epoch, cache in memory": 2.0, "without a cache": 2.0}
    return rows_of("pictures decoded before, crop 224", timings, goals, unit="pictures/s")


def _loader(urls: Sequence[str], place: str | None) -> loaders.ShardLoader:
    cache = None if place is None else loaders.DecodedCache(place, BYTES)
    return loaders.ShardLoader(
        urls,
        batch_size=BATCH,
        fields=("jpg", "cls"),
        image=loaders.RandomResizedCrop(224),
        threads=PARALLEL,
        tail="exact",
        decoded_cache=cache,
    )


def _later(urls: Sequence[str], place: str) -> Iterator[int]:
    with _loader(urls, place) as loader:
        for _ in loader:
            pass
        yield 0
        for _ in range(2):
            for pictures, _labels in loader:
                yield len(pictures)


def _first(urls: Sequence[str], place: str | None) -> Iterator[int]:
    with _loader(urls, place) as loader:
        for pictures, _labels in loader:
            yield len(pictures)

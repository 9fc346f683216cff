"""What the tests of a cache of decoded pictures run, and ranks of it in processes of their own; no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from loaders import DecodedCache, RandomResizedCrop, ShardLoader
from loaders.decoded import places


def small(place: Any, count: int | str = "20MB", *, size: Any = 64) -> DecodedCache:
    return DecodedCache(place, count, size=size)


def options(**more: Any) -> dict[str, Any]:
    return {"batch_size": 10, "image": RandomResizedCrop(48), "threads": 2, "seed": 3, **more}


def content(column: Any) -> bytes:
    """The same for tensors and arrays."""
    pictures = hasattr(column, "permute") and column.ndim == 4
    return np.asarray(column.permute(0, 2, 3, 1) if pictures else column).tobytes()


def digests(loader: Any, epochs: int = 1) -> list[list[str]]:
    return [[hashlib.sha256(b"".join(map(content, batch))).hexdigest() for batch in loader] for _ in range(epochs)]


def rank(number: int, urls: str, place: str, shm: Path, queue: Any) -> None:
    """Three epochs of one rank of two."""
    places._SHM = shm
    with ShardLoader(urls, rank=number, world_size=2, **options(batch_size=5, decoded_cache=small(place))) as loader:
        found, report = digests(loader, 3), loader.report()
        queue.put((number, found, report.cache_hits, report.cache_kept))
        queue.close()
        queue.join_thread()

"""The ways in which samples reach the training: from a folder or the web, by threads or processes, with caches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from loaders import Reading, Remote, ShardLoader
from loaders.torch import ShardDataset, resumable

__all__ = ["BATCH", "FEEDS", "Feed", "Places", "plain"]

BATCH = 16
WORKERS = 2
OPTIONS: dict[str, Any] = {"batch_size": BATCH, "fields": ("bin", "cls", "txt"), "seed": 7, "lanes": 12}
BLOCK: dict[str, Any] = {"block_bytes": 1 << 16}
AHEAD: dict[str, Any] = {
    **BLOCK,
    "prefetch_bytes": 2 << 20,
}  # a tenth of the dataset: most of an epoch is fetched while it runs
PATIENT = Remote(attempts=12, give_up_s=60.0, stall_s=1.0)
HASTY = Remote(attempts=2, give_up_s=3.0, stall_s=1.0)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are.

    Attributes:
        folder: of the shards.
        url: of the same on the web.
        cache: a folder for caches.
        disk: a small disk for caches.
        cache_bytes: less than the dataset.
    """

    folder: Path
    url: str
    cache: Path
    disk: Path
    cache_bytes: int


@dataclass(frozen=True, kw_only=True)
class Feed:
    """One way.

    Attributes:
        name: for the figures.
        web: whether it asks the server.
        workers: processes that make batches, 0 for threads.
        cache: "", or what becomes of a cache on disk: "roomy", "tight" (too small by its limit), "disk" (by its disk).
    """

    name: str
    web: bool = False
    workers: int = 0
    cache: str = ""

    @contextmanager
    def opened(self, places: Places, *, hasty: bool) -> Iterator[Any]:
        """The loader; all that it holds ends with the block."""
        read = Reading(**(AHEAD if self.web else BLOCK), **self._cached(places), remote=HASTY if hasty else PATIENT)
        urls = places.url if self.web else str(places.folder)
        with contextlib.ExitStack() as stack:
            if self.workers:
                dataset = stack.enter_context(ShardDataset(urls, read=read, **OPTIONS))
                yield stack.enter_context(resumable(DataLoader(dataset, batch_size=None, num_workers=self.workers)))
            else:
                yield stack.enter_context(ShardLoader(urls, read=read, threads=2, **OPTIONS))

    def _cached(self, places: Places) -> dict[str, Any]:
        if self.cache == "disk":
            return {"cache_dir": places.disk}
        tight = {"cache_bytes": places.cache_bytes} if self.cache == "tight" else {}
        return {"cache_dir": places.cache, **tight} if self.cache else {}


FEEDS = (
    Feed(name="folder"),
    Feed(name="folder, workers", workers=WORKERS),
    Feed(name="web", web=True),
    Feed(name="web, cache", web=True, cache="roomy"),
    Feed(name="web, tight cache", web=True, cache="tight"),
    Feed(name="web, full disk", web=True, cache="disk"),
    Feed(name="web, cache, workers", web=True, cache="roomy", workers=WORKERS),
    Feed(name="web, full disk, workers", web=True, cache="disk", workers=WORKERS),
)


def plain(folder: Path) -> ShardLoader:
    """A loader of the same plan over shards that nothing happens to."""
    return ShardLoader(str(folder), read=Reading(**BLOCK), threads=1, **OPTIONS)

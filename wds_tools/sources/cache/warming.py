"""Whole shards into the cache before training needs them: the work of `wds cache warm`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wds_tools.sources.base import Source
from wds_tools.sources.cache.file import CachedFile
from wds_tools.sources.pool import map_in_order

__all__ = ["Open", "Warmed", "warm"]

_STEP = 16 << 20
"""Bytes between two advances."""


class Open(Protocol):
    """`DiskCache.open`."""

    def __call__(
        self, url: str, *, size: int | None, version: str | None, inner: Source, dataset: str
    ) -> CachedFile: ...


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """What is in the cache now, of what was asked for.

    Attributes:
        shards: how many were asked for.
        whole: how many are wholly in the cache.
        bytes: of all.
        kept: of these bytes as many as were found in the cache or put there.
    """

    shards: int
    whole: int
    bytes: int
    kept: int


def warm(
    open_cached: Open,
    shards: Sequence[tuple[str, int | None]],
    opener: Callable[[str], Source],
    *,
    dataset: str,
    advance: Callable[[int], object],
    threads: int,
) -> Warmed:
    """Fetch whole shards, several at a time, each until the cache has no more room.

    Args:
        open_cached: `DiskCache.open`.
        shards: url and bytes of each; None where the origin has to be asked.
        opener: opens the origin of a url.
        dataset: what they belong to.
        advance: called with bytes that are there, from any thread.
        threads: shards at once.

    Raises:
        What the origin raises; the first error in order, after which no other shard is begun.
    """

    def whole(shard: tuple[str, int | None]) -> tuple[int, int]:
        url, size = shard
        with open_cached(url, size=size, version=None, inner=opener(url), dataset=dataset) as file:
            for start in range(0, file.size(), _STEP):
                length = min(_STEP, file.size() - start)
                if not file.fetch(start, length):
                    return file.size(), start
                advance(length)
            return file.size(), file.size()

    done = map_in_order(whole, shards, threads=threads)
    return Warmed(
        shards=len(shards),
        whole=sum(size == kept for size, kept in done),
        bytes=sum(size for size, _ in done),
        kept=sum(kept for _, kept in done),
    )

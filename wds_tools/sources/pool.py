"""A few threads over a list: for waiting on many files at once. The one place in wds_tools that starts threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_in_order"]

T = TypeVar("T")
R = TypeVar("R")


def map_in_order(function: Callable[[T], R], items: Sequence[T], *, threads: int = 8) -> list[R]:
    """[function(item) for item in items], several at a time; of several errors the first in order is raised."""
    if len(items) < 2 or threads < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(max_workers=min(threads, len(items)), thread_name_prefix="shardstream-index")
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)

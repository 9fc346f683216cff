"""What a cache did, counted over the threads of one process without a lock.

A lock could be held by another thread at a fork, and would then block the child for ever. So each thread has a row of
its own; the sum may lag behind a thread that is counting just now. A forked child begins at zero.
"""

from __future__ import annotations

from os import getpid
from threading import get_ident
from typing import Literal, TypeAlias

__all__ = ["Counts", "What"]

What: TypeAlias = Literal["fetched", "streamed", "requests", "damaged"]
"""Bytes fetched into the cache, bytes that went past it, requests for either, extents that were damaged."""

_NAMES: tuple[What, ...] = ("fetched", "streamed", "requests", "damaged")


class Counts:
    """The counts of one process."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], dict[What, int]] = {}

    def add(self, what: What, number: int) -> None:
        """Count `number` more."""
        mine = getpid(), get_ident()
        if mine not in self._rows:
            self._rows[mine] = dict.fromkeys(_NAMES, 0)
        self._rows[mine][what] += number

    def total(self) -> dict[What, int]:
        """The sums so far."""
        mine = getpid()
        rows = [row for (process, _), row in list(self._rows.items()) if process == mine]
        return {name: sum(row[name] for row in rows) for name in _NAMES}

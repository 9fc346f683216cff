"""What lies in a cache, and how it is emptied: the work of `wds cache info` and `wds cache clear`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wds_tools.errors import UnavailableError
from wds_tools.sources.cache.groups import ages, groups, remove_entry, remove_idle_lists
from wds_tools.sources.cache.inspection import entries, inspect
from wds_tools.sources.cache.ledger import Ledger
from wds_tools.sources.cache.names import url_prefix

__all__ = ["CacheInfo", "Cleared", "DatasetInfo", "clear", "info"]


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One dataset in a cache; a shard that belongs to several is counted in each.

    Attributes:
        name: its first shard and how many more, or what the caller named it.
        shards: how many have an entry.
        bytes: of its shards that are here.
        of: the bytes of those shards in all.
        used_at: when it was last taken up, seconds since 1970.
        in_use: whether a process uses it now.
    """

    name: str
    shards: int
    bytes: int
    of: int
    used_at: float
    in_use: bool


@dataclass(frozen=True, kw_only=True)
class CacheInfo:
    """The bytes of shards in a cache.

    Attributes:
        folder: where they lie.
        shards: entries.
        whole: entries whose bytes are all here.
        bytes: of shards that are here.
        booked: bytes that count against the limit: with what is being fetched, and the entries' own records.
        on_disk: bytes that the file system has given out for them.
        datasets: by dataset, the longest unused first.
    """

    folder: str
    shards: int
    whole: int
    bytes: int
    booked: int
    on_disk: int
    datasets: tuple[DatasetInfo, ...]


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What was removed: entries and the bytes booked for them; and entries kept because a process uses them."""

    shards: int
    bytes: int
    in_use: int


def info(folder: Path) -> CacheInfo:
    """What lies in the folder of a cache; nothing, if it is not there."""
    found = {path.name: each for path in entries(folder) if (each := inspect(path)) is not None}
    datasets = []
    for group in groups(folder):
        members = [found[name] for name in group.names if name in found]
        datasets.append(
            DatasetInfo(
                name=group.title,
                shards=len(members),
                bytes=sum(each.present for each in members),
                of=sum(each.header.size for each in members),
                used_at=group.used_at,
                in_use=group.in_use,
            )
        )
    return CacheInfo(
        folder=str(folder),
        shards=len(found),
        whole=sum(each.present == each.header.size for each in found.values()),
        bytes=sum(each.present for each in found.values()),
        booked=sum(each.cost for each in found.values()),
        on_disk=sum(each.on_disk for each in found.values()),
        datasets=tuple(sorted(datasets, key=lambda each: each.used_at)),
    )


def clear(ledger: Ledger, urls: Sequence[str] | None) -> Cleared:
    """Remove the entries that no process uses, or of these those of `urls`.

    Raises:
        UnavailableError: the folder cannot be written.
    """
    prefixes = None if urls is None else {url_prefix(url) for url in urls}
    shards = count = in_use = 0
    if not ledger.folder.exists():
        return Cleared(shards=0, bytes=0, in_use=0)
    try:
        with ledger.locked() as balance:
            age = ages(ledger.folder)
            for path in entries(ledger.folder, tidy=True):
                if prefixes is not None and not any(map(path.name.startswith, prefixes)):
                    continue
                if age.get(path.name) == math.inf:
                    in_use += 1
                    continue
                count += remove_entry(balance, path)
                shards += 1
            remove_idle_lists(balance)
            balance.recount()
    except OSError as error:
        raise UnavailableError(f"cannot be cleared: {error.strerror or error}", url=str(ledger.folder)) from error
    return Cleared(shards=shards, bytes=count, in_use=in_use)

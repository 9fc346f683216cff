"""The open shards of a dataset, shared by the threads that read them.

A local shard holds a descriptor, so only so many stay open; it is closed when the last thread that reads it lets go. A
remote one holds none, but knows which version of the object it began with, and so stays open to the end. With a cache
on disk, remote shards are opened through it.
"""

from __future__ import annotations

import resource
import threading
import weakref
from functools import cached_property

from loaders.engine import closed_meanwhile
from loaders.reading import Reading
from wds_tools.dataset import Dataset
from wds_tools.shard import link_targets
from wds_tools.sources.base import Lending, Scattering, Source
from wds_tools.sources.cache import DiskCache, dataset_of

__all__ = ["OpenShard", "OpenShards"]

_MAX_OPEN = 1024


class OpenShard:
    """Holds an open shard. Closed when the last thread that uses it lets go, which reference counts know exactly."""

    __slots__ = ("__weakref__", "lender", "scatter", "source", "targets", "url")

    def __init__(self, source: Source, url: str) -> None:
        self.url = url
        self.source = source
        self.scatter = source.scatter if isinstance(source, Scattering) else None
        self.lender = source if isinstance(source, Lending) else None
        self.targets = link_targets(source)
        weakref.finalize(self, source.close)


class OpenShards:
    """Opens shards by their number in the dataset. Safe for many threads.

    Attributes:
        remote: which shards are remote, bool (S,).
        cache: where those are kept, None where nowhere.
    """

    def __init__(self, dataset: Dataset, read: Reading) -> None:
        self._dataset = dataset
        self.remote = dataset.remote_shards
        self.cache = DiskCache(read.cache, read.cache_bytes) if read.cache and self.remote.any() else None
        self._open: dict[int, OpenShard] = {}
        self._away: weakref.WeakSet[OpenShard] = weakref.WeakSet()  # remote ones, also those that only a thread has
        self._held: weakref.WeakSet[OpenShard] = weakref.WeakSet()  # those with a descriptor, likewise
        self._closing = threading.Event()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = max(16, min(_MAX_OPEN, soft // 4))
        self._most_lent = max(self._limit, soft // 2)

    def source(self, shard: int) -> Source:
        """The shard as a source; it stays open for as long as a thread reads from it."""
        return self.open(shard).source

    def open(self, shard: int) -> OpenShard:
        """The shard, opened if it is not.

        Raises:
            StaleIndexError: it has another size than was indexed.
            UnavailableError: it cannot be opened.
            UsageError: it is remote, and the loader was closed meanwhile.
        """
        opened = self._open.get(shard)
        if opened is not None:
            return opened
        remote = bool(self.remote[shard])
        if remote and self._closing.is_set():
            raise closed_meanwhile()
        opened = OpenShard(self._opened(shard, remote=remote), self._dataset.urls[shard])
        if remote:
            self._away.add(opened)
            if self._closing.is_set():  # meanwhile
                opened.source.close()
        if not remote or self.cache is not None:  # it holds a descriptor
            self._held.add(opened)
            for old in list(self._open)[: max(0, len(self._open) + 1 - self._limit)]:  # the oldest, opened long ago
                self._open.pop(old, None)
        return self._open.setdefault(shard, opened)  # where two threads opened it at once, one copy closes at once

    def open_with_others(self, shard: int) -> OpenShard | None:
        """As `open`, for who wants many at once; None where too many are held already, of which one at a time is read.

        With 64 threads that hold 16 each, the 1,024 files that a process may have open by default would be too few.
        """
        return self._open.get(shard) or (self.open(shard) if len(self._held) < self._most_lent else None)

    def _opened(self, shard: int, *, remote: bool) -> Source:
        source, cache = self._dataset.open_shard(shard), self.cache if remote else None
        if cache is None:
            return source
        size = int(self._dataset.sizes[shard])
        return cache.open(source.url, size=size, version=None, inner=source, dataset=self._name)

    @cached_property
    def _name(self) -> str:
        """What the cache knows the dataset by."""
        return dataset_of(self._dataset.urls)

    def close(self) -> None:
        """Close what no thread is reading from any more; remote shards even so, which ends what waits for them."""
        self._closing.set()
        self._open.clear()
        for opened in list(self._away):
            opened.source.close()
        if self.cache is not None:
            self.cache.close()

"""Where the samples of shards lie: a dataset's index, or that of compressed shards that were unpacked for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardwriter.inputs.spool import Spool
from shardwriter.inputs.unpacked import SpooledFile, unpack
from wds_tools.addresses import scheme
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import ShardError
from wds_tools.shard import scan
from wds_tools.sources.base import Source
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source
from wds_tools.tar.compressed import compression
from wds_tools.urls import Urls, expand

__all__ = ["Table", "open_table"]

_PACKED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """Shards of which some are compressed, and what came of these.

    Attributes:
        urls: the shards.
        rows: for each the offsets of its samples and the end.
        files: the unpacked ones by the shard's number.
        spool: where these lie.
    """

    urls: Sequence[str]
    rows: Sequence[npt.NDArray[np.uint64]]
    files: Mapping[int, SpooledFile]
    spool: Spool


class Table:
    """Shards and the offsets of their samples. Picklable where none had to be unpacked.

    Attributes:
        urls: the shards.
        starts: int64 (S + 1,), the number of each shard's first sample, and the number of samples.
        ends: int64 (S,), where the last sample of each shard ends.
        listing: the facts of the one dataset.json; empty without one.
    """

    def __init__(self, index: Dataset | Unpacked, remote: Remote | None) -> None:
        self._index = index
        self._remote = remote
        self.urls = index.urls
        if isinstance(index, Unpacked):
            self._offsets = np.concatenate(index.rows)
            self.starts = np.cumsum([0, *(len(row) - 1 for row in index.rows)], dtype=np.int64)
            self.listing: Mapping[str, Any] = {}
        else:
            self._offsets, self.starts, self.listing = index.offsets, index.starts, index.listing
        self.ends = self._offsets[self.starts[1:] + np.arange(len(self.urls))].astype(np.int64)

    def range(self, shard: int, number: int) -> tuple[int, int]:
        """The bytes of the sample with this number of the dataset, which lies in this shard."""
        place = number + shard  # each shard before it has one offset more than samples
        return int(self._offsets[place]), int(self._offsets[place + 1])

    def offsets(self, shard: int, number: int, count: int) -> list[int]:
        """Where so many samples of a shard begin, from the one with this number of the dataset on, and the end."""
        place = number + shard
        found: list[int] = self._offsets[place : place + count + 1].tolist()
        return found

    def open(self, shard: int) -> Source:
        """Open a shard.

        Raises:
            StaleIndexError: it is not the one that was indexed. UnavailableError: it cannot be opened.
        """
        if isinstance(self._index, Unpacked):
            found = self._index.files.get(shard)
            return open_source(self.urls[shard], remote=self._remote) if found is None else found
        source = open_source(self.urls[shard], remote=self._remote)
        try:
            self._index.check_shard(shard, source)
        except BaseException:
            source.close()
            raise
        return source

    def close(self) -> None:
        """Give the temporary file back. Twice does nothing."""
        if isinstance(self._index, Unpacked):
            self._index.spool.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self._index, self._remote)


def open_table(urls: Urls, *, temporary: str | os.PathLike[str] | None, remote: Remote | None) -> Table:
    """Find the samples of shards.

    Raises:
        UsageError, ShardError, ListingError, UnavailableError: as `open_dataset`, and where the disk has no room for
            what is unpacked.
    """
    urls = urls if isinstance(urls, str | os.PathLike) else list(urls)
    shards = expand(urls, remote=remote)
    if not any(shard.lower().endswith(_PACKED) for shard in shards):
        try:
            dataset = open_dataset(urls, remote=remote)
            return Table(dataset, remote)
        except ShardError:
            if not any(_is_packed(shard, remote) for shard in shards):  # by content: names are not always right
                raise
    return _unpacked(shards, Spool(temporary), remote)


def _is_packed(shard: str, remote: Remote | None) -> bool:
    with open_source(shard, remote=remote) as source:
        return compression(source) is not None


def _unpacked(shards: Sequence[str], spool: Spool, remote: Remote | None) -> Table:
    rows: list[npt.NDArray[np.uint64]] = []
    spooled: dict[int, SpooledFile] = {}
    try:
        for number, shard in enumerate(shards):
            with open_source(shard, remote=remote) as source:
                found = unpack(source, spool)
            if found is None:
                rows.append(open_dataset(Path(shard) if scheme(shard) is None else shard, remote=remote).offsets)
            else:
                spooled[number] = found
                rows.append(scan(found).offsets)
        return Table(Unpacked(urls=shards, rows=rows, files=spooled, spool=spool), remote)
    except BaseException:
        spool.close()
        raise

"""A dataset: its shards, how many samples each holds, and where each sample lies.

Opened from a listing (`dataset.json`) in a time that hardly depends on the number of samples, since the offsets are
mapped; from bare shards by the listing beside them, else by their sidecars, else by one scan whose result is kept in
the user's cache directory (see `parts` and `index`). Per sample there are 8 bytes in a mapped file and no Python
object; per shard a few numbers and the bytes of its url. A pickle carries the urls, the counts and the name of the
offsets file.

A listing is checked on opening against its offsets (length, first and last offset of each shard, file sizes); each
sample's range when it is located; a shard's file when it is opened (`check_shard`), because asking a network disk for
20,000 sizes at the start takes minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wds_tools import addresses
from wds_tools.errors import StaleIndexError, UsageError, counted, public
from wds_tools.index.beside import warn_of_unlisted
from wds_tools.index.cache import IndexCache, default_cache_dir
from wds_tools.index.fetched import Files
from wds_tools.index.listing import Listing, ShardRecord, write_listing
from wds_tools.index.offsets import OffsetArray
from wds_tools.index.parts import Ints, Part, joined, listed_parts, named_parts
from wds_tools.sources.base import Expecting, Source
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source
from wds_tools.urls import Place, Urls, places, refuse_duplicates

__all__ = ["Dataset", "ShardRecord", "join_datasets", "open_dataset", "write_listing"]


class Dataset:
    """The shards of a dataset and where their samples lie. Made by `open_dataset`; not changed afterwards.

    Attributes:
        urls: the shards, absolute.
        counts: int64 (S,), samples of each shard.
        sizes: int64 (S,), bytes of each shard's file.
        starts: int64 (S + 1,), the dataset's number of each shard's first sample, and the number of samples.
        listing: the keys of its dataset.json without the shards; empty without a listing.
        place: where that dataset.json lies; None without one, or with several.
        remote: how remote shards are asked for; None means the defaults.
    """

    def __init__(
        self, part: Part, *, listing: Mapping[str, Any], place: str | None = None, remote: Remote | None = None
    ) -> None:
        self.urls: Sequence[str] = part.urls
        self.counts: Ints = part.counts
        self.sizes: Ints = part.sizes
        self.starts: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(part.counts, dtype=np.int64)])
        self.listing: Mapping[str, Any] = listing
        self.place = place
        self.remote = remote
        self._part = part
        for array in (self.counts, self.sizes, self.starts):
            array.flags.writeable = False

    @property
    def offsets(self) -> OffsetArray:
        """uint64 (N + S,), read-only: for each shard in turn its samples' first headers and the end."""
        return self._part.offsets.array

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes by label, None where unknown."""
        names = self.listing.get("classes")
        return tuple(map(str, names)) if isinstance(names, list) else None

    @property
    def shuffled(self) -> bool | None:
        """Whether the samples were put into the shards in shuffled order, None where unknown."""
        value = self.listing.get("shuffled")
        return value if isinstance(value, bool) else None

    @cached_property
    def remote_shards(self) -> npt.NDArray[np.bool_]:
        """Which shards are no files of this machine, bool (S,)."""
        if not self._part.urls.mentions("://"):
            return np.zeros(len(self.urls), dtype=np.bool_)
        return np.fromiter(map(addresses.is_remote, self.urls), np.bool_, len(self.urls))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        kind, size = type(self).__name__, int(self.sizes.sum())
        return f"<{kind} {counted(len(self), 'sample')} in {counted(len(self.urls), 'shard')}, {size:,} bytes>"

    def _repr_html_(self) -> str:
        from wds_tools.show.cards import facts_html, titled
        from wds_tools.show.words import one_line, size

        rows = [
            ("samples", f"{len(self):,}"),
            ("shards", f"{len(self.urls):,}"),
            ("bytes", size(int(self.sizes.sum()))),
        ]
        rows += [("first shard", public(self.urls[0]))] if len(self.urls) else []
        rows += [("classes", one_line(f"{len(self.classes):,}: {', '.join(self.classes)}"))] if self.classes else []
        rows += [("order", "shuffled when packed" if self.shuffled else "not shuffled")] * (self.shuffled is not None)
        return titled(type(self).__name__, facts_html(rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._part, dict(self.listing), self.place, self.remote)

    def locate(self, ids: npt.ArrayLike) -> tuple[Ints, Ints, Ints]:
        """Where the samples with these numbers lie.

        Args:
            ids: int64 (k,), each in 0..N-1, in any order.

        Returns:
            (shard, begin, end), int64 (k,) each: the shard's number and the sample's range of bytes in it.

        Raises:
            UsageError: a number outside the dataset.
            StaleIndexError: a range that cannot be.
        """
        ids = np.asarray(ids, dtype=np.int64)
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(self):
            raise UsageError(f"samples {int(ids.min())} to {int(ids.max())} of a dataset of {len(self)}")
        shard = self.shards_of(ids)
        where = ids + shard  # each shard before it has one number more than samples
        begin, end = self.offsets[where].astype(np.int64), self.offsets[where + 1].astype(np.int64)
        bad = (begin < 0) | (begin >= end) | (end > self.sizes[shard])
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            size = self.sizes[shard[at]]
            problem = f"the index says that a sample lies from {begin[at]} to {end[at]} in {size} bytes"
            raise StaleIndexError(problem, url=self.urls[int(shard[at])], cure=self._cure())
        return shard, begin, end

    def shards_of(self, ids: Ints) -> Ints:
        """The number of the shard in which each of these samples lies, int64 (k,) to int64 (k,)."""
        shards: Ints = np.searchsorted(self.starts, ids, side="right") - 1
        return shards

    def open_shard(self, shard: int) -> Source:
        """Open a shard and check that it is the one that was indexed; the caller closes it.

        Raises:
            StaleIndexError: it has another size. Of a remote one the first read says so: opening it asks nothing.
            UnavailableError: it cannot be opened.
        """
        source = open_source(self.urls[shard], remote=self.remote)
        try:
            self.check_shard(shard, source)
        except BaseException:
            source.close()
            raise
        return source

    def check_shard(self, shard: int, source: Source) -> None:
        """Check that an opened shard is the one that was indexed; to be called once for each open file.

        Raises:
            StaleIndexError: it has another size.
        """
        expected = int(self.sizes[shard])
        if isinstance(source, Expecting):
            source.expect(size=expected)
            return
        found = source.size()
        if expected != found:
            problem = f"the index is of a shard with {expected:,} bytes, this has {found:,}"
            raise StaleIndexError(problem, url=self.urls[shard], cure=self._cure())

    def _cure(self) -> str:
        if self.place is None:
            return "The shard was written again since this dataset was opened: open it again"
        return f"Copy the shard again if it was cut, else make the index again: `wds index --force {self.place}`"


def _rebuild(part: Part, listing: dict[str, Any], place: str | None, remote: Remote | None) -> Dataset:
    return Dataset(part, listing=listing, place=place, remote=remote)


def open_dataset(urls: Urls, *, cache_dir: Path | None = None, remote: Remote | None = None) -> Dataset:
    """Open the dataset that `urls` mean (see the module `urls`): listings, or shards, or a list of both.

    Args:
        urls: a string with braces, a glob, a folder, a listing, a Path, or a list of these.
        cache_dir: where indexes are kept (in `index/`); the user's cache directory by default.
        remote: how remote hosts are asked; the defaults where None.

    Raises:
        NoShardsError: nothing matches.
        ShardMissingError: shards that are named and do not exist.
        ListingError: a listing that was asked for is damaged (StaleIndexError: does not fit its offsets or its shards).
        ShardError: a shard that had to be scanned is no whole tar, or is compressed.
    """
    cache = IndexCache(default_cache_dir() if cache_dir is None else cache_dir)
    files = Files(cache, remote)
    parts: list[Part] = []
    listings: list[Listing] = []
    facts: list[Mapping[str, Any]] = []
    for listed, run in groupby(places(urls, remote=remote), key=lambda place: place.listing):
        if listed:
            found = [_read(place, files) for place in run]
            parts += [part for listing in found for part in listed_parts(listing, cache, files)]
            listings += found
            facts += [listing.facts for listing in found]
        else:
            named = named_parts([place.url for place in run], cache, files)
            parts += named
            facts += [part.facts or {} for part in named]
    refuse_duplicates([url for part in parts for url in part.urls])
    place = listings[0].place if len(facts) == len(listings) == 1 else None
    return Dataset(joined(parts, cache), listing=_common(facts), place=place, remote=remote)


def _read(place: Place, files: Files) -> Listing:
    listing = files.listing(addresses.absolute(place.url))
    if place.folder:
        warn_of_unlisted(listing.place, listing.urls)
    return listing


def join_datasets(datasets: Sequence[Dataset], *, cache_dir: Path | None = None) -> Dataset:
    """Several datasets behind one another as one, for mixes: sample numbers run on, shards may come twice.

    Args:
        datasets: at least one.
        cache_dir: where a large row of joined offsets is kept, as for `open_dataset`.
    """
    first, *others = datasets
    if not others:
        return first
    cache = IndexCache(default_cache_dir() if cache_dir is None else cache_dir)
    listing = _common([each.listing for each in datasets])
    if any(each.remote != first.remote for each in others):
        raise UsageError("datasets with different `remote` options cannot be joined", cure="Give all the same.")
    parts = [each._part for each in datasets]  # noqa: SLF001 - the same class
    return Dataset(joined(parts, cache), listing=listing, remote=first.remote)


def _common(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts on which all agree."""
    first, *others = facts
    return {key: value for key, value in first.items() if all(key in each and each[key] == value for each in others)}

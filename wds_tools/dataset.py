"""A dataset: its shards, how many samples each holds, and where each sample lies.

Opened from a listing (`dataset.json`) in a time that hardly depends on the number of samples, since the offsets are
mapped; from bare shards by the listing beside them, else by their sidecars, else by one scan whose result is kept in
the user's cache directory (see `index`). Per sample there are 8 bytes in a mapped file and no Python object; per shard
a few numbers and the bytes of its url. A pickle carries the urls, the counts and the name of the offsets file.

A listing is checked on opening against its offsets (length, first and last offset of each shard, file sizes); each
sample's range when it is located; a shard's file when it is opened (`check_shard`), because asking a network disk for
20,000 sizes at the start takes minutes. Shards that are named without their listing are looked at at the start, and a
listing beside them that does not fit their sizes is passed over.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wds_tools import addresses
from wds_tools.errors import ListingError, ShardstreamError, StaleIndexError, UsageError
from wds_tools.index import file_facts, index_shards
from wds_tools.index_cache import FileFacts, IndexCache, default_cache_dir
from wds_tools.listing import LISTING_NAME, Listing, ShardRecord, ends_crc, read_listing, write_listing
from wds_tools.offsets import OffsetArray, Offsets, map_offsets
from wds_tools.packed import PackedStrings
from wds_tools.sources.base import Source
from wds_tools.urls import Urls, places, refuse_duplicates

__all__ = ["Dataset", "ShardRecord", "open_dataset", "write_listing"]

Ints = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)
_SMALL = 1 << 16  # offsets up to 512 KiB are simply kept in memory and in the pickle


class Dataset:
    """The shards of a dataset and where their samples lie. Made by `open_dataset`; not changed afterwards.

    Attributes:
        urls: the shards, absolute.
        counts: int64 (S,), samples of each shard.
        sizes: int64 (S,), bytes of each shard's file.
        starts: int64 (S + 1,), the dataset's number of each shard's first sample, and the number of samples.
        listing: the keys of its dataset.json without the shards; empty without a listing.
        classes: names of the classes by label, None where unknown.
        shuffled: whether the samples were put into the shards in shuffled order, None where unknown.
    """

    def __init__(
        self,
        urls: Sequence[str],
        counts: Ints,
        sizes: Ints,
        offsets: Offsets,
        *,
        listing: Mapping[str, Any],
        place: str | None = None,
    ) -> None:
        self.urls: Sequence[str] = urls if isinstance(urls, PackedStrings) else PackedStrings(urls)
        self.counts = counts
        self.sizes = sizes
        self.starts: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        self.listing: Mapping[str, Any] = listing
        self._offsets = offsets
        self._place = place
        for array in (self.counts, self.sizes, self.starts):
            array.flags.writeable = False

    @property
    def offsets(self) -> OffsetArray:
        """uint64 (N + S,), read-only: for each shard in turn its samples' first headers and the end."""
        return self._offsets.array

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes by label."""
        names = self.listing.get("classes")
        return tuple(map(str, names)) if isinstance(names, list | tuple) else None

    @property
    def shuffled(self) -> bool | None:
        """Whether the shards were filled in shuffled order."""
        value = self.listing.get("shuffled")
        return value if isinstance(value, bool) else None

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self):,} samples in {len(self.urls):,} shards, {int(self.sizes.sum()):,} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.urls, self.counts, self.sizes, self._offsets, dict(self.listing), self._place)

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
        shard = np.searchsorted(self.starts, ids, side="right") - 1
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(self):
            raise UsageError(f"sample {int(ids.min())} or {int(ids.max())} of a dataset with {len(self)} samples")
        where = ids + shard  # each shard before it has one number more than samples
        offsets = self._offsets.array
        begin, end = offsets[where].astype(np.int64), offsets[where + 1].astype(np.int64)
        bad = (begin < 0) | (begin >= end) | (end > self.sizes[shard])
        if bad.any():
            raise self._cannot_be(int(np.flatnonzero(bad)[0]), shard, begin, end)
        return shard, begin, end

    def _cannot_be(self, at: int, shard: Ints, begin: Ints, end: Ints) -> StaleIndexError:
        problem = f"the index says that a sample lies from {begin[at]} to {end[at]} in {self.sizes[shard[at]]} bytes"
        return StaleIndexError(problem, url=self.urls[int(shard[at])], cure=self._cure())

    def check_shard(self, shard: int, source: Source) -> None:
        """Check that an opened shard is the one that was indexed; to be called once for each open file.

        Raises:
            StaleIndexError: it has another size.
        """
        expected, found = int(self.sizes[shard]), source.size()
        if expected != found:
            problem = f"the index is of a shard with {expected:,} bytes, this has {found:,}"
            raise StaleIndexError(problem, url=self.urls[shard], cure=self._cure())

    def _cure(self) -> str:
        if self._place is None:
            return "The shard was written again since this dataset was opened: open it again"
        return f"Copy the shard again if it was cut, else make the index again: `wds index --force {self._place}`"


def _rebuild(
    urls: PackedStrings, counts: Ints, sizes: Ints, offsets: Offsets, listing: dict[str, Any], place: str | None
) -> Dataset:
    return Dataset(urls, counts, sizes, offsets, listing=listing, place=place)


class _Part(NamedTuple):
    """Shards that were found together."""

    urls: Sequence[str]
    counts: Ints
    sizes: Ints
    offsets: Offsets


def open_dataset(urls: Urls, *, cache_dir: Path | None = None) -> Dataset:
    """Open the dataset that `urls` mean (see `urls`): listings, or shards, or a list of both.

    Args:
        urls: a string with braces, a glob, a folder, a listing, a Path, or a list of these.
        cache_dir: where indexes are kept; the user's cache directory by default.

    Raises:
        NoShardsError: nothing matches.
        ShardMissingError: shards that are named and do not exist.
        ListingError: a listing that was asked for is damaged (StaleIndexError: does not fit its offsets or its shards).
        ShardError: a shard that had to be scanned is no whole tar, or is compressed.
    """
    cache = IndexCache(default_cache_dir() if cache_dir is None else cache_dir)
    parts: list[_Part] = []
    listings: list[Listing | None] = []
    for listed, group in groupby(places(urls), key=lambda place: place.listing):
        for run in [[place] for place in group] if listed else [list(group)]:
            listing = read_listing(os.path.abspath(run[0].url)) if listed else None  # noqa: PTH100
            parts += _listed(listing, cache) if listing else _named([place.url for place in run], cache)
            listings.append(listing)
    refuse_duplicates([url for part in parts for url in part.urls])
    part = _joined(parts, cache)
    facts, place = _facts_of(listings)
    return Dataset(part.urls, part.counts, part.sizes, part.offsets, listing=facts, place=place)


def _facts_of(listings: list[Listing | None]) -> tuple[Mapping[str, Any], str | None]:
    """The facts of the one listing, or those on which several agree."""
    first = listings[0]
    if first is None or any(listing is None for listing in listings):
        return {}, None
    facts = {
        key: value
        for key, value in first.facts.items()
        if all(each and each.facts.get(key) == value for each in listings)
    }
    return facts, first.place if len(listings) == 1 else None


def _listed(listing: Listing, cache: IndexCache) -> list[_Part]:
    """The shards of a listing that was asked for: it must fit."""
    refuse_duplicates(listing.urls)
    cure = f"Make it again with `wds index --force {listing.place}`"
    try:
        if listing.offsets is not None:
            return [_mapped(listing)]
        parts = _named(listing.urls, cache, beside=False)
        _compare(listing, _joined(parts, cache))
    except ListingError as error:
        raise error.at(url=listing.place, cure=cure) from None
    return parts


def _mapped(listing: Listing) -> _Part:
    """The shards of a listing with offsets, these checked against it."""
    counts, sizes = listing.counts, listing.sizes
    if listing.offsets is None or int(sizes.min()) < 0:
        raise ListingError("a listing with offsets must say the filesize of each shard")
    offsets = map_offsets(listing.offsets, length=int(counts.sum()) + len(counts))
    begin = np.cumsum(counts + 1) - counts - 1
    first, last = offsets.array[begin], offsets.array[begin + counts]
    bad = (first > last) | ((first == last) & (counts > 0)) | (last > sizes.astype(np.uint64))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise StaleIndexError(
            f"the offsets say {first[at]} to {last[at]} for a shard of {sizes[at]} bytes with {counts[at]} samples",
            url=listing.urls[at],
        )
    if listing.crc is not None and ends_crc(first, last) != listing.crc:
        raise StaleIndexError("the offsets file is of another listing (offsets_crc32 differs)", url=listing.offsets)
    return _Part(_absolute(listing.urls), counts, sizes, offsets)


def _absolute(urls: Sequence[str]) -> Sequence[str]:
    return PackedStrings(os.path.abspath(url) if addresses.scheme(url) is None else url for url in urls)  # noqa: PTH100


def _compare(listing: Listing, part: _Part) -> None:
    """Check a listing without offsets against what was found in the shards."""
    sizes = np.where(listing.sizes < 0, part.sizes, listing.sizes)
    for what, stated, found in (("bytes", sizes, part.sizes), ("samples", listing.counts, part.counts)):
        if (differ := np.flatnonzero(stated != found)).size:
            at = int(differ[0])
            raise StaleIndexError(
                f"the listing says {stated[at]:,} {what}, the shard has {found[at]:,}", url=listing.urls[at]
            )


def _named(urls: Sequence[str], cache: IndexCache, *, beside: bool = True) -> list[_Part]:
    """Shards named one by one: by the listing beside them where there is one that fits, else indexed."""
    facts = file_facts(urls)
    parts: list[_Part] = []
    loose: list[FileFacts] = []
    for folder, group in groupby(facts, key=lambda fact: os.path.dirname(fact.path)):  # noqa: PTH120
        run = list(group)
        found = _beside(folder, run) if beside else None
        if found is None:
            loose += run
            continue
        parts += [_indexed(loose, cache)] if loose else []
        parts += found
        loose = []
    return parts + ([_indexed(loose, cache)] if loose else [])


def _beside(folder: str, facts: list[FileFacts]) -> list[_Part] | None:
    """What the listing in `folder` says of these shards, as runs that lie together in its offsets; None if unfit."""
    place = os.path.join(folder, LISTING_NAME)  # noqa: PTH118
    if not os.path.isfile(place):  # noqa: PTH113
        return None
    try:
        listing = read_listing(place)
        if listing.offsets is None:
            return None
        rows = {url: at for at, url in enumerate(listing.urls)}
        chosen = [rows.get(fact.path, -1) for fact in facts]
        if min(chosen) < 0 or any(listing.sizes[at] != fact.size for at, fact in zip(chosen, facts, strict=True)):
            _log.warning("%s is passed over: it does not list these shards with their sizes", ascii(place))
            return None
        whole = _mapped(listing)
    except ShardstreamError as error:
        _log.warning("%s is passed over: %s", ascii(place), error)
        return None
    return list(_runs(whole, chosen))


def _runs(whole: _Part, chosen: list[int]) -> Iterator[_Part]:
    begins = np.concatenate([[0], np.cumsum(whole.counts + 1)])
    for _, group in groupby(enumerate(chosen), key=lambda pair: pair[1] - pair[0]):
        run = [at for _, at in group]
        part = slice(run[0], run[-1] + 1)
        offsets = whole.offsets[int(begins[part.start]) : int(begins[part.stop])]
        yield _Part(whole.urls[part], whole.counts[part], whole.sizes[part], offsets)


def _indexed(facts: list[FileFacts], cache: IndexCache) -> _Part:
    """Shards indexed one by one, or as a set that was opened before."""
    kept = cache.load_set(facts)
    if kept is not None:
        try:
            return _mapped(kept)
        except ShardstreamError as error:
            _log.warning("a kept index is made again: %s", error)
    rows = [index.offsets for index in index_shards(facts, cache)]
    counts = np.array([len(row) - 1 for row in rows], dtype=np.int64)
    sizes = np.array([fact.size for fact in facts], dtype=np.int64)
    part = _Part(PackedStrings(fact.path for fact in facts), counts, sizes, Offsets(np.concatenate(rows)))
    if len(part.offsets) > _SMALL and cache.save_set(facts, rows):
        kept = cache.load_set(facts)
        return _mapped(kept) if kept is not None else part
    return part


def _joined(parts: list[_Part], cache: IndexCache) -> _Part:
    """Several parts as one."""
    if len(parts) == 1:
        return parts[0]
    urls = PackedStrings(url for part in parts for url in part.urls)
    counts = np.concatenate([part.counts for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    rows = [part.offsets.array for part in parts]
    if sum(map(len, rows)) > _SMALL:
        begins = np.cumsum(counts + 1) - counts - 1
        flat = np.concatenate(rows)
        key = repr((list(urls), counts.tolist(), sizes.tolist(), ends_crc(flat[begins], flat[begins + counts])))
        mapped = cache.joined(key, [flat])
        return _Part(urls, counts, sizes, mapped or Offsets(flat))
    return _Part(urls, counts, sizes, Offsets(np.concatenate(rows)))

"""The parts a dataset is made of: shards that were found together, each part with its counts, sizes and offsets.

A listing that was asked for must fit, or opening fails. Shards that are named without a listing are looked at (size
and time of each); a listing beside them that lists them with these sizes saves the scan, any other is passed over
(with a line in the log if it lists them with other sizes). Several parts are joined into one row of offsets, which lies
in the cache directory where it is large.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wds_tools import addresses
from wds_tools.errors import ListingError, ShardstreamError, StaleIndexError, counted, shown
from wds_tools.index import remote
from wds_tools.index.beside import listings_in
from wds_tools.index.cache import FileFacts, IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.find import file_facts, index_shards
from wds_tools.index.listing import Listing, ends_crc, read_listing
from wds_tools.index.offsets import Offsets
from wds_tools.index.packed import PackedStrings
from wds_tools.urls import refuse_duplicates

__all__ = ["Ints", "Part", "joined", "listed_parts", "named_parts"]

Ints = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)
_SMALL = 1 << 16  # offsets up to 512 KiB are simply kept in memory and in the pickle


class Part(NamedTuple):
    """Shards that were found together.

    Attributes:
        urls: S of them, absolute.
        counts: int64 (S,), samples of each.
        sizes: int64 (S,), bytes of each.
        offsets: for each in turn its samples' first headers and the end.
        facts: what a listing that was found beside them says of any of its shards: names of classes, order.
    """

    urls: PackedStrings
    counts: Ints
    sizes: Ints
    offsets: Offsets
    facts: Mapping[str, Any] | None = None


def listed_parts(listing: Listing, cache: IndexCache, files: Files) -> list[Part]:
    """The shards of a listing that was asked for.

    Raises:
        StaleIndexError: it does not fit its offsets or, where it has none, its shards.
    """
    refuse_duplicates(listing.urls)
    cure = f"Make it again with `wds index --force {listing.place}`"
    try:
        if listing.offsets is not None:
            return [_mapped(listing, files)]
        parts = named_parts(listing.urls, cache, files, beside=False)
        _compare(listing, joined(parts, cache))
    except ListingError as error:
        raise error.at(url=listing.place, cure=cure) from error.__cause__
    return parts


def named_parts(urls: Sequence[str], cache: IndexCache, files: Files, *, beside: bool = True) -> list[Part]:
    """Shards named one by one: by the listing beside them where there is one that fits, else indexed."""
    parts: list[Part] = []
    for away, run in groupby(urls, key=addresses.is_remote):
        of_kind = _remote_parts if away else _local_parts
        parts += of_kind(list(run), cache, files, beside=beside)
    return parts


def _remote_parts(urls: list[str], cache: IndexCache, files: Files, *, beside: bool) -> list[Part]:
    parts: list[Part] = []
    for place, run in remote.folders(urls):
        found = remote.beside(place, run, files) if beside else None
        if found is not None:
            listing, chosen = found
            whole = _mapped(listing, files)
            named = whole._replace(urls=PackedStrings(_named(whole.urls, chosen, run)))
            parts += _runs(named, chosen, listing)
            continue
        facts, rows = remote.index_remote(run, files, cache)
        counts = np.array([len(row) - 1 for row in rows], dtype=np.int64)
        sizes = np.array([fact.size for fact in facts], dtype=np.int64)
        parts.append(Part(PackedStrings(run), counts, sizes, Offsets(np.concatenate(rows))))
    return parts


def _named(listed: Sequence[str], chosen: list[int], urls: list[str]) -> list[str]:
    """The listed urls, those of the chosen ones as the user gave them."""
    names = list(listed)
    for at, url in zip(chosen, urls, strict=True):
        names[at] = url
    return names


def _local_parts(urls: list[str], cache: IndexCache, files: Files, *, beside: bool) -> list[Part]:
    facts = file_facts(urls)
    parts: list[Part] = []
    loose: list[FileFacts] = []
    for folder, group in groupby(facts, key=lambda fact: os.path.dirname(fact.path)):
        run = list(group)
        found = _beside(folder, run, files) if beside else None
        if found is None:
            loose += run
            continue
        parts += [_indexed(loose, cache)] if loose else []
        parts += found
        loose = []
    return parts + ([_indexed(loose, cache)] if loose else [])


def joined(parts: list[Part], cache: IndexCache) -> Part:
    """Several parts as one."""
    if len(parts) == 1:
        return parts[0]._replace(facts=None)  # the dataset has them
    urls = PackedStrings(url for part in parts for url in part.urls)
    counts = np.concatenate([part.counts for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    flat = np.concatenate([part.offsets.array for part in parts])
    mapped = None
    if len(flat) > _SMALL:
        begins = _begins(counts)
        crc = ends_crc(flat[begins], flat[begins + counts])
        mapped = cache.joined(repr((list(urls), counts.tolist(), sizes.tolist(), crc)), flat)
    return Part(urls, counts, sizes, mapped or Offsets(flat))


def _begins(counts: Ints) -> Ints:
    """Where in the row of offsets each shard's begin."""
    begins: Ints = np.cumsum(counts + 1) - counts - 1
    return begins


def _mapped(listing: Listing, files: Files) -> Part:
    """The shards of a listing with offsets, these checked against it."""
    if listing.offsets is None or int(listing.sizes.min()) < 0:
        raise ListingError("a listing with offsets must say the filesize of each shard")
    length = int(listing.counts.sum()) + len(listing.counts)
    try:
        return _checked(listing, files.offsets(listing.offsets, length=length))
    except StaleIndexError:
        if not addresses.is_remote(listing.offsets):
            raise
    files.forget(listing.offsets)  # what is kept may be damaged, or the host served a file that was being replaced
    return _checked(listing, files.offsets(listing.offsets, length=length))


def _checked(listing: Listing, offsets: Offsets) -> Part:
    counts, sizes = listing.counts, listing.sizes
    begins = _begins(counts)
    first, last = offsets.array[begins], offsets.array[begins + counts]
    offsets.forget()
    bad = (first > last) | ((first == last) & (counts > 0)) | (last > sizes.astype(np.uint64))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        samples = counted(int(counts[at]), "sample")
        raise StaleIndexError(
            f"the offsets say {first[at]} to {last[at]} for a shard of {sizes[at]} bytes with {samples}",
            url=listing.urls[at],
        )
    if listing.crc is not None and ends_crc(first, last) != listing.crc:
        raise StaleIndexError("the offsets file is of another listing (offsets_crc32 differs)", url=listing.offsets)
    return Part(_absolute(listing.urls), counts, sizes, offsets)


def _absolute(urls: Sequence[str]) -> PackedStrings:
    return PackedStrings(map(addresses.absolute, urls))


def _compare(listing: Listing, part: Part) -> None:
    """Check a listing without offsets against what was found in the shards."""
    sizes = np.where(listing.sizes < 0, part.sizes, listing.sizes)
    for what, stated, found in (("bytes", sizes, part.sizes), ("samples", listing.counts, part.counts)):
        if (differ := np.flatnonzero(stated != found)).size:
            at = int(differ[0])
            problem = f"the listing says {stated[at]:,} {what}, the shard has {found[at]:,}"
            raise StaleIndexError(problem, url=listing.urls[at])


def _beside(folder: str, facts: list[FileFacts], files: Files) -> list[Part] | None:
    """What a listing in `folder` says of these shards, as runs that lie together in its offsets; None if none fits."""
    for place in listings_in(folder):
        try:
            listing = read_listing(place)
            chosen = _chosen(listing, facts)
            if chosen is not None:
                return list(_runs(_mapped(listing, files), chosen, listing))
        except ShardstreamError as error:
            _log.warning("%s is passed over: %s", shown(place), error)
        else:
            _say_why(listing, facts)
    return None


def _say_why(listing: Listing, facts: list[FileFacts]) -> None:
    """A listing of other shards is none of our business; one of these as they were before is."""
    sizes = dict(zip(listing.urls, listing.sizes.tolist(), strict=True))
    unfit = [fact for fact in facts if sizes.get(fact.path, fact.size) != fact.size]
    if not unfit:
        _log.debug("%s does not list all of these shards", shown(listing.place))
        return
    first = unfit[0]
    _log.warning(
        "%s is passed over: it says %s bytes of %s, which has %s",
        shown(listing.place),
        f"{sizes[first.path]:,}",
        shown(os.path.basename(first.path)),
        f"{first.size:,}",
    )


def _chosen(listing: Listing, facts: list[FileFacts]) -> list[int] | None:
    """Which of the listing's shards these are; None if it lacks one, or says another size."""
    rows = {url: at for at, url in enumerate(listing.urls)}
    chosen = [rows.get(fact.path, -1) for fact in facts]
    fits = min(chosen) >= 0 and all(listing.sizes[at] == fact.size for at, fact in zip(chosen, facts, strict=True))
    return chosen if fits and listing.offsets is not None else None


def _runs(whole: Part, chosen: list[int], listing: Listing) -> Iterator[Part]:
    facts = {key: listing.facts[key] for key in ("classes", "shuffled") if key in listing.facts}
    begins = np.append(_begins(whole.counts), len(whole.offsets))
    for _, group in groupby(enumerate(chosen), key=lambda pair: pair[1] - pair[0]):
        run = [at for _, at in group]
        part = slice(run[0], run[-1] + 1)
        offsets = whole.offsets[int(begins[part.start]) : int(begins[part.stop])]
        yield Part(whole.urls[part], whole.counts[part], whole.sizes[part], offsets, facts)


def _indexed(facts: list[FileFacts], cache: IndexCache) -> Part:
    """Shards indexed one by one, or as a set that was opened before."""
    kept = _kept_set(facts, cache)
    if kept is not None:
        return kept
    rows = [index.offsets for index in index_shards(facts, cache)]
    counts = np.array([len(row) - 1 for row in rows], dtype=np.int64)
    sizes = np.array([fact.size for fact in facts], dtype=np.int64)
    if sum(map(len, rows)) > _SMALL and cache.save_set(facts, rows):
        kept = _kept_set(facts, cache)
    return kept or Part(PackedStrings(fact.path for fact in facts), counts, sizes, Offsets(np.concatenate(rows)))


def _kept_set(facts: list[FileFacts], cache: IndexCache) -> Part | None:
    place = cache.set_listing(facts)
    if place is None:
        return None
    try:
        return _mapped(read_listing(place), Files(cache))
    except ShardstreamError as error:
        _log.warning("a kept index is made again: %s", error)
        return None

"""Remote shards that are named one by one: by the listing that lies beside them, else by the sidecars of each.

The listing is believed only if it lists all of the shards that were named in its folder; it costs one request, and the
shards none: what they are is checked when each is first read. Else each shard is asked for its size and version, and
what was imported for these before is taken from the cache; else Energon's `NAME.tar.idx`, then DALI's `NAME.idx`, is
fetched and held against the shard (its end, its first and its last sample). A remote shard is not scanned on the way:
that would bring all of it through, which is for `wds index` to do once, and not for each start.

Urls are used as they were given: a shard that is named with a query (a signature) is read with it, and found in a
listing without.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from itertools import groupby

from wds_tools import addresses
from wds_tools.errors import (
    ListingError,
    ShardMissingError,
    UnavailableError,
    UsageError,
    counted,
    public,
)
from wds_tools.index.cache import FileFacts, IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.fit import offsets_from_dali, offsets_from_energon
from wds_tools.index.listing import LISTING_NAME, Listing
from wds_tools.index.offsets import OffsetArray
from wds_tools.index.sidecars import dali_path, energon_path
from wds_tools.sources.pool import map_in_order
from wds_tools.sources.resolve import open_source

__all__ = ["beside", "folders", "index_remote"]

_log = logging.getLogger(__name__)
_PROBES = 2
"""Samples whose headers are looked at, of each shard: the first and the last. Each is a request."""
_NAMED = 5
"""Missing shards that a message names."""


def folders(urls: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Runs of shards that lie together, each with the address of the listing that may lie beside them."""
    for listing, run in groupby(urls, key=lambda url: addresses.join(url, LISTING_NAME)):
        yield listing, list(run)


def beside(place: str, urls: Sequence[str], files: Files) -> tuple[Listing, list[int]] | None:
    """The listing at `place`, and which of its shards these are; None without one that has all of them.

    Raises:
        UnavailableError: the host cannot be asked. That it has no such file, or does not give it, is no error.
    """
    try:
        listing = files.listing(place)
    except ShardMissingError:
        return None
    except (ListingError, UnavailableError) as error:
        if isinstance(error, UnavailableError) and not _refused(error):
            raise
        _log.warning("%s is passed over: %s", public(place), error)
        return None
    rows = {addresses.without_query(url): at for at, url in enumerate(listing.urls)}
    chosen = [rows.get(addresses.without_query(url), -1) for url in urls]
    if min(chosen) < 0 or listing.offsets is None or int(listing.sizes.min()) < 0:
        missing = public(urls[chosen.index(-1)]) if -1 in chosen else None
        why = f"it does not list {missing}" if missing else "it does not say where samples lie"
        _log.warning("%s is passed over: %s", public(place), why)
        return None
    return listing, chosen


def index_remote(urls: Sequence[str], files: Files, cache: IndexCache) -> tuple[list[FileFacts], list[OffsetArray]]:
    """Where the samples of these shards lie, by what was kept or by their sidecars.

    Returns:
        For each shard its facts, and its offsets, uint64 (n + 1,).

    Raises:
        UsageError: one has no sidecar that fits.
        ShardMissingError, UnavailableError: some cannot be had; the message names them.
    """
    if not urls:
        return [], []
    first = _index_or_why(urls[0], files, cache)  # alone: no sidecars, or no access, and one shard tells
    if isinstance(first, UnavailableError) and not isinstance(first, ShardMissingError):
        raise first
    found = [first, *map_in_order(lambda url: _index_or_why(url, files, cache), urls[1:])]
    _refuse_missing([each for each in found if isinstance(each, UnavailableError)], len(urls))
    indexed = [each for each in found if not isinstance(each, UnavailableError)]
    return [facts for facts, _ in indexed], [row for _, row in indexed]


def _index_or_why(url: str, files: Files, cache: IndexCache) -> tuple[FileFacts, OffsetArray] | UnavailableError:
    """The shard's index; or the error, where it is not there or refused, so that all such shards can be named."""
    try:
        return _index(url, files, cache)
    except UnavailableError as error:
        if not (isinstance(error, ShardMissingError) or _refused(error)):
            raise
        return error


def _refuse_missing(errors: Sequence[UnavailableError], whole: int) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        kind = ShardMissingError if all(isinstance(error, ShardMissingError) for error in errors) else UnavailableError
        names = ", ".join(public(error.url or "") for error in errors[:_NAMED]) + (
            " ..." if len(errors) > _NAMED else ""
        )
        raise kind(
            f"{len(errors):,} of {counted(whole, 'shard')} are not there, or are refused: {names}",
            url=errors[0].url,
            cure="Name only shards that are there; what was found of the first: " + errors[0].problem,
        ) from errors[0]


def _refused(error: UnavailableError) -> bool:
    """Stores say 403, and not 404, of what is not there to who may not list them."""
    return error.errno == errno.EACCES or isinstance(error.__cause__, PermissionError)


def _index(url: str, files: Files, cache: IndexCache) -> tuple[FileFacts, OffsetArray]:
    with open_source(url, remote=files.remote) as source:
        size, version = source.size(), getattr(source, "version", None)
        facts = FileFacts(url, size, str(version))
        kept = cache.load(facts) if version is not None else None
        if kept is not None:
            return facts, kept
        for path, read in ((energon_path(url), offsets_from_energon), (dali_path(url), offsets_from_dali)):
            try:
                row = read(files.read(path), source, place=path, probes=_PROBES)
            except ShardMissingError:
                continue
            except ListingError as error:
                _log.warning("%s is passed over: %s", public(path), error)
                continue
            except UnavailableError as error:
                if not _refused(error):
                    raise
                continue
            if version is not None:
                cache.save(facts, row)
            return facts, row
    raise _no_index(url)


def _no_index(url: str) -> UsageError:
    return UsageError(
        "nothing says where the samples of this remote shard lie: no dataset.json beside it that lists it, no .idx",
        url=url,
        cure="Make a listing in one pass over all shards, `wds index URLS --out FOLDER` with the URLS that were given "
        "here, and open FOLDER; or read them in order with loaders.StreamLoader.",
    )

"""What listings and sidecars say of shards, held against the shards: a part of `verify`.

Of a listing everything is compared: bytes, number of samples, a checksum if it has one ("xxh3:...", "sha256:..." or
wids's md5sum), the place of every sample, and of the whole what it counts (`compare_totals`). So are Energon's and
DALI's index files, if they lie beside.
"""

# Urls are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH100

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wds_tools import addresses
from wds_tools.checksum import begin, known
from wds_tools.contents import compression
from wds_tools.errors import ListingError, ShardError, ShardstreamError, StaleIndexError, UnavailableError
from wds_tools.index.beside import refusal, unlisted
from wds_tools.index.fetched import Files
from wds_tools.index.fit import offsets_from_dali, offsets_from_energon
from wds_tools.index.listing import LISTING_NAME, Listing
from wds_tools.index.offsets import OffsetArray
from wds_tools.index.sidecars import dali_path, energon_path
from wds_tools.shard import scan
from wds_tools.sources.base import Source
from wds_tools.tally import Tally
from wds_tools.urls import Urls, places, refuse_duplicates

__all__ = ["Expected", "compare", "compare_totals", "expectations"]

READ_BYTES = 1 << 20
SIDECARS = ((energon_path, offsets_from_energon), (dali_path, offsets_from_dali))


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a listing says of one shard.

    Attributes:
        place: the listing.
        samples: of the shard.
        size: bytes of its file, -1 where the listing does not say.
        offsets: uint64 (samples + 1,), None where the listing has no offsets.
        checksum: such as "sha256:...", None where it has none.
    """

    place: str
    samples: int
    size: int
    offsets: OffsetArray | None
    checksum: str | None


def expectations(urls: Urls, problem: Callable[[ShardstreamError], None], files: Files) -> dict[str, Expected | None]:
    """The shards that `urls` mean, in order, each with what the listing that was named or lies beside says of it.

    Args:
        urls: shards, patterns, folders, listings.
        problem: told of listings that are damaged (shards that only such a listing names cannot be known), and of
            shards in a folder that its listing leaves out.
        files: reads listings and offsets.
    """
    found: dict[str, Expected | None] = {}
    beside: dict[str, dict[str, Expected]] = {}
    for place in places(urls, remote=files.remote):
        url = place.url if addresses.is_remote(place.url) else os.path.abspath(addresses.path_of(place.url))
        if place.listing:
            listed = _guarded(url, problem, files)
            if place.folder and listed and (names := unlisted(url, listed)):
                problem(refusal(url, names))
            found.update(listed)
            continue
        listing = addresses.join(url, LISTING_NAME)
        if listing not in beside:
            beside[listing] = _guarded(listing, problem, files) if _may_be_there(listing, files) else {}
        found[url] = beside[listing].get(url)
    refuse_duplicates(list(found))
    return found


def compare(source: Source, samples: int, expected: Expected | None) -> Iterator[ShardstreamError]:
    """All that does not fit.

    Args:
        source: the shard, open.
        samples: that were found in it.
        expected: what the listing says, None without one.
    """
    if expected is not None:
        yield from _compare_facts(source, samples, expected)
    if compression(source) is not None:
        return
    try:
        offsets = scan(source).offsets
    except ShardError:
        return  # a fault of grouping, known to whoever counted the samples; such a shard has no index
    if expected is not None and expected.offsets is not None and not np.array_equal(expected.offsets, offsets):
        yield _stale("the offsets file places its samples elsewhere than they lie", source, expected.place)
    for path_of, read in SIDECARS:
        path = path_of(source.url)
        try:
            if Path(path).is_file() and not np.array_equal(read(Path(path).read_bytes(), source, place=path), offsets):
                yield _stale("a sidecar places its samples elsewhere than they lie", source, path)
        except ListingError as error:
            yield error.at(url=path)


def compare_totals(place: str, tally: Tally, *, pictures: bool, files: Files) -> Iterator[ShardstreamError]:
    """What the listing at `place` counts, held against what was counted in all of its shards.

    Args:
        place: the listing.
        tally: of all samples of its shards.
        pictures: whether the tally looked at pictures.
        files: reads the listing.
    """
    said, found = files.listing(place).facts, tally.facts()
    if isinstance(said.get("samples"), int) and said["samples"] != tally.samples:
        yield _miscounted(place, f"{said['samples']:,} samples", f"{tally.samples:,}")
    for topic in ("fields", "labels", "pictures") if pictures else ("fields", "labels"):
        if isinstance(said.get(topic), dict):
            for path, one, other in _differences((topic,), said[topic], found.get(topic, {})):
                yield _miscounted(place, f"{' '.join(path)}: {one}", str(other))


def _differences(path: tuple[str, ...], said: Any, found: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The places of two trees of objects at which they differ."""
    if isinstance(said, dict) and isinstance(found, dict):
        for key in [*said, *(key for key in found if key not in said)]:
            yield from _differences((*path, key), said.get(key, 0), found.get(key, 0))
    elif said != found:
        yield path, said, found


def _miscounted(place: str, said: str, found: str) -> StaleIndexError:
    cure = f"If the shards are right, make the index again: `wds index --force {place}`."
    return StaleIndexError(f"the listing says {said}, the shards have {found}", url=place, cure=cure)


def _may_be_there(listing: str, files: Files) -> bool:
    """Whether a listing lies there; a host is asked, and says no in any way that it likes."""
    if not addresses.is_remote(listing):
        return Path(listing).is_file()
    try:
        files.listing(listing)
    except UnavailableError:
        return False
    except ListingError:
        return True
    return True


def _guarded(listing: str, problem: Callable[[ShardstreamError], None], files: Files) -> dict[str, Expected]:
    try:
        return _listed(listing, files)
    except (ListingError, UnavailableError) as error:
        problem(error.at(url=listing))
        return {}


def _listed(place: str, files: Files) -> dict[str, Expected]:
    listing = files.listing(place)
    rows = _rows(listing, files)
    return {
        url: Expected(
            place=place,
            samples=int(listing.counts[at]),
            size=int(listing.sizes[at]),
            offsets=None if rows is None else rows[at],
            checksum=listing.checksums[at],
        )
        for at, url in enumerate(listing.urls)
    }


def _rows(listing: Listing, files: Files) -> list[OffsetArray] | None:
    if listing.offsets is None:
        return None
    counts = listing.counts + 1
    whole = files.offsets(listing.offsets, length=int(counts.sum())).array
    return np.split(whole, np.cumsum(counts)[:-1])


def _compare_facts(source: Source, samples: int, expected: Expected) -> Iterator[ShardstreamError]:
    for what, stated, found in (("bytes", expected.size, source.size()), ("samples", expected.samples, samples)):
        if stated not in {found, -1}:
            yield _stale(f"the listing says {stated:,} {what}, the shard has {found:,}", source, expected.place)
    if expected.checksum is None:
        return
    kind, _, digest = expected.checksum.partition(":")
    if not known(kind):
        yield _stale(f"the listing has a checksum of an unknown kind, {kind!r}", source, expected.place)
    elif (hashed := _digest(source, kind)) != digest.lower():
        yield _stale(f"the listing says {kind} {digest}, the shard has {hashed}", source, expected.place)


def _digest(source: Source, kind: str) -> str:
    hashed = begin(kind)
    buffer = memoryview(bytearray(READ_BYTES))
    for offset in range(0, source.size(), READ_BYTES):
        part = buffer[: min(READ_BYTES, source.size() - offset)]
        source.read_into(offset, part)
        hashed.update(part)
    return hashed.hexdigest()


def _stale(problem: str, source: Source, place: str) -> StaleIndexError:
    cure = f"Copy the shard again if it was cut or changed, else make the index again: `wds index --force {place}`."
    return StaleIndexError(problem, url=source.url, cure=cure)

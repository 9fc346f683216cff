"""Join the listings of parts into the listing of the whole: what `wds index --merge` does. No shard is opened.

The parts of a run of `wds pack --part` are put in the order of their numbers, and have to be all of them, made with the
same settings of the same input; the joined listing says what a listing of all in one would say, counted anew from the
parts' own counts. Their reports of failures and the originals of their keys are joined with them. Other listings are
joined in the order they are given in: what all of them say alike is kept, samples with each field are added up, and
what only a look at the samples would tell is left out.

Listings may lie in a store, and the joined one may go there: relative to it are the shards that lie below its place.
The parts' listings stay: whoever opens the folder takes dataset.json.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH120, PTH207

from __future__ import annotations

import glob
import json
import os
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wds_tools import addresses
from wds_tools.atomic import write_atomic
from wds_tools.dataset import open_dataset
from wds_tools.delivery import Delivery
from wds_tools.errors import ListingError, NoShardsError, TargetError, UsageError, shown
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.listing import (
    CLASSES_NAME,
    FAILURES_NAME,
    LISTING_NAME,
    ShardRecord,
    offsets_name,
    write_listing,
)
from wds_tools.index.targets import without_secret
from wds_tools.merge_lines import merge_lines
from wds_tools.sources.options import Remote
from wds_tools.sources.pool import map_in_order
from wds_tools.tally import Tally

__all__ = ["Merged", "merge_listings"]

_COUNTED = {"samples", "bytes", "failed", "misnamed", "fields", "labels", "pictures", "tally", "part"}
_OF_THE_FILE = {"__kind__", "wids_version", "name", "offsets", "offsets_crc32", "shardlist", "datasets", "base"}
_OF_THE_PART = {"originals"}
_COMPARED = {"run"}
"""Says which input and settings a part is of; nothing that the whole need say."""
_MOST_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What was joined.

    Attributes:
        listing: the new one: a path, or a url in a store.
        parts: how many listings were joined.
        shards: how many it lists.
        samples: in all of them.
        bytes: of their files.
    """

    listing: Path | str
    parts: int
    shards: int
    samples: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class _Part:
    place: str
    facts: Mapping[str, Any]
    records: Sequence[ShardRecord] = field(repr=False)

    def beside(self, name: str) -> str:
        """The file of that name that belongs to this part."""
        return f"{self.place.removesuffix('.json')}.{name}"


def merge_listings(
    listings: Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    remote: Remote | None = None,
) -> Merged:
    """Join listings into `dataset.json` and its offsets, and write classes.txt where all have the same classes.

    Args:
        listings: of the parts, at least one, in any order; of others in the order wanted. Patterns are expanded.
        out: the folder, or the url of the place in a store, for the joined listing; by default that of the first.
        force: replace a dataset.json that is there.
        remote: how stores are asked.

    Raises:
        UsageError: `out` is empty, or parts are missing, come twice or do not belong together; the message names them.
        TargetError: a dataset.json is there already.
        ListingError, UnavailableError: a listing that is damaged or cannot be read.
    """
    places = [place for listing in listings for place in _named(listing, remote)]
    if not places:
        raise UsageError("no listings are given to be joined")
    target = Delivery(addresses.given(out, "out") if out is not None else _folder(places[0]), remote)
    listing = target.named(LISTING_NAME)
    if listing in places:
        raise UsageError(f"{shown(listing)} is one of the listings to be joined", cure="Name another folder (--out).")
    if target.has(LISTING_NAME) and not force:
        raise TargetError("a listing is there already", url=listing, cure="Pass force=True (--force) to replace it.")
    files = Files(IndexCache(None), remote)
    parts = _in_order(map_in_order(lambda place: _read(place, target, files), places))
    records = [record for part in parts for record in part.records]
    if not records:
        raise UsageError("none of the listings has a shard")
    with target:
        _write(target, parts, records, files)
    return Merged(
        listing=listing if target.away else Path(listing),
        parts=len(parts),
        shards=len(records),
        samples=sum(record.samples for record in records),
        bytes=sum(record.bytes for record in records),
    )


def _named(listing: str | os.PathLike[str], remote: Remote | None) -> list[str]:
    """The listings that one argument means; a Path is taken as it is."""
    text = os.fspath(listing)
    if not isinstance(listing, str) or (not addresses.is_remote(text) and os.path.lexists(text)):
        return [addresses.absolute(text)]
    found: list[str] = []
    for piece in addresses.expand_braces(text):
        matches = _matching(piece, remote) if any(mark in piece for mark in "*?[") else [piece]
        if not matches:
            raise NoShardsError(f"no listing matches {shown(piece)}")
        found += map(addresses.absolute, matches)
    return found


def _matching(pattern: str, remote: Remote | None) -> list[str]:
    if not addresses.is_remote(pattern):
        return sorted(glob.glob(pattern))
    from wds_tools.sources import fsspec

    return fsspec.glob(pattern, remote)


def _folder(place: str) -> str:
    return f"{posixpath.dirname(place)}/" if addresses.is_remote(place) else os.path.dirname(place)


def _write(target: Delivery, parts: Sequence[_Part], records: Sequence[ShardRecord], files: Files) -> None:
    """All that lies beside the shards, the listing last."""
    name, extra = str(parts[0].facts.get("name") or target.name), _extra(parts, records)
    if isinstance(extra.get("classes"), list):
        lines = "".join(f"{each}\n" for each in extra["classes"])
        write_atomic(target.folder / CLASSES_NAME, [lines.encode("utf-8", "surrogateescape")])
        target.deliver(CLASSES_NAME)
    if all("part" in part.facts for part in parts):
        extra |= _join_lines(target, parts, name, files)
    write_listing(target.folder / LISTING_NAME, records, name=name, extra=extra)
    target.deliver(offsets_name(LISTING_NAME), LISTING_NAME)


def _join_lines(target: Delivery, parts: Sequence[_Part], name: str, files: Files) -> dict[str, Any]:
    """What parts left in files of lines, in one file each; the keys of the listing that follow from that."""
    failed = [part.beside(FAILURES_NAME) for part in parts if part.facts.get("failed")]
    if failed:
        merge_lines(target, FAILURES_NAME, failed, files.remote)
    else:
        target.remove(FAILURES_NAME)
    if not all("originals" in part.facts for part in parts):
        return {}
    originals = f"{name}.keys.tsv"
    merge_lines(target, originals, [_originals(part, files) for part in parts], files.remote)
    return {"originals": originals}


def _originals(part: _Part, files: Files) -> str:
    place = addresses.join(part.place, str(part.facts["originals"]))
    files.refuse_strangers(part.place, [place])
    return place


def _read(place: str, target: Delivery, files: Files) -> _Part:
    data = files.read(place)
    facts = _facts(data, place)
    if not facts.get("shardlist") and not facts.get("datasets"):  # a part of which nothing could be packed
        return _Part(place=place, facts=facts, records=())
    listing = files.parsed(data, place)
    dataset = open_dataset(place, remote=files.remote)
    if list(listing.urls) != list(dataset.urls):
        raise ListingError("the listing became another one while it was read", url=place, cure="Join them again.")
    ends = np.cumsum(dataset.counts + 1)
    rows = np.split(np.asarray(dataset.offsets), ends[:-1])
    records = [
        ShardRecord(url=_relative(url, target), samples=len(row) - 1, bytes=int(size), offsets=row, checksum=checksum)
        for url, size, row, checksum in zip(dataset.urls, dataset.sizes, rows, listing.checksums, strict=True)
    ]
    return _Part(place=place, facts=facts, records=records)


def _facts(data: bytes, place: str) -> dict[str, Any]:
    try:
        facts = json.loads(data)
    except ValueError as error:
        raise ListingError(f"the listing is not JSON: {error}", url=place) from error
    if not isinstance(facts, dict):
        raise ListingError("the listing is not a JSON object", url=place)
    return facts


def _relative(url: str, target: Delivery) -> str:
    """How the joined listing names a shard."""
    if addresses.is_remote(url):
        return url.removeprefix(target.place) if target.away and url.startswith(target.place) else without_secret(url)
    if target.away:
        raise UsageError(
            f"a listing in a store cannot list shards of this machine, such as {shown(url)}",
            url=target.named(LISTING_NAME),
            cure="Put the shards into the store too, or name a folder (--out).",
        )
    return os.path.relpath(url, target.place)


def _in_order(found: list[_Part]) -> list[_Part]:
    """Parts of one run by their numbers, all of them; others as they came."""
    numbers = [part.facts.get("part") for part in found]
    if all(number is None for number in numbers):
        return found
    if any(number is None for number in numbers):
        lone = found[numbers.index(None)]
        raise UsageError(f"{shown(lone.place)} is the listing of no part, others are", cure="Join parts with parts.")
    counts = {number[1] for number in numbers if number}
    if len(counts) > 1:
        raise UsageError(f"the listings are parts of {' and of '.join(map(str, sorted(counts)))}")
    _check_complete([number[0] for number in numbers if number], counts.pop())
    ordered = sorted(found, key=lambda part: int(part.facts["part"][0]))
    for part in ordered[1:]:
        _check_equal(ordered[0], part)
    return ordered


def _check_complete(numbers: list[int], parts: int) -> None:
    if twice := sorted(number for number, times in Counter(numbers).items() if times > 1):
        raise UsageError(f"part {twice[0]} of {parts} is given twice")
    if missing := sorted(set(range(parts)) - set(numbers)):
        first = ", ".join(map(str, missing[:_MOST_SHOWN])) + (", ..." if len(missing) > _MOST_SHOWN else "")
        raise UsageError(
            f"{len(missing)} of {parts} parts are missing: {first}",
            cure="Pack them (the same command goes on where it was stopped), and join all.",
        )


def _check_equal(one: _Part, other: _Part) -> None:
    left, right = _said(one), _said(other)
    differ = sorted(key for key in {*left, *right} if left.get(key) != right.get(key))
    if differ:
        raise UsageError(
            f"{shown(one.place)} and {shown(other.place)} are parts of different runs: {', '.join(differ)} differ",
            cure="Pack all parts with the same settings of the same input.",
        )


def _said(part: _Part) -> dict[str, Any]:
    """What a listing says of the whole."""
    left_out = _COUNTED | _OF_THE_FILE | _OF_THE_PART
    return {key: value for key, value in part.facts.items() if key not in left_out}


def _extra(parts: Sequence[_Part], records: Sequence[ShardRecord]) -> dict[str, Any]:
    first = {key: value for key, value in _said(parts[0]).items() if key not in _COMPARED}
    kept = {key: value for key, value in first.items() if all(_said(part).get(key) == value for part in parts)}
    failed: Counter[str] = Counter()
    for part in parts:
        failed.update(part.facts.get("failed") or {})
    extra = kept | _counts(parts) | {"bytes": sum(record.bytes for record in records)}
    return extra | ({"failed": dict(sorted(failed.items()))} if failed else {})


def _counts(parts: Sequence[_Part]) -> dict[str, Any]:
    states = [part.facts.get("tally") for part in parts]
    if all(states):
        whole = Tally()
        for state in states:
            whole.merge(Tally.of(state or {}))
        return whole.facts()
    fields: Counter[str] = Counter()
    for part in parts:
        if not isinstance(part.facts.get("fields"), dict):
            return {}
        fields.update(part.facts["fields"])
    return {"fields": dict(sorted(fields.items()))}

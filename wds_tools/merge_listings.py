"""Join the listings of parts into the listing of the whole: what `wds index --merge` does. No shard is opened.

The parts of a run of `wds pack --part` are put in the order of their numbers, and have to be all of them, made with the
same command of the same input; the joined listing says what a listing of all in one would say, counted anew from the
parts' own counts. Other listings are joined in the order they are given in: what all of them say alike is kept, samples
with each field are added up, and what only a look at the samples would tell is left out.

The parts' listings stay: whoever opens the folder takes dataset.json.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wds_tools import addresses
from wds_tools.atomic import write_atomic
from wds_tools.dataset import open_dataset
from wds_tools.errors import ListingError, TargetError, UsageError, shown
from wds_tools.index.listing import CLASSES_NAME, LISTING_NAME, ShardRecord, read_listing, write_listing
from wds_tools.sources.resolve import open_source
from wds_tools.tally import Tally

__all__ = ["Merged", "merge_listings"]

_COUNTED = {"samples", "bytes", "failed", "fields", "labels", "pictures", "tally", "part"}
_OF_THE_FILE = {"__kind__", "wids_version", "name", "offsets", "offsets_crc32", "shardlist", "datasets", "base"}
_OF_THE_PART = {"originals"}
_MOST_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What was joined.

    Attributes:
        listing: the new one.
        parts: how many listings were joined.
        shards: how many it lists.
        samples: in all of them.
        bytes: of their files.
    """

    listing: Path
    parts: int
    shards: int
    samples: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class _Part:
    place: str
    facts: Mapping[str, Any]
    records: Sequence[ShardRecord] = field(repr=False)


def merge_listings(
    listings: Sequence[str | os.PathLike[str]], *, out: str | os.PathLike[str] | None = None, force: bool = False
) -> Merged:
    """Join listings into `dataset.json` and its offsets, and write classes.txt where all have the same classes.

    Args:
        listings: of the parts, at least one, in any order; of others in the order wanted.
        out: the folder for the joined listing, by default that of the first.
        force: replace a dataset.json that is there.

    Raises:
        UsageError: parts that are missing, come twice or do not belong together; the message names them.
        TargetError: a dataset.json is there already.
        ListingError, UnavailableError: a listing that is damaged or cannot be read.
    """
    if not listings:
        raise UsageError("no listings are given to be joined")
    places = [addresses.absolute(os.fspath(listing)) for listing in listings]
    target = Path(os.path.abspath(os.fspath(out) if out is not None else os.path.dirname(places[0]))) / LISTING_NAME
    if str(target) in places:
        raise UsageError(f"{target} is one of the listings to be joined", cure="Name another folder (--out).")
    if target.exists() and not force:
        raise TargetError(
            "a listing is there already", url=str(target), cure="Pass force=True (--force) to replace it."
        )
    parts = _in_order([_read(place, str(target)) for place in places])
    records = [record for part in parts for record in part.records]
    if not records:
        raise UsageError("none of the listings has a shard")
    name, extra = str(parts[0].facts.get("name") or target.parent.name), _extra(parts, records)
    if isinstance(extra.get("classes"), list):
        lines = "".join(f"{each}\n" for each in extra["classes"])
        write_atomic(target.with_name(CLASSES_NAME), [os.fsencode(lines)])
    write_listing(target, records, name=name, extra=extra)
    return Merged(
        listing=target,
        parts=len(parts),
        shards=len(records),
        samples=sum(record.samples for record in records),
        bytes=sum(record.bytes for record in records),
    )


def _read(place: str, target: str) -> _Part:
    facts = _facts(place)
    if not facts.get("shardlist") and not facts.get("datasets"):  # a part of which nothing could be packed
        return _Part(place=place, facts=facts, records=())
    dataset, checksums = open_dataset(place), read_listing(place).checksums
    ends = np.cumsum(dataset.counts + 1)
    rows = np.split(np.asarray(dataset.offsets), ends[:-1])
    records = [
        ShardRecord(
            url=_relative(url, target),
            samples=len(row) - 1,
            bytes=int(size),
            offsets=row,
            checksum=checksum,
        )
        for url, size, row, checksum in zip(dataset.urls, dataset.sizes, rows, checksums, strict=True)
    ]
    return _Part(place=place, facts=facts, records=records)


def _facts(place: str) -> dict[str, Any]:
    with open_source(place) as source:
        data = bytearray(source.size())
        source.read_into(0, memoryview(data))
    try:
        facts = json.loads(bytes(data))
    except ValueError as error:
        raise ListingError(f"the listing is not JSON: {error}", url=place) from error
    if not isinstance(facts, dict):
        raise ListingError("the listing is not a JSON object", url=place)
    return facts


def _relative(url: str, target: str) -> str:
    return url if addresses.is_remote(url) else os.path.relpath(url, os.path.dirname(target))


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
            cure="Pack all parts with the same command of the same input.",
        )


def _said(part: _Part) -> dict[str, Any]:
    """What a listing says of the whole."""
    left_out = _COUNTED | _OF_THE_FILE | _OF_THE_PART
    return {key: value for key, value in part.facts.items() if key not in left_out}


def _extra(parts: Sequence[_Part], records: Sequence[ShardRecord]) -> dict[str, Any]:
    first = _said(parts[0])
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

"""`dataset.json`: the listing of a dataset, readable as a wids shard index, and the offsets file that it names.

    {"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": "train",
     "samples": 2000, "offsets": "dataset.offsets.npy", "offsets_crc32": 305419896,
     "classes": [...], "shuffled": true, ...
     "shardlist": [{"url": "train-000000.tar", "nsamples": 1000, "filesize": 107530240}, ...]}

wids and webdataset read the shardlist and leave the rest alone; listings that they made have no `offsets` and are
read as well (`base` and several `datasets` too: their shards in order, weights are for mixing). Relative urls are
relative to the listing's place. The text is the same whenever the content is: fixed order of keys, extras sorted,
one shard a line.

The offsets are renamed into place before the listing. `offsets_crc32` is over the first and the last offset of each
shard (little-endian, in order), so a listing never takes the offsets of another run for its own: not those that a crash
between the two renames left, not those of a copy that was half done.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wds_tools import addresses
from wds_tools.atomic import write_atomic
from wds_tools.errors import ListingError, ShardstreamError, UsageError
from wds_tools.index.offsets import OffsetArray, write_offsets

__all__ = [
    "CLASSES_NAME",
    "FAILURES_NAME",
    "LISTING_NAME",
    "OWN_KEYS",
    "Listing",
    "ShardRecord",
    "ends_crc",
    "offsets_name",
    "parse_listing",
    "read_listing",
    "write_listing",
]

LISTING_NAME = "dataset.json"
CLASSES_NAME = "classes.txt"
"""Beside a listing: the classes' names in the order of their labels, one a line."""
FAILURES_NAME = "failures.jsonl"
"""Beside a listing: what could not be packed, an object a line. Of a part `x.json` it is `x.failures.jsonl`."""
_KIND = "wids-shard-index-v1"
OWN_KEYS = ("__kind__", "wids_version", "name", "samples", "offsets", "offsets_crc32", "shardlist", "datasets", "base")
_LIMIT = 1 << 30  # a listing of a million shards is 100 MB; beyond this it is something else

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardRecord:
    """What a listing says of one shard.

    Attributes:
        url: relative to the listing's place (or absolute).
        samples: how many it holds.
        bytes: the size of the file.
        offsets: uint64 (samples + 1,): the offset of each sample's first header, and the end of the last sample.
        checksum: such as "sha256:..." if known.
    """

    url: str
    samples: int
    bytes: int
    offsets: OffsetArray = field(repr=False)
    checksum: str | None = None

    def __post_init__(self) -> None:
        row = self.offsets
        fits = row.dtype == np.uint64 and row.shape == (self.samples + 1,) and int(row[-1]) <= self.bytes
        if not fits or not bool(np.all(row[1:] > row[:-1])):
            raise UsageError(
                f"{self.samples} samples in {self.bytes} bytes need as many rising uint64 offsets and the end",
                url=self.url,
            )

    def _line(self) -> str:
        entry: dict[str, object] = {"url": self.url, "nsamples": self.samples, "filesize": self.bytes}
        return json.dumps(entry if self.checksum is None else entry | {"checksum": self.checksum})


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """A listing that was read.

    Attributes:
        place: where it lies.
        urls: the shards, made absolute by the listing's place.
        counts: int64 (shards,), samples in each.
        sizes: int64 (shards,), bytes of each, -1 where the listing does not say.
        offsets: where the offsets file lies, None where the listing names none.
        crc: `offsets_crc32`, None where the listing has none.
        facts: all its keys but the shards.
        checksums: of each shard, such as "xxh3:...", None where the listing has none; wids's md5sum as "md5:...".
    """

    place: str
    urls: list[str] = field(repr=False)
    counts: Ints = field(repr=False)
    sizes: Ints = field(repr=False)
    offsets: str | None
    crc: int | None
    facts: Mapping[str, Any]
    checksums: list[str | None] = field(repr=False)


def offsets_name(listing: str) -> str:
    """`dataset.json` -> `dataset.offsets.npy`."""
    return listing.removesuffix(".json") + ".offsets.npy"


def ends_crc(first: OffsetArray, last: OffsetArray) -> int:
    """The check value over each shard's first and last offset, both uint64 (shards,)."""
    return zlib.crc32(np.stack([first, last], axis=1).astype("<u8").tobytes())


def read_listing(url: str, *, fetch: Callable[[str], bytes] | None = None) -> Listing:
    """Read the listing at `url`.

    Args:
        url: where it lies.
        fetch: gives the content of a file by its address, such as `Files.read`, which keeps remote ones.

    Raises:
        ListingError: it is no listing, or a damaged one.
        UnavailableError: it cannot be read (ShardMissingError: it is not there).
    """
    fetch = fetch or _fetch
    return parse_listing(fetch(url), url, fetch=fetch)


def _fetch(url: str) -> bytes:
    from wds_tools.sources.resolve import open_source

    with open_source(url) as source:
        if source.size() > _LIMIT:
            raise ListingError(f"{source.size():,} bytes are too many for a listing", url=url)
        data = bytearray(source.size())
        source.read_into(0, memoryview(data))
    return bytes(data)


def parse_listing(data: bytes, place: str, *, fetch: Callable[[str], bytes] | None = None) -> Listing:
    """The listing in `data`, which came from `place`. `fetch` gets those that it refers to (`source_url`)."""
    facts = _json_object(data, place)
    version = facts.get("wids_version")
    if version != 1:
        raise ListingError(f"a listing says wids_version 1, this says {version!r}", url=place, cure=_CURE)
    base = _base(facts, place)
    entries = [(base, entry) for entry in _entries(facts, place)]
    for part in _parts(facts, place):
        entries += _part_entries(part, place, fetch)
    if not entries:
        raise ListingError("the listing names no shards", url=place, cure=_CURE)
    return _listing(entries, facts, place)


_CURE = "Make it again with `wds index --force`"
_MAX_SAMPLES = 1 << 48  # what is counted in 64 bits must not overflow


def _json_object(data: bytes, place: str) -> dict[str, Any]:
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise ListingError(f"the listing is not JSON: {error}", url=place, cure=_CURE) from error
    if not isinstance(facts, dict):
        raise ListingError("the listing is not a JSON object", url=place, cure=_CURE)
    return facts


def _base(facts: Mapping[str, Any], place: str) -> str:
    """What relative urls are relative to: the listing's place, or `base` (a folder) seen from there."""
    base = facts.get("base")
    return addresses.join(place, base.rstrip("/") + "/" + LISTING_NAME) if isinstance(base, str) and base else place


def _entries(facts: Mapping[str, Any], place: str) -> list[Any]:
    entries = facts.get("shardlist", [])
    if not isinstance(entries, list):
        raise ListingError("shardlist is no list", url=place, cure=_CURE)
    return entries


def _parts(facts: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    parts = facts.get("datasets", [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ListingError("datasets is no list of objects", url=place, cure=_CURE)
    return parts


def _part_entries(part: dict[str, Any], place: str, fetch: Callable[[str], bytes] | None) -> list[tuple[str, Any]]:
    source = part.get("source_url")
    if isinstance(source, str):
        place = addresses.join(place, source)
        if fetch is None:
            raise ListingError("the listing refers to another one", url=place)
        part = _json_object(fetch(place), place)
        if "source_url" in part:
            raise ListingError("a listing that is referred to refers on", url=place, cure="Name the last one directly")
    base = _base(part, place)
    return [(base, entry) for entry in _entries(part, place)]


def _listing(entries: list[tuple[str, Any]], facts: dict[str, Any], place: str) -> Listing:
    try:
        urls = [addresses.join(base, entry["url"]) for base, entry in entries]
        counts = np.array([entry["nsamples"] for _, entry in entries])
        sizes = np.array([-1 if (size := entry.get("filesize")) is None else size for _, entry in entries])
    except ShardstreamError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ListingError(_what_is_wrong(entries), url=place, cure=_CURE) from error
    numbers = all(array.dtype == np.int64 and array.ndim == 1 for array in (counts, sizes))
    if not numbers or int(counts.min()) < 0 or int(sizes.min()) < -1:
        raise ListingError(_what_is_wrong(entries), url=place, cure=_CURE)
    if sum(counts.tolist()) > _MAX_SAMPLES:
        raise ListingError(f"the listing counts {sum(counts.tolist()):,} samples, more than any dataset has", url=place)
    offsets, crc = facts.get("offsets"), facts.get("offsets_crc32")
    return Listing(
        place=place,
        urls=urls,
        counts=counts,
        sizes=sizes,
        offsets=addresses.join(place, offsets) if isinstance(offsets, str) else None,
        crc=crc if isinstance(crc, int) else None,
        facts={key: value for key, value in facts.items() if key not in {"shardlist", "datasets"}},
        checksums=[_checksum(entry) for _, entry in entries],
    )


def _checksum(entry: dict[str, Any]) -> str | None:
    text = entry.get("checksum") or entry.get("md5sum")
    return None if not isinstance(text, str) or not text else text if ":" in text else f"md5:{text}"


def _what_is_wrong(entries: list[tuple[str, Any]]) -> str:
    """Found entry by entry once it is known that something is wrong, so that good listings are read by column."""

    def count(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63

    for at, (_, entry) in enumerate(entries):
        if not isinstance(entry, dict):
            return f"shard {at} of the listing is no object"
        if not isinstance(entry.get("url"), str):
            return f"shard {at} of the listing has no url"
        if not count(entry.get("nsamples")):
            return f"shard {at} of the listing has no number of samples (nsamples)"
        if not (entry.get("filesize") is None or count(entry["filesize"])):
            return f"shard {at} of the listing has a filesize that is no number of bytes"
    return "the shards of the listing are damaged"


def write_listing(
    path: Path,
    records: Sequence[ShardRecord],
    *,
    name: str,
    extra: Mapping[str, object] = {},
    durable: bool = True,
    empty: bool = False,
) -> None:
    """Write `<stem>.offsets.npy` and then the listing `path`, each atomically.

    Args:
        path: such as `out/dataset.json`; its folder exists.
        records: the shards in order; at least one.
        name: of the dataset.
        extra: further keys (`classes`, `fields`, `shuffled`, `command`); JSON values, NaN not among them.
        durable: whether to wait for the disk; a cache needs not.
        empty: whether there may be no shards, as in one of many parts of a dataset. Nobody opens such a listing.

    Raises:
        UsageError: no shards, one shard twice, extra keys that are the listing's own or no JSON.
        UnavailableError: the disk is full, read-only or out of permission.
    """
    offsets = path.with_name(offsets_name(path.name))
    if not records and not empty:
        raise UsageError("a listing without shards", url=str(path))
    text = _text(records, name, offsets.name, extra, str(path))
    write_offsets(offsets, (record.offsets for record in records), length=_length(records), durable=durable)
    write_atomic(path, [text.encode("ascii")], durable=durable)


def _length(records: Sequence[ShardRecord]) -> int:
    return sum(record.samples + 1 for record in records)


def _text(records: Sequence[ShardRecord], name: str, offsets: str, extra: Mapping[str, object], url: str) -> str:
    if len({record.url for record in records}) < len(records):
        raise UsageError("a listing with a shard twice", url=url)
    if clash := sorted(set(extra) & set(OWN_KEYS)):
        raise UsageError(f"keys that the listing itself writes: {', '.join(clash)}", url=url)
    ends = ends_crc(
        np.array([record.offsets[0] for record in records], dtype=np.uint64),
        np.array([record.offsets[-1] for record in records], dtype=np.uint64),
    )
    samples = sum(record.samples for record in records)
    own: dict[str, object] = {"__kind__": _KIND, "wids_version": 1, "name": name, "samples": samples}
    own |= {"offsets": offsets, "offsets_crc32": ends}
    try:
        head = [
            f"{json.dumps(key)}: {json.dumps(value, sort_keys=True, allow_nan=False)}"
            for key, value in (own | dict(sorted(extra.items()))).items()
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"extra keys of a listing must be JSON: {error}", url=url) from error
    lines = ",\n  ".join(record._line() for record in records)  # noqa: SLF001 - same module
    return "{" + ",\n ".join([*head, f'"shardlist": [\n  {lines}\n ]']) + "\n}\n"

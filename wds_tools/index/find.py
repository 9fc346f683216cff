"""Where each sample of a shard lies, for shards without a listing: kept, imported, or found by a scan.

For each shard, in this order: the user's cache (same path, size and modification time); Energon's `NAME.tar.idx`;
DALI's `NAME.idx`; a scan of the headers. A sidecar is believed only where it fits the shard (see `sidecar_fit`); one
that does not is passed over with a line in the log. Scans run on a few threads, since they mostly wait for the disk,
and what was found goes into the cache.

img2dataset's and OpenCLIP's counts (`sizes.json`, `NNNNN_stats.json`) hold no offsets, so they cannot replace a
scan; they are compared with what was found, and a difference is logged: a shard that was cut, or written anew.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH100, PTH116, PTH119, PTH120

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wds_tools import addresses
from wds_tools.errors import (
    ListingError,
    ShardMissingError,
    ShardstreamError,
    TruncatedShardError,
    UnavailableError,
    UsageError,
    counted,
    shown,
)
from wds_tools.index.cache import FileFacts, IndexCache
from wds_tools.index.fit import offsets_from_dali, offsets_from_energon
from wds_tools.index.offsets import OffsetArray
from wds_tools.index.sidecars import dali_path, energon_path
from wds_tools.sources.base import Source
from wds_tools.sources.local import LocalFile
from wds_tools.sources.pool import map_in_order
from wds_tools.sources.resolve import open_source

__all__ = ["ShardIndex", "file_facts", "index_shard", "index_shards", "read_counts"]

_log = logging.getLogger(__name__)


class ShardIndex(NamedTuple):
    """Where a shard's samples lie.

    Attributes:
        offsets: uint64 (n + 1,): each sample's first header, and the end of the last one.
        size: bytes of the shard.
        origin: "cache", "energon", "dali" or "scan".
    """

    offsets: OffsetArray
    size: int
    origin: str


def file_facts(urls: Sequence[str]) -> list[FileFacts]:
    """Size and time of each shard.

    Raises:
        ShardMissingError: names how many of how many are missing, and the first of them.
        UsageError: a remote url, which cannot be indexed from here.
        UnavailableError: a file that cannot be looked at.
    """
    found = map_in_order(_facts, urls)
    missing = [url for url, facts in zip(urls, found, strict=True) if facts is None]
    if missing:
        names = ", ".join(shown(url) for url in missing[:5]) + (" ..." if len(missing) > 5 else "")
        whole = counted(len(urls), "shard")
        raise ShardMissingError(
            f"{len(missing):,} of {whole} {'does' if len(missing) == 1 else 'do'} not exist: {names}",
            url=missing[0],
            cure="Fetch them, or name only shards that are there: a glob or the folder does",
        )
    return [facts for facts in found if facts is not None]


def _facts(url: str) -> FileFacts | None:
    if addresses.is_remote(url) or url.startswith("pipe:"):
        raise UsageError("not a file of this machine", url=url, cure="Copy it, or stream it with loaders.StreamLoader")
    path = os.path.abspath(addresses.path_of(url))
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnavailableError(f"the file cannot be looked at: {error}", url=url) from error
    if not stat.S_ISREG(found.st_mode):
        raise UsageError("not a file", url=url, cure="Name the shards themselves, or their folder alone")
    return FileFacts(path, found.st_size, found.st_mtime_ns)


def index_shards(facts: Sequence[FileFacts], cache: IndexCache) -> list[ShardIndex]:
    """Index several shards, from `file_facts`.

    Raises:
        ShardError: of the first shard in order that is no whole tar, cannot be indexed (compressed) or is damaged.
    """
    _log.info("looking for the samples of %s without a listing; `wds index` makes one", counted(len(facts), "shard"))
    found = map_in_order(lambda each: index_shard(each, cache), facts)
    _compare_counts(facts, found)
    return found


def index_shard(facts: FileFacts, cache: IndexCache) -> ShardIndex:
    """Index one shard; as `index_shards`."""
    if facts.size == 0:
        raise TruncatedShardError(
            "the file is empty (0 bytes), not even an empty tar",
            url=facts.path,
            offset=0,
            cure="Write or copy it again",
        )
    kept = cache.load(facts)
    if kept is not None:
        return ShardIndex(kept, facts.size, "cache")
    with open_source(facts.path) as source:
        offsets, origin = _imported(facts, source) or (_scanned(source), "scan")
    cache.save(facts, offsets)
    return ShardIndex(offsets, facts.size, origin)


def _scanned(source: Source) -> OffsetArray:
    from wds_tools import shard

    return np.asarray(shard.scan(source).offsets, dtype=np.uint64)


def _imported(facts: FileFacts, source: Source) -> tuple[OffsetArray, str] | None:
    readers = (
        ("energon", energon_path(facts.path), offsets_from_energon),
        ("dali", dali_path(facts.path), offsets_from_dali),
    )
    for origin, path, read in readers:
        data = _content(path)
        if data is None:
            continue
        try:
            return read(data, source, place=path), origin
        except ListingError as error:
            _log.warning("%s is passed over: %s", path, error)
    return None


def _content(path: str) -> bytes | None:
    """What a sidecar holds; None where there is none, or no plain file: a named pipe would block for ever."""
    try:
        with LocalFile(path) as file:
            content = bytearray(file.size())
            file.read_into(0, memoryview(content))
    except ShardstreamError:
        return None
    return bytes(content)


def read_counts(folder: Path) -> dict[str, int]:
    """Samples by file name as OpenCLIP's `sizes.json` and img2dataset's `NNNNN_stats.json` in `folder` say."""
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("*_stats.json")):
        value = _json(path).get("successes")
        if isinstance(value, int):
            counts[path.name.removesuffix("_stats.json") + ".tar"] = value
    counts.update((name, value) for name, value in _json(folder / "sizes.json").items() if isinstance(value, int))
    return counts


def _json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(_content(str(path)) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _compare_counts(facts: Sequence[FileFacts], found: Sequence[ShardIndex]) -> None:
    for folder in sorted({os.path.dirname(each.path) for each in facts}):
        counts = read_counts(Path(folder))
        for each, index in zip(facts, found, strict=True):
            stated = counts.get(os.path.basename(each.path)) if os.path.dirname(each.path) == folder else None
            if stated is not None and stated != len(index.offsets) - 1:
                _log.warning(
                    "%s holds %s, its counts file says %d",
                    shown(each.path),
                    counted(len(index.offsets) - 1, "sample"),
                    stated,
                )

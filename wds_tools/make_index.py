"""Make the listing and the offsets of shards that somebody else wrote, beside them: what `wds index` does.

Every shard is scanned, headers only, a few at a time; sidecars and caches are not believed here, since this is what
people run when they are in doubt. The listing lies in the shards' folder (one for each folder) as `dataset.json`, or
under the name of the listing that was given. DALI's and Energon's index files come from the same walk.

Remote shards are read through once, in one pass each. Their listing names them by their urls and goes into a folder of
the caller's, or, in a store that takes files, beside them.

A listing that is there and fits is left as it is. One that does not fit is replaced only with `force`, and then keeps
what a scan cannot know: its name, the classes' names, whether the order is shuffled. Where no listing knows the
classes, a `classes.txt` beside the shards (a name a line, as `wds pack` writes it) does.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH100, PTH118, PTH119, PTH120

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wds_tools import addresses
from wds_tools.dataset import open_dataset
from wds_tools.errors import ListingError, ShardstreamError, TargetError, UsageError
from wds_tools.index.beside import refusal, unlisted
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.find import file_facts
from wds_tools.index.listing import CLASSES_NAME, LISTING_NAME, ShardRecord, read_listing, write_listing
from wds_tools.index.sidecars import dali_path, energon_path, write_dali, write_energon
from wds_tools.index.targets import targets_of
from wds_tools.shard import ShardScan, scan
from wds_tools.small import read_lines
from wds_tools.sources.options import Remote
from wds_tools.sources.pool import map_in_order
from wds_tools.sources.resolve import open_source
from wds_tools.streamed import open_pass
from wds_tools.tar.walk import walk_source
from wds_tools.urls import Place, Urls, expand, places, refuse_duplicates

__all__ = ["IndexedFolder", "make_index"]

_NOT_KEPT = {"__kind__", "wids_version", "name", "samples", "offsets", "offsets_crc32", "base", "fields"}
# Counted in shards that may be others now:
_NOT_KEPT |= {"bytes", "labels", "pictures", "failed", "misnamed", "part", "run", "tally"}


@dataclass(frozen=True, kw_only=True)
class IndexedFolder:
    """What was made for the shards of one folder.

    Attributes:
        listing: where it lies; a url in a store.
        made: False where a listing that fits was there already.
        shards: how many it lists.
        samples: in all of them.
        bytes: of their files.
        classes: how many were taken from a classes.txt beside the shards, None where none were.
        notes: what was passed over, by shard; empty for sound shards and where nothing was made.
    """

    listing: Path | str
    made: bool
    shards: int
    samples: int
    bytes: int
    classes: int | None = None
    notes: Mapping[str, Sequence[str]]


def make_index(
    urls: Urls,
    *,
    force: bool = False,
    dali: bool = False,
    energon: bool = False,
    out: Path | None = None,
    remote: Remote | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[IndexedFolder]:
    """Make what is missing.

    Args:
        urls: shards, patterns, folders, listings.
        force: scan again and replace listings, also those that fit. A folder then means all shards in it, whatever its
            listing says.
        dali: write `NAME.idx` beside each shard.
        energon: write `NAME.tar.idx` beside each shard.
        out: a folder for the one listing of remote shards; they are named in it by their urls.
        remote: how remote hosts are asked; the defaults where None.
        advance: called with 1 after each shard, from any thread.

    Raises:
        TargetError: a listing is there that does not fit, or leaves out shards of a folder that was named.
        ShardError: a shard that is no whole tar, is compressed, or has faults of grouping.
        NoShardsError, ShardMissingError, UnavailableError: as their names say.
    """
    made: list[IndexedFolder] = []
    named = places(urls, remote=remote)
    if any(addresses.is_remote(place.url) for place in named):
        _refuse_mixed(named, sidecars=dali or energon)
        return _index_remote(named, out, force=force, remote=remote, advance=advance)
    if out is not None:
        raise UsageError("a local listing lies beside its shards", url=str(out), cure="Leave --out away")
    for listing, shards in _by_listing(named, force=force).items():
        fits = None if force else _fitting(listing, shards)
        scans = [] if fits else _scans(shards, advance)
        if fits:
            advance(len(shards))
        made.append(fits or _write(listing, shards, scans))
        if dali or energon:
            map_in_order(lambda shard: _write_sidecars(shard, dali=dali, energon=energon), shards)
    return made


def _by_listing(named: Sequence[Place], *, force: bool) -> dict[Path, list[str]]:
    """The shards that belong into each listing, in order, as absolute paths."""
    found: dict[Path, list[str]] = {}
    for place in named:
        if place.folder and not force:
            _refuse_unlisted(os.path.abspath(place.url))
        if place.listing:
            found.setdefault(Path(os.path.abspath(place.url)), []).extend(_listed(place.url, force=force))
        else:
            path = os.path.abspath(place.url)
            found.setdefault(Path(os.path.dirname(path), LISTING_NAME), []).append(path)
    return {listing: [facts.path for facts in file_facts(shards)] for listing, shards in found.items()}


def _refuse_mixed(named: Sequence[Place], *, sidecars: bool) -> None:
    local = next((place.url for place in named if not addresses.is_remote(place.url)), None)
    if local is not None:
        raise UsageError("local and remote shards in one listing", url=local, cure="Index them one after the other")
    if sidecars:
        raise UsageError(
            "index files of other loaders lie beside the shards, where a remote host takes none",
            url=named[0].url,
            cure="Leave --dali and --energon away, or make them where the shards lie",
        )


def _index_remote(
    named: Sequence[Place], out: Path | None, *, force: bool, remote: Remote | None, advance: Callable[[int], None]
) -> list[IndexedFolder]:
    """One pass over each shard, several at a time; the result in `out`, else beside the shards in a store."""
    files = Files(IndexCache(None), remote)
    shards: list[str] = []
    for place in named:
        shards += files.listing(place.url).urls if place.listing else [place.url]
    refuse_duplicates(shards)
    targets = targets_of(shards, out, remote)
    for target in targets:
        target.refuse_existing(force=force)
    made = []
    for target in targets:
        scans = _scans(target.shards, advance, remote)
        fields = Counter[str]()
        for found in scans:
            fields.update(found.fields)
        records = [
            ShardRecord(url=name, samples=found.samples, bytes=found.size, offsets=found.offsets)
            for name, found in zip(target.names, scans, strict=True)
        ]
        target.write(records, {"fields": dict(sorted(fields.items()))})
        made.append(_indexed(target.place, records, scans, classes=None))
    return made


def _refuse_unlisted(listing: str) -> None:
    """Whoever indexes a folder wants all of it indexed."""
    if names := unlisted(listing, read_listing(listing).urls):
        error = refusal(listing, names)
        raise TargetError(error.problem, url=listing, cure=error.cure)


def _listed(listing: str, *, force: bool) -> list[str]:
    folder = os.path.dirname(os.path.abspath(listing))
    if force and os.path.basename(listing) == LISTING_NAME:
        return _shards_in(folder)
    try:
        return read_listing(os.path.abspath(listing)).urls
    except ListingError:
        if not force:
            raise
        return _shards_in(folder)


def _shards_in(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if addresses.is_shard_name(name))  # noqa: PTH208
    return [os.path.join(folder, name) for name in names] or expand(os.path.join(folder, "*.tar"))


def _fitting(listing: Path, shards: list[str]) -> IndexedFolder | None:
    """What the listing says, if it is there and fits; None if it is not there."""
    if not listing.exists():
        return None
    cure = "`wds index --force` replaces it."
    try:
        dataset = open_dataset(listing)
    except ShardstreamError as error:
        raise TargetError(
            f"a listing is there that does not fit: {error.problem}", url=str(listing), cure=cure
        ) from error
    listed = dict(zip(dataset.urls, dataset.sizes.tolist(), strict=True))
    if listed != {facts.path: facts.size for facts in file_facts(shards)}:
        raise TargetError("a listing is there that lists other shards than these", url=str(listing), cure=cure)
    return IndexedFolder(
        listing=listing,
        made=False,
        shards=len(listed),
        samples=len(dataset),
        bytes=sum(listed.values()),
        notes={},
    )


def _scans(shards: Sequence[str], advance: Callable[[int], None], remote: Remote | None = None) -> list[ShardScan]:
    def one(shard: str) -> ShardScan:
        with open_pass(shard, remote=remote) as source:
            found = scan(source)
        advance(1)
        return found

    return map_in_order(one, shards)


def _write(listing: Path, shards: list[str], scans: list[ShardScan]) -> IndexedFolder:
    name, extra = _kept(listing)
    beside = _classes_beside(listing) if extra.get("classes") is None else None
    if beside is not None:
        extra["classes"] = beside
    fields: Counter[str] = Counter()
    for found in scans:
        fields.update(found.fields)
    records = [
        ShardRecord(
            url=os.path.relpath(shard, listing.parent), samples=found.samples, bytes=found.size, offsets=found.offsets
        )
        for shard, found in zip(shards, scans, strict=True)
    ]
    write_listing(listing, records, name=name, extra={**extra, "fields": dict(sorted(fields.items()))})
    return _indexed(listing, records, scans, classes=None if beside is None else len(beside))


def _indexed(
    listing: Path | str, records: Sequence[ShardRecord], scans: Sequence[ShardScan], *, classes: int | None
) -> IndexedFolder:
    return IndexedFolder(
        listing=listing,
        made=True,
        shards=len(records),
        samples=sum(record.samples for record in records),
        bytes=sum(record.bytes for record in records),
        classes=classes,
        notes={found.url: warnings for found in scans if (warnings := found.notes.warnings())},
    )


def _kept(listing: Path) -> tuple[str, dict[str, object]]:
    """The name, and what only the listing knows that is replaced."""
    try:
        facts = read_listing(str(listing)).facts
    except ShardstreamError:
        return listing.parent.name or "dataset", {}
    extra = {key: value for key, value in facts.items() if key not in _NOT_KEPT}
    return str(facts.get("name") or listing.parent.name), extra


def _classes_beside(listing: Path) -> list[str] | None:
    """The lines of classes.txt, read as `wds pack --classes` reads them; None without one."""
    try:
        return read_lines(listing.with_name(CLASSES_NAME)) or None
    except FileNotFoundError:
        return None


def _write_sidecars(shard: str, *, dali: bool, energon: bool) -> None:
    with open_source(shard) as source:
        if dali:
            write_dali(Path(dali_path(shard)), walk_source(source))
        if energon:
            write_energon(Path(energon_path(shard)), scan(source).offsets)

"""`wds cache`: what the cache on disk holds, emptying it, and filling it before training."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wds_tools import addresses, progress
from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import printable
from wds_tools.errors import UsageError
from wds_tools.index.cache import IndexCache, default_cache_dir
from wds_tools.index.fetched import Files
from wds_tools.index.prune import Kept, clear_index, kept_index
from wds_tools.sources.options import Remote
from wds_tools.urls import places

if TYPE_CHECKING:
    from wds_tools.sources.cache import DiskCache
    from wds_tools.sources.cache.upkeep import CacheInfo, DatasetInfo
    from wds_tools.sources.cache.warming import Warmed

__all__ = ["cache"]

EPILOG = """\b
Examples:
  wds cache info
  wds cache warm https://data.example.org/imagenet/dataset.json --cache-dir /nvme/cache --bytes 500GB
  wds cache clear --cache-dir /nvme/cache

Exit status: 0 done, 1 the cache cannot be read or has no room for all, 2 used wrongly.
"""
INFO_EPILOG = """\b
Examples:
  wds cache info
  wds cache info --cache-dir /nvme/cache --json | jq .shards.on_disk

Exit status: 0 done, 1 the cache cannot be read, 2 used wrongly.
"""
CLEAR_EPILOG = """\b
Examples:
  wds cache clear
  wds cache clear 'https://data.example.org/old/train-{000000..000099}.tar'

Exit status: 0 done, 1 the cache cannot be written, 2 used wrongly.
"""
WARM_EPILOG = """\b
Examples:
  wds cache warm https://data.example.org/imagenet/dataset.json --cache-dir /nvme/cache --bytes 500GB

Exit status: 0 everything is in the cache, 1 it has no room for all, 2 used wrongly.
"""

_folder = click.option(
    "--cache-dir",
    type=options.Target(path_type=Path, file_okay=False),
    help="Where the cache lies; the user's cache directory by default.",
)


@click.group(epilog=EPILOG)
def cache() -> None:
    """Look into the cache on disk, empty it, or fill it ahead.

    Remote shards that are read with a cache_dir are kept there, each byte fetched once for all processes of the
    machine. The index of shards without a listing is kept in the user's cache directory.
    """


@cache.command("info", epilog=INFO_EPILOG)
@_folder
@options.as_json
def info_command(cache_dir: Path | None, *, as_json: bool) -> None:
    """Say what the cache holds, by dataset."""
    cached = _cache(cache_dir)
    found, index = cached.info(), kept_index(cached.folder)
    if as_json:
        options.echo_json({"shards": dataclasses.asdict(found), "index": index._asdict()})
        return
    for line in _described(found, index, folder=cached.folder, now=time.time()):
        click.echo(line)


@cache.command("clear", epilog=CLEAR_EPILOG)
@click.argument("urls", nargs=-1, metavar="[URLS...]")
@_folder
@click.option("--keep-index", is_flag=True, help="Keep the index of shards without a listing.")
@remote_options
@options.as_json
def clear_command(
    urls: tuple[str, ...], *, cache_dir: Path | None, keep_index: bool, remote: Remote | None, as_json: bool
) -> None:
    """Remove what no process uses, or of that only the shards of URLS.

    Without URLS the index goes too, which is made again at the next start.
    """
    cached = _cache(cache_dir)
    cleared = cached.clear([url for url, _ in _shards(urls, remote)] if urls else None)
    index = Kept(0, 0) if urls or keep_index else clear_index(cached.folder)
    if as_json:
        options.echo_json({"shards": dataclasses.asdict(cleared), "index": index._asdict()})
        return
    click.echo(f"removed {options.counted(cleared.shards, 'shard')}, {options.size(cleared.bytes)}")
    if index.files:
        click.echo(f"removed {options.counted(index.files, 'index file')}, {options.size(index.bytes)}")
    if cleared.in_use:
        click.echo(f"kept {options.counted(cleared.in_use, 'shard')} that a process uses")


@cache.command("warm", epilog=WARM_EPILOG)
@options.urls
@_folder
@click.option(
    "--bytes", "limit", type=options.ByteSize(), help="What the cache may take; a twentieth of the disk less."
)
@click.option("--threads", type=click.IntRange(1, 64), default=8, show_default=True, help="Shards at once.")
@remote_options
@options.as_json
@click.pass_context
def warm_command(
    ctx: click.Context,
    /,
    urls: tuple[str, ...],
    *,
    cache_dir: Path | None,
    limit: int | None,
    threads: int,
    remote: Remote | None,
    as_json: bool,
) -> None:
    """Fetch whole shards into the cache before training needs them.

    Training then finds them there, if it is given the same cache_dir. What is there already is not fetched again, so
    that a warming that was stopped is taken up where it was.
    """
    shards = _shards(urls, remote)
    if not all(addresses.is_remote(url) for url, _ in shards):
        raise UsageError("files of this machine are not cached", cure="Name shards or a listing by http:// or the like")
    with _cache(cache_dir, limit) as cached:
        warmed = _warm(cached, shards, threads=threads, remote=remote)
        fetched = cached.report()["fetched"]
    if as_json:
        options.echo_json({**dataclasses.asdict(warmed), "fetched": fetched})
    else:
        click.echo(
            f"{warmed.whole:,} of {options.counted(warmed.shards, 'shard')} in the cache, {options.size(warmed.kept)} "
            f"of {options.size(warmed.bytes)}, {options.size(fetched)} of it fetched now"
        )
    ctx.exit(0 if warmed.kept == warmed.bytes else 1)


def _cache(folder: Path | None, limit: int | None = None) -> DiskCache:
    from wds_tools.sources.cache import DiskCache

    folder = folder or default_cache_dir()
    if folder is None:
        raise UsageError("this user has no cache directory", cure="Pass --cache-dir")
    return DiskCache(folder, limit)


def _shards(urls: Sequence[str], remote: Remote | None) -> list[tuple[str, int | None]]:
    """Urls, and bytes where a listing says them."""
    found: list[tuple[str, int | None]] = []
    files = Files(IndexCache(None), remote)
    for place in places(urls, remote=remote):
        if place.listing:
            listing = files.listing(place.url)
            sizes = (int(size) for size in listing.sizes)
            found += [(url, size if size >= 0 else None) for url, size in zip(listing.urls, sizes, strict=True)]
        else:
            found.append((place.url, None))
    return found


def _warm(cached: DiskCache, shards: list[tuple[str, int | None]], *, threads: int, remote: Remote | None) -> Warmed:
    from wds_tools.sources.cache import dataset_of
    from wds_tools.sources.resolve import open_source

    sizes = [size for _, size in shards]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with progress.bar("warming", total=None if total is None else total // 10**6, unit="MB") as bar:
        return cached.warm(
            shards,
            functools.partial(open_source, remote=remote),
            dataset=dataset_of(url for url, _ in shards),
            advance=_Megabytes(bar).add,
            threads=threads,
        )


class _Megabytes:
    """Moves a bar that counts in MB by bytes; from any thread."""

    def __init__(self, bar: progress.Progress) -> None:
        self._bar = bar
        self._lock = threading.Lock()
        self._rest = 0

    def add(self, count: int) -> None:
        with self._lock:
            whole, self._rest = divmod(self._rest + count, 10**6)
        self._bar.advance(whole)


def _described(found: CacheInfo, index: Kept, *, folder: Path, now: float) -> Iterator[str]:
    yield f"folder   {printable(str(folder))}"
    yield (
        f"shards   {options.counted(found.shards, 'shard')}, {found.whole:,} of them whole, "
        f"{options.size(found.bytes)}, {options.size(found.on_disk)} on disk"
    )
    for at, each in enumerate(reversed(found.datasets)):
        yield f"{'' if at else 'datasets':<9}{_dataset(each, now)}"
    yield f"index    {options.counted(index.files, 'file')}, {options.size(index.bytes)}"


def _dataset(each: DatasetInfo, now: float) -> str:
    used = "in use" if each.in_use else f"used {_ago(now - each.used_at)}"
    held = f"{options.size(each.bytes)} of {options.size(each.of)}"
    return f"{printable(each.name)}: {options.counted(each.shards, 'shard')}, {held}, {used}"


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{options.counted(int(seconds // length), unit)} ago"
    return "just now"

"""From one remote url to shards and listings: what can be said without asking, and what only a store can list.

A url that ends with a slash is a folder, and means its dataset.json; so does one of a web server that names no path, as
`wds serve` prints it. Object stores and hubs (what fsspec opens) list
what they have, so there a folder without a listing means its shards, and a pattern what it matches; a web server gives
out files, and no list that could be relied on.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from wds_tools import addresses
from wds_tools.errors import NoShardsError, UsageError, shown
from wds_tools.index.listing import LISTING_NAME
from wds_tools.sources.options import Remote

__all__ = ["Place", "expand_remote"]

_WEB = frozenset({"http", "https"})


class Place(NamedTuple):
    """One thing that the user named: a shard, or a listing of shards."""

    url: str
    listing: bool
    folder: bool = False
    """Whether the listing was found in a folder that was named."""


def expand_remote(url: str, remote: Remote | None) -> list[Place]:
    """What a url, its braces expanded already, means.

    Raises:
        UsageError: a pattern on a web server.
        NoShardsError: a pattern or a folder in a store that holds no shard.
    """
    if addresses.scheme(url) in _WEB:
        return [_on_a_host(url)]
    if url.endswith("/"):
        return _in_a_store(url, remote)
    if any(mark in url for mark in "*?[") and not addresses.is_listing(url):
        found = _matching(url, remote)
        return [Place(each, addresses.is_listing(each)) for each in found]
    return [Place(url, addresses.is_listing(url))]


def _on_a_host(url: str) -> Place:
    path = addresses.without_query(url)
    if "*" in path:
        raise UsageError(
            "a web server cannot be asked which files match a pattern",
            url=url,
            cure="Write the numbers in braces, train-{000000..000099}.tar, or name the dataset.json beside the shards",
        )
    if "/" not in path.partition("://")[2]:  # a host alone
        return Place(f"{path}/{LISTING_NAME}{url[len(path) :]}", listing=True)
    if path.endswith("/"):
        return Place(path + LISTING_NAME + url[len(path) :], listing=True)
    return Place(url, addresses.is_listing(url))


def _in_a_store(folder: str, remote: Remote | None) -> list[Place]:
    from wds_tools.sources.fsspec import names

    found = names(folder, remote)
    if LISTING_NAME in found:
        return [Place(folder + LISTING_NAME, listing=True)]
    shards = [name for name in found if addresses.is_shard_name(name)]
    if not shards:
        raise NoShardsError(f"no shards in {shown(folder)}", cure="Check the url; shards end with .tar")
    return [Place(folder + name, listing=False) for name in shards]


def _matching(pattern: str, remote: Remote | None) -> list[str]:
    """The files that match, sorted. Where some look like shards only those."""
    from wds_tools.sources.fsspec import glob

    found = [each for each in glob(pattern, remote) if not addresses.is_temporary(posixpath.basename(each))]
    if not found:
        raise NoShardsError(f"nothing matches {shown(pattern)}", cure="Check the url; a list takes several patterns")
    shards = [each for each in found if addresses.is_shard_name(posixpath.basename(each))]
    return shards or found

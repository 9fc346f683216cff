"""From an address to an open source: one table from scheme to opener.

A module for another kind of address adds its schemes with `register`; nothing else changes. Commands in place of an
address (`pipe:`) are never run.
"""

from __future__ import annotations

from collections.abc import Callable

from wds_tools import addresses
from wds_tools.errors import UsageError
from wds_tools.sources.base import Source
from wds_tools.sources.local import LocalFile

__all__ = ["Opener", "open_source", "register"]

Opener = Callable[[str], Source]


def _open_local(url: str) -> Source:
    return LocalFile(addresses.path_of(url), url=url).open()


_OPENERS: dict[str | None, Opener] = {None: _open_local, "file": _open_local}


def register(scheme: str, opener: Opener) -> None:
    """Open addresses of `scheme` (lower case, without `://`) with `opener` from now on."""
    _OPENERS[scheme] = opener


def open_source(url: str) -> Source:
    """Open a shard for reading; the caller closes it.

    Raises:
        UsageError: an address of a kind that is not read, or no regular file.
        ShardMissingError: nothing lies there.
        UnavailableError: disk, permission, too many open files.
    """
    if url.startswith("pipe:"):
        raise UsageError(
            "commands in place of an address are not run", url=url, cure="Copy the shards to a local disk first"
        )
    opener = _OPENERS.get(addresses.scheme(url))
    if opener is None:
        raise UsageError(
            f"{addresses.scheme(url)}:// cannot be read, only local files are so far",
            url=url,
            cure="Copy the shards to a local disk first",
        )
    return opener(url)

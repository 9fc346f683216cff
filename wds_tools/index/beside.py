"""What lies beside shards in their folder: listings, and shards that the folder's listing does not list.

A shard that is put into an indexed folder later is read by nobody who opens the folder, since the listing says what
the dataset is. That shall not happen in silence: one look at the names of the folder tells. Shards that another listing
beside lists (`val.json` beside `dataset.json`) are accounted for.
"""

# Urls and the names of shards are text that comes back as it was given: pathlib would change some.
# ruff: noqa: PTH118, PTH120, PTH208

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Sequence

from wds_tools import addresses
from wds_tools.errors import ShardstreamError, StaleIndexError, counted, shown
from wds_tools.index.listing import LISTING_NAME, offsets_name, read_listing

__all__ = ["listings_in", "refusal", "unlisted", "warn_of_unlisted"]

_log = logging.getLogger(__name__)
_SHOWN = 3


def listings_in(folder: str) -> list[str]:
    """Those with offsets, dataset.json first."""
    names = set(_names(folder))
    found = sorted(name for name in names if name.endswith(".json") and offsets_name(name) in names)
    return [os.path.join(folder, name) for name in sorted(found, key=lambda name: name != LISTING_NAME)]


def unlisted(place: str, urls: Iterable[str]) -> list[str]:
    """The shards in the folder of the listing at `place` that are not among its `urls`: their names, sorted.

    The folder is listed once and no file looked at. A remote folder has none that could be seen.
    """
    if addresses.scheme(place) not in {None, "file"}:
        return []
    folder = os.path.dirname(addresses.absolute(addresses.path_of(place)))
    rest = {name: os.path.join(folder, name) for name in _names(folder) if addresses.is_shard_name(name)}
    rest = _without(rest, urls)
    for other in listings_in(folder) if rest else ():
        if other == os.path.join(folder, LISTING_NAME):
            continue
        try:
            rest = _without(rest, read_listing(other).urls)
        except ShardstreamError:
            continue  # a damaged listing accounts for nothing
    return sorted(rest)


def refusal(place: str, names: Sequence[str]) -> StaleIndexError:
    """The error that says which shards the listing at `place` leaves out, and the cure."""
    first = ", ".join(map(shown, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    folder = shlex.quote(os.path.dirname(place) or ".")
    cure = f"List what belongs to the dataset with `wds index --force {folder}`, and move away what does not"
    return StaleIndexError(
        f"{counted(len(names), 'shard')} beside the listing that it does not list: {first}", url=place, cure=cure
    )


def warn_of_unlisted(place: str, urls: Iterable[str]) -> None:
    """One line in the log where the folder of the listing at `place` holds shards that are not among its `urls`."""
    if names := unlisted(place, urls):
        _log.warning("not read: %s", refusal(place, names))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _without(rest: dict[str, str], urls: Iterable[str]) -> dict[str, str]:
    listed = {addresses.absolute(url) for url in urls}
    return {name: path for name, path in rest.items() if path not in listed}

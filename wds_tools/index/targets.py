"""Where the listing of remote shards goes: into a folder of this machine, or beside them in a store.

A web server takes no files, so there a folder has to be named; the listing in it names the shards by their urls. A
listing is passed on, so what opens them is not written down: user, password and signature are left out, and a url with
another secret in it is refused. In a store the listing lies beside the shards and names them by their place there, as a
local one does; it is put there whole, offsets first.
"""

from __future__ import annotations

import logging
import posixpath
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from wds_tools import addresses
from wds_tools.errors import TargetError, UsageError, public
from wds_tools.index.listing import LISTING_NAME, ShardRecord, offsets_name, write_listing
from wds_tools.sources.cache.names import object_key
from wds_tools.sources.options import Remote

__all__ = ["Target", "targets_of", "without_secret"]

_log = logging.getLogger(__name__)

_EXTRA = re.compile(r"[?#]|://[^/]*@")
_PASSWORD = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#@:]*):[^/?#@]*@")
_SECRET = re.compile(r"(?i)token|secret|sig$|signature|passw|pwd|auth|credential|(?:api|access)[_-]?key")
_CURE = "`wds index --force` replaces it."


@dataclass(frozen=True, kw_only=True)
class Target:
    """One listing to be made.

    Attributes:
        place: where it will lie: a path, or a url in a store.
        shards: what it lists, by url.
        names: how the listing names them.
        remote: how the store is asked.
    """

    place: Path | str
    shards: Sequence[str]
    names: Sequence[str]
    remote: Remote | None

    def refuse_existing(self, *, force: bool) -> None:
        """Raise TargetError where a listing lies there already; before hours are spent on a new one."""
        if not force and self._is_there():
            raise TargetError("a listing is there", url=str(self.place), cure=_CURE)

    def write(self, records: Sequence[ShardRecord], extra: Mapping[str, object]) -> None:
        """Put the listing and its offsets there, each wholly or not at all."""
        if isinstance(self.place, Path):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            write_listing(self.place, records, name=self.place.parent.name, extra=extra)
            return
        from wds_tools.sources.fsspec import put, remove

        folder, name = self.place.rsplit("/", 1)
        with tempfile.TemporaryDirectory(prefix="shardstream-") as scratch:
            path = Path(scratch, name)
            write_listing(path, records, name=posixpath.basename(folder), extra=extra)
            for each in (offsets_name(name), name):  # a listing with other offsets than its own says so: see `ends_crc`
                remove(f"{folder}/{each}", self.remote)
                put(f"{folder}/{each}", path.with_name(each), self.remote)

    def _is_there(self) -> bool:
        if isinstance(self.place, Path):
            return self.place.exists()
        from wds_tools.sources.fsspec import exists

        return exists(self.place, self.remote)


def targets_of(shards: Sequence[str], out: Path | None, remote: Remote | None) -> list[Target]:
    """Which listings these remote shards get.

    Raises:
        UsageError: shards of a web server, and no folder to write to.
    """
    if out is not None:
        return [Target(place=out / LISTING_NAME, shards=shards, names=_without_secrets(shards), remote=remote)]
    found = []
    for place, run in groupby(shards, key=lambda url: addresses.join(url, LISTING_NAME)):
        if addresses.scheme(place) in {"http", "https"}:
            raise UsageError(
                "a web server takes no listing",
                url=place,
                cure=f"Say where to write it: `wds index {public(shards[0])} --out FOLDER`",
            )
        here = list(run)
        names = [posixpath.basename(url) for url in here]
        found.append(Target(place=place, shards=here, names=names, remote=remote))
    return found


def _without_secrets(urls: Sequence[str]) -> list[str]:
    names = [without_secret(url) for url in urls]
    if names != list(urls):
        _log.warning("the listing names the shards without passwords and signatures, which are not for passing on")
    return names


def without_secret(url: str) -> str:
    """How a listing names a shard on a host: without what opens it.

    Raises:
        UsageError: a query that holds a secret and may say which object it is.
    """
    if addresses.scheme(url) not in {"http", "https"}:
        return _PASSWORD.sub(r"\1@", url)  # the user stays: of abfs://container@account it is a part of the place
    if not _EXTRA.search(url):
        return url
    name = object_key(url)
    found = [
        parameter for parameter in re.findall(r"([^?=&]+)=[^&]", name.partition("?")[2]) if _SECRET.search(parameter)
    ]
    if found:
        raise UsageError(
            f"{found[0]} in the url looks like a secret, which a listing would pass on",
            url=url,
            cure="Index from Python with Remote(headers=) or Remote(sign=), or use ~/.netrc",
        )
    return name

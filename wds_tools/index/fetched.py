"""Listings, offsets and index files from wherever they lie; remote ones fetched once, kept, and revalidated.

A remote file is fetched in one request. What is kept of it in the cache directory is a pointer, named after its url
without what signs it (a hash, so that no secret of a url shows; a signed url is another text every hour and the same
file, see `sources.cache.names`), which says the version (a strong ETag, else the time of the last change)
and the size, and the content, named after url and version: so a file that somebody maps is never written again. The
next opening asks for a byte of it, and believes what it has if version and size are the same still, or if the host
cannot be reached, which is logged; a host that says no version is asked for everything each time. Of each url the
content that was in use before is kept too, since another process may be about to map it, and older ones are removed.

Headers that the user gave go to hosts that the user named. A listing on a host is somebody else's text: what it names
on another host is not asked for with them, but refused.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from wds_tools import addresses
from wds_tools.errors import (
    ListingError,
    RangesRefusedError,
    ShardChangedError,
    ShardMissingError,
    StaleIndexError,
    TruncatedShardError,
    UnavailableError,
    UsageError,
    public,
)
from wds_tools.index.cache import IndexCache
from wds_tools.index.listing import Listing, parse_listing
from wds_tools.index.offsets import Offsets, map_offsets, offsets_in
from wds_tools.sources.base import Stream
from wds_tools.sources.http.addressing import origin
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source, open_stream

__all__ = ["Files"]

_log = logging.getLogger(__name__)

_PIECE = 1 << 20
_LIMIT = 1 << 34  # 2 billion samples' offsets: beyond this it is something else
_MEMORY_LIMIT = 1 << 30


class Files:
    """Reads small files by their address. Safe for many threads.

    Args:
        cache: where remote ones are kept.
        remote: how remote hosts are asked.
    """

    def __init__(self, cache: IndexCache, remote: Remote | None = None) -> None:
        self.remote = remote
        self._cache = cache
        self._unreachable: set[str] = set()

    def read(self, url: str) -> bytes:
        """The content of a file.

        Raises:
            ListingError: it is too large for anything that is read whole.
            ShardMissingError, UnavailableError: it cannot be had.
        """
        path = self.path(url)
        if path is not None:
            return path.read_bytes()
        with open_stream(url, remote=self.remote) as stream:
            return b"".join(_pieces(stream, limit=_MEMORY_LIMIT))

    def listing(self, url: str) -> Listing:
        """The listing at `url`, with those that it refers to.

        Raises:
            ListingError: as `read_listing`.
            UsageError: it names other hosts, and headers were given that nobody has said are for them.
            ShardMissingError, UnavailableError: it cannot be had.
        """
        return self.parsed(self.read(url), url)

    def parsed(self, data: bytes, url: str) -> Listing:
        """The listing in `data`, which was read from `url`; raises as `listing`."""

        def named(part: str) -> bytes:
            self.refuse_strangers(url, [part])
            return self.read(part)

        listing = parse_listing(data, url, fetch=named)
        self.refuse_strangers(url, listing.urls if listing.offsets is None else [*listing.urls, listing.offsets])
        return listing

    def refuse_strangers(self, listing: str, named: Iterable[str]) -> None:
        """Raise UsageError where a listing names what lies on another host, and that would be sent the headers."""
        if self.remote is None or not self.remote.same_for_all or not addresses.is_remote(listing):
            return
        own = "/".join(listing.split("/", 3)[:3]) + "/"
        for url in named:
            if url.startswith(own) or addresses.scheme(url) not in {"http", "https"}:
                continue
            if addresses.scheme(listing) not in {"http", "https"} or origin(url) != origin(listing):
                raise UsageError(
                    f"this listing names {public(url)} on another host, which would be sent your headers",
                    url=listing,
                    cure="Give Remote(headers=) as a function of the url that says which host gets them",
                )

    def path(self, url: str) -> Path | None:
        """Where the content of a remote file is kept on this machine; None for a local file, or if nothing is kept."""
        folder = self._cache.folder
        if folder is None or not addresses.is_remote(url):
            return None
        pointer = _pointer(folder, url)
        kept = _Kept.load(pointer)
        if kept is not None and self._is_still(url, kept):
            return kept.content(pointer)
        return self._fetched(url, pointer, kept)

    def offsets(self, url: str, *, length: int) -> Offsets:
        """What an offsets file holds: mapped, or in memory where a remote one cannot be kept.

        Raises:
            StaleIndexError: it is missing, or holds another number of offsets than `length`.
            UnavailableError: it cannot be had.
        """
        if not addresses.is_remote(url):
            return map_offsets(addresses.path_of(url), length=length)
        try:
            path = self.path(url)
            if path is not None:
                return map_offsets(str(path), length=length)
            return offsets_in(self.read(url), length=length)
        except ShardMissingError as error:
            raise StaleIndexError("the offsets file is missing", url=url) from error
        except StaleIndexError as error:
            error.url = url  # and not where it is kept
            raise

    def forget(self, url: str) -> None:
        """Do not believe what is kept of this url."""
        folder = self._cache.folder
        if folder is not None:
            with contextlib.suppress(OSError):
                _pointer(folder, url).unlink()

    def _is_still(self, url: str, kept: _Kept) -> bool:
        host = "/".join(url.split("/", 3)[:3])
        if host in self._unreachable:
            return True
        try:
            with open_source(url, remote=self.remote) as source:
                size = source.size()
                return (size, getattr(source, "version", None)) == (kept.size, kept.version)
        except RangesRefusedError:
            return False
        except (ShardMissingError, ShardChangedError):
            raise
        except UnavailableError as error:
            if error.errno == errno.EACCES:  # it is reached, and refuses
                raise
            self._unreachable.add(host)
            _log.warning("what is kept is used without asking whether it has changed: %s", error)
            return True

    def _fetched(self, url: str, pointer: Path, before: _Kept | None) -> Path | None:
        with open_stream(url, remote=self.remote) as stream:
            version = getattr(stream, "version", None)
            if version is None:
                return None
            digest = _hash(f"{pointer.name}\n{version}")
            size = self._cache.keep(pointer.parent / f"remote-{digest}.data", _pieces(stream, limit=_LIMIT))
        if size is None:
            return None
        kept = _Kept(version, size, [digest, *(before.digests if before else ())])
        kept.digests = kept.forget_old(pointer)
        if self._cache.keep(pointer, [kept.text()]) is None:
            return None
        return kept.content(pointer)


class _Kept:
    """A pointer: what is kept of a url.

    Attributes:
        version, size: of the object.
        digests: name the content, and the one before it.
    """

    def __init__(self, version: str, size: int, digests: list[str]) -> None:
        self.version, self.size, self.digests = version, size, digests

    @classmethod
    def load(cls, pointer: Path) -> _Kept | None:
        try:
            facts = json.loads(pointer.read_bytes())
            kept = cls(str(facts["version"]), int(facts["size"]), [str(each) for each in facts["digests"]])
            return kept if kept.content(pointer).stat().st_size == kept.size else None
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            return None

    def text(self) -> bytes:
        return json.dumps({"version": self.version, "size": self.size, "digests": self.digests}).encode("ascii")

    def content(self, pointer: Path) -> Path:
        return pointer.with_name(f"remote-{self.digests[0]}.data")

    def forget_old(self, pointer: Path) -> list[str]:
        """Remove contents that were replaced twice; the names of the others."""
        names = list(dict.fromkeys(self.digests))
        for old in names[2:]:
            with contextlib.suppress(OSError):
                pointer.with_name(f"remote-{old}.data").unlink()
        return names[:2]


def _pieces(stream: Stream, *, limit: int) -> Iterator[bytes]:
    """All of a stream, in pieces.

    Raises:
        TruncatedShardError: it ended, and nothing shows that this is all.
    """
    buffer, total = memoryview(bytearray(_PIECE)), 0
    while count := stream.readinto(buffer):
        total += count
        if total > limit:
            raise ListingError(f"more than {limit:,} bytes are too many for a listing or an index", url=stream.url)
        yield bytes(buffer[:count])
    if not stream.shows_cuts:
        raise TruncatedShardError(
            "the host does not say how long the file is, so that a part of it could pass for all",
            url=stream.url,
            cure="Serve it with a Content-Length, as every static server does",
        )


def _pointer(folder: Path, url: str) -> Path:
    from wds_tools.sources.cache.names import object_key  # and with it the cache on disk: 70 ms that local ones save

    return folder / f"remote-{_hash(object_key(url))}.json"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

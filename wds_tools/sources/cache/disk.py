"""The cache of remote bytes in one folder, for all processes of a machine.

    cache = DiskCache(Path("/nvme/cache"), 500_000_000_000)
    with cache.open(url, size=size, version=None, inner=open_source(url), dataset=name) as file:
        file.read_into(offset, buffer)

    FOLDER/shards/ledger            bytes booked by all (`ledger`)
    FOLDER/shards/datasets/<hash>   which entries belong together, and who uses them (`groups`)
    FOLDER/shards/<entry>           one version of one object: data, records, header (`layout`)

Nothing is started and nothing is held open but the lists of the datasets in use and the entries that the caller has
open, so that a cache may be forked (children share what is open) and pickled (folder and limit). Two jobs, ranks,
workers and threads may use one folder at once.

Which version an entry is of. `version` is what the caller knows of the content (a checksum in the listing): part of the
entry's name, and believed. Without it the origin is asked for one byte of a shard whose version nobody has confirmed
for a day; if it is another by now, the entry is dropped and begun anew. An origin that cannot be reached is no reason
not to use what is here. Objects that are replaced while they are read are an error (`origin`).

What only streams (servers without ranges, archives without index) is not cached: it is read once, from end to end.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from wds_tools.addresses import given
from wds_tools.atomic import temporary_beside
from wds_tools.errors import UnavailableError, UsageError, public
from wds_tools.sources.base import Source
from wds_tools.sources.cache import origin, upkeep, warming
from wds_tools.sources.cache.admission import Admission
from wds_tools.sources.cache.counts import Counts, What
from wds_tools.sources.cache.entry import Entry, create
from wds_tools.sources.cache.file import CachedFile
from wds_tools.sources.cache.groups import Membership
from wds_tools.sources.cache.inspection import entries
from wds_tools.sources.cache.layout import Header, Layout
from wds_tools.sources.cache.ledger import Balance, Ledger
from wds_tools.sources.cache.names import entry_name

__all__ = ["DiskCache"]

_log = logging.getLogger(__name__)
SHARDS = "shards"


class DiskCache:
    """A cache on disk. The constructor only stores; the folder is made when something is first kept.

    Args:
        folder: the cache directory; the bytes of shards lie in `shards/` below it.
        limit: bytes on disk at most; None for as many as leave a twentieth of the disk free.
    """

    def __init__(self, folder: str | Path, limit: int | None = None) -> None:
        folder = given(folder, "the folder of the cache")
        if limit is not None and limit < 1:
            raise UsageError(f"a cache of {limit} bytes", cure="Give the bytes that the cache may take, or None")
        self.folder = Path(folder)
        self.limit = limit
        self._ledger = Ledger(self.folder / SHARDS, limit)
        self._admission = Admission(self._ledger)
        self._counts = Counts()
        self._members: dict[str, Membership] = {}
        self._sound: dict[bytes, bytearray] = {}
        self._unreachable: list[None] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r}, {self.limit})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.limit)

    def open(self, url: str, *, size: int | None, version: str | None, inner: Source, dataset: str) -> CachedFile:
        """A remote object whose bytes are kept here; a folder that cannot be used is logged once, and no error.

        Args:
            url: which object; what signs it does not matter (see `names`).
            size: its bytes; None to ask `inner`.
            version: what tells its content from an earlier one of the same size, None if nobody knows.
            inner: where missing bytes come from; closed with the result, and if this raises.
            dataset: what it belongs to: its entries stay while any process uses it (see `names.dataset_of`).

        Raises:
            What `inner` raises, where it is asked.
        """
        try:
            size = inner.size() if size is None else size
            entry = self._entry(url, size, version, inner, dataset) if size > 0 else None
        except BaseException:
            inner.close()
            raise
        return CachedFile(inner, size, entry=entry, admission=self._admission, counts=self._counts)

    def report(self) -> dict[What, int]:
        """What this process did so far: bytes `fetched` and `streamed`, `requests` for both, extents `damaged`.

        All else was on disk.
        """
        return self._counts.total()

    def info(self) -> upkeep.CacheInfo:
        """What lies in the folder, by dataset."""
        return upkeep.info(self._ledger.folder)

    def clear(self, urls: Sequence[str] | None = None) -> upkeep.Cleared:
        """Remove what no process uses, or of that only the entries of `urls`.

        Raises:
            UnavailableError: the folder cannot be written.
        """
        return upkeep.clear(self._ledger, urls)

    def warm(
        self,
        shards: Sequence[tuple[str, int | None]],
        opener: Callable[[str], Source],
        *,
        dataset: str,
        advance: Callable[[int], object] = int,
        threads: int = 8,
    ) -> warming.Warmed:
        """Fetch whole shards into the cache; see `warming.warm`."""
        return warming.warm(self.open, shards, opener, dataset=dataset, advance=advance, threads=threads)

    def close(self) -> None:
        """Stop using all datasets; files that are open read on. Twice does nothing."""
        while self._members:
            self._members.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _entry(self, url: str, size: int, version: str | None, inner: Source, dataset: str) -> Entry | None:
        header = Header(secrets.token_bytes(16), size, public(url), version)
        path = self._ledger.folder / entry_name(url, size, version)
        try:
            entry = self._found_or_made(path, header, dataset)
        except OSError as error:
            self._admission.failed(error)
            return None
        if entry is None or self._is_confirmed(entry, inner, ask=version is None):
            return entry
        entry.close()
        try:
            origin.remove(self._ledger, entry)
            return self._found_or_made(path, header, dataset)
        except OSError as error:
            self._admission.failed(error)
            return None

    def _found_or_made(self, path: Path, header: Header, dataset: str) -> Entry | None:
        try:
            member = self._member(dataset)
        except OSError as error:  # a folder that may only be read: what is there is served
            self._admission.failed(error)
            return self._shared(Entry.open(path))
        entry = Entry.open(path) if path.name in member else None
        if entry is None and (self._admission.open or path.name not in member):
            with self._ledger.locked() as balance:
                entry = self._made(path, header, member, balance)
        return self._shared(entry)

    def _made(self, path: Path, header: Header, member: Membership, balance: Balance) -> Entry | None:
        if path.name not in member:
            member.add(path.name)
        entry = Entry.open(path)
        if entry is not None:
            return entry
        if path.exists():  # damaged: what it was booked with is anybody's guess
            path.unlink()
            balance.recount()
        need = Layout(header.size).overhead
        if not self._admission.open or not self._admission.fits(balance, need):
            return None
        balance.book(need)
        create(path, temporary_beside(path), header)
        return Entry.open(path)

    def _shared(self, entry: Entry | None) -> Entry | None:
        """An entry that goes on from what this process has checked of it before."""
        if entry is not None:
            entry.sound = self._sound.setdefault(entry.header.birth, entry.sound)
        return entry

    def _member(self, dataset: str) -> Membership:
        member = self._members.get(dataset)
        if member is not None:
            return member
        with self._ledger.locked(wait=self._admission.open):  # who has waited in vain does not do so for each shard
            entries(self._ledger.folder, tidy=True)  # what a killed process left is of no use to anybody
            fresh = Membership.begin(self._ledger.folder, dataset)
        member = self._members.setdefault(dataset, fresh)
        if member is not fresh:  # another thread was first
            fresh.close()
        return member

    def _is_confirmed(self, entry: Entry, inner: Source, *, ask: bool) -> bool:
        try:
            return origin.is_confirmed(entry, inner, ask=ask and not self._unreachable)
        except UnavailableError as error:
            if not self._unreachable:
                self._unreachable.append(None)
                _log.warning("what is cached is used without asking whether it has changed: %s", error)
            return True

"""The inner source of a cached file, held to one version of its object.

The host says with its bytes which version they are of (`version` of the inner source: ETag, else Last-Modified). The
entry notes what came with its first bytes, and everything later must be of the same: the inner source is told to expect
it, and what it says afterwards is compared. A host that says nothing proves nothing.
"""

from __future__ import annotations

import contextlib
import time

from wds_tools.errors import ShardChangedError
from wds_tools.sources.base import Expecting, Source
from wds_tools.sources.cache.entry import Entry
from wds_tools.sources.cache.groups import remove_entry
from wds_tools.sources.cache.ledger import Ledger

__all__ = ["Origin", "is_confirmed", "remove", "version_of"]

CONFIRMED_S = 24 * 3600.0
"""How long what the origin said of a version is believed without asking."""


class Origin:
    """Where bytes come from that are not on the disk.

    Args:
        inner: the source.
        size: bytes of the object.
        entry: whose version it is held to, None to hold it to nothing.
        ledger: the books of the entry's folder.
    """

    def __init__(self, inner: Source, size: int, entry: Entry | None, ledger: Ledger) -> None:
        self._inner = inner
        self._size = size
        self._entry = entry
        self._ledger = ledger
        self._expected: str | None = None

    @property
    def prefers_whole(self) -> bool:
        """Whether the host has lately asked for fewer requests, or has shown that it answers no ranges."""
        return bool(getattr(self._inner, "limited", False)) or getattr(self._inner, "ranges", None) is False

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on.

        Raises:
            ShardChangedError: the object is no longer the one whose bytes are on the disk, which are dropped.
        """
        self._expect()
        try:
            self._inner.read_into(offset, buffer)
        except ShardChangedError:
            self._drop()
            raise
        self._compare(None if self._entry is None else self._entry.origin())

    def note(self) -> None:
        """Keep the version that came with the bytes just read, or compare it with that which another kept first.

        Raises:
            ShardChangedError: they differ.
            OSError: the disk.
        """
        version = version_of(self._inner)
        if version is None or version == self._expected or self._entry is None:
            return
        with self._ledger.locked():
            kept = self._entry.note_origin(version)
        self._compare(kept)

    def _expect(self) -> None:
        if self._expected is None and self._entry is not None:
            self._expected = self._entry.origin()
            if self._expected is not None and isinstance(self._inner, Expecting):
                self._inner.expect(size=self._size, version=self._expected)

    def _compare(self, kept: str | None) -> None:
        said = version_of(self._inner)
        if None in (kept, said) or kept == said:
            return
        self._drop()
        raise ShardChangedError(
            f"what is cached of it is of version {kept}, and it is {said} now",
            url=self._inner.url,
            cure="It was replaced; what was cached of it is dropped: start again",
        )

    def _drop(self) -> None:
        if self._entry is not None:
            with contextlib.suppress(OSError):
                remove(self._ledger, self._entry)


def version_of(inner: Source) -> str | None:
    """The version that the source's host has stated so far."""
    version = getattr(inner, "version", None)
    return version if isinstance(version, str) else None


def is_confirmed(entry: Entry, inner: Source, *, ask: bool) -> bool:
    """Whether an entry is still of the origin's version, as far as that can be known.

    A source that already knows its version is not asked. Else it is asked for one byte if `ask`, and if the last answer
    was more than a day ago: the entry's file has the time of the last answer, as each brings bytes.

    Raises:
        What the inner source raises.
    """
    kept = entry.origin()
    if kept is None or not hasattr(inner, "version"):
        return True
    if version_of(inner) is None and ask and not 0 <= time.time() - entry.changed_at() < CONFIRMED_S:
        inner.read_into(0, memoryview(bytearray(1)))
        if version_of(inner) == kept:
            entry.touch()
    return version_of(inner) in {None, kept}


def remove(ledger: Ledger, entry: Entry) -> None:
    """Remove an entry if it still lies where it was opened. Who has it open reads on.

    Raises:
        OSError: the disk.
    """
    with ledger.locked() as balance:
        if entry.is_there():
            remove_entry(balance, entry.path)

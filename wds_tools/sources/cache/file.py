"""A remote object whose bytes are kept on disk, as a source.

    all leaves found right before  ->  one positioned read
    present, not looked at yet     ->  checked, then read; what is damaged is fetched again
    missing, and room for it       ->  locked, fetched in whole extents (neighbours in one request), written, handed on
    missing, no room               ->  asked of the origin: these bytes and no more

Whoever waited for a lock finds the extent there, so each is fetched once per machine. The bytes that are handed on are
those that came, so that a disk that fills up in the middle harms no read.

Bytes of two versions never meet: an entry notes the version that the origin gave with its first bytes (ETag, else
Last-Modified), the inner source is told to expect it, and what it says afterwards is compared before a record is
written and before bytes that went past the disk are handed on. If it is another, the entry is removed and the read is a
`ShardChangedError`: the next start begins anew. An origin that gives no version is believed to keep its object as long
as the size is the same.

Where the host limits its rate a request costs more than bytes, and some hosts answer no ranges but do send the whole:
shards under 64 MiB are then fetched whole, in one request.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Self

from wds_tools.errors import RangesRefusedError, ShardstreamError, TruncatedShardError
from wds_tools.sources.base import Source
from wds_tools.sources.cache.admission import Admission
from wds_tools.sources.cache.counts import Counts
from wds_tools.sources.cache.entry import Entry, Writer
from wds_tools.sources.cache.layout import EXTENT, State
from wds_tools.sources.cache.origin import Origin

__all__ = ["CachedFile"]

_log = logging.getLogger(__name__)
_RUN = 4
"""Extents in one request at most, so that a thread holds 16 MiB and not a shard."""
_WHOLE = 64 << 20
"""Shards below this are fetched whole where the host limits its rate."""


class CachedFile:
    """A Source over an inner one, which it closes. Made by `DiskCache.open`.

    Args:
        inner: where bytes come from that are not here.
        size: bytes of the object.
        entry: its entry, None to go without.
        admission: what may be put on the disk.
        counts: what happened.
    """

    def __init__(self, inner: Source, size: int, *, entry: Entry | None, admission: Admission, counts: Counts) -> None:
        self._inner = inner
        self._size = size
        self._entry = entry
        self._admission = admission
        self._counts = counts
        self._origin = Origin(inner, size, entry, admission.ledger)

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._inner.url

    def size(self) -> int:
        """Bytes in all."""
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on, or raise what the inner source raises."""
        stop = offset + len(buffer)
        if stop > self._size:
            raise self._beyond(stop)
        entry = self._entry
        if entry is not None and entry.fill(offset, stop, buffer):
            return  # nothing is counted here: 2% of a read of 100 KB
        at = offset
        while at < stop:
            at += self._fill_some(at, buffer[at - offset :])

    def fetch(self, offset: int, length: int) -> bool:
        """See that these bytes are on the disk, fetching what is missing; whether they now are.

        False is no error: there is no room, or no cache. Raises what the inner source raises.
        """
        at, stop = offset, min(offset + length, self._size)
        while at < stop:
            if self._entry is None:
                return False
            extent = at // EXTENT
            if self._entry.record(extent).state is not State.PRESENT:
                got = self._fetched(extent, (stop - 1) // EXTENT, damaged=False)
                if got is None and self._entry.record(extent).state is not State.PRESENT:
                    return False
            at = (extent + 1) * EXTENT
        return True

    def lend(self, start: int, stop: int) -> int | None:
        """The descriptor of the file on the disk, if these bytes are there; open until `give_back`, called always."""
        return None if self._entry is None else self._entry.lend(start, stop)

    def give_back(self) -> None:
        """End the use of what `lend` gave."""
        if self._entry is not None:
            self._entry.give_back()

    def announce(self, offset: int, length: int) -> None:
        """Ask the kernel to begin to read what is here."""
        if self._entry is not None:
            self._entry.announce(offset, length)

    def close(self) -> None:
        """Give descriptor and inner source back. Twice does nothing."""
        if self._entry is not None:
            self._entry.close()
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _beyond(self, stop: int) -> TruncatedShardError:
        return TruncatedShardError(
            f"the object ends after {self._size:,} bytes, {stop:,} expected",
            url=self.url,
            offset=self._size,
            cure="It was cut or rewritten, or the index is of another: index it again with `wds index --force`",
        )

    def _fill_some(self, at: int, buffer: memoryview) -> int:
        """Fill the beginning of `buffer`, as far as the bytes have one fate; how many."""
        entry = self._entry
        if entry is None:
            return self._past(at, buffer)
        extent, last = at // EXTENT, (at + len(buffer) - 1) // EXTENT
        head = buffer[: (extent + 1) * EXTENT - at]
        sound = entry.check(at, at + len(head))
        if sound and entry.fill(at, at + len(head), head):
            return len(head)
        got = self._fetched(extent, last, damaged=sound is not None)
        if got is not None:
            start, data = got
            piece = data[at - start : at - start + len(buffer)]
            buffer[: len(piece)] = piece
            return len(piece)
        if entry.check(at, at + len(head)) and entry.fill(at, at + len(head), head):  # another was first
            return len(head)
        return self._past(at, buffer[: _missing_from(entry, extent, last) * EXTENT - at % EXTENT])

    def _past(self, at: int, buffer: memoryview) -> int:
        self._origin.read_into(at, buffer)
        self._counts.add("streamed", len(buffer))
        self._counts.add("requests", 1)
        return len(buffer)

    def _fetched(self, extent: int, last: int, *, damaged: bool) -> tuple[int, memoryview] | None:
        """Put `extent` on the disk, and missing ones about it; the first byte's offset and the bytes.

        None if it is there by now, or has no room.
        """
        entry = self._entry
        if entry is None or not self._admission.open:
            return None
        some, all_of_it = (extent, min(last, extent + _RUN - 1)), (0, entry.layout.extents - 1)
        whole = self._fetches_whole()
        try:
            return self._fetched_of(entry, extent, all_of_it if whole else some, damaged=damaged)
        except RangesRefusedError:  # which the host's first answer has shown
            if whole or not self._fetches_whole():
                raise
            return self._fetched_of(entry, extent, all_of_it, damaged=False)

    def _fetches_whole(self) -> bool:
        return self._size < _WHOLE and self._origin.prefers_whole

    def _fetched_of(
        self, entry: Entry, extent: int, bounds: tuple[int, int], *, damaged: bool
    ) -> tuple[int, memoryview] | None:
        got: tuple[int, memoryview] | None = None
        try:
            with entry.locked(*bounds) as writer:
                if writer is None:
                    return None
                if damaged:
                    self._mend(writer, extent)
                wanted = _missing_about(entry, extent, *bounds)
                wanted = wanted[: self._admission.admit(writer, wanted)] if wanted else wanted
                if wanted:
                    got = self._ask(entry, wanted)
                    for each in sorted(wanted):
                        start, stop = entry.layout.span(each)
                        writer.put(each, got[1][start - got[0] : stop - got[0]])
        except ShardstreamError:  # the origin's; some are OSErrors too
            raise
        except OSError as error:
            self._admission.failed(error)
        return got

    def _ask(self, entry: Entry, wanted: Sequence[int]) -> tuple[int, memoryview]:
        start, stop = entry.layout.span(min(wanted))[0], entry.layout.span(max(wanted))[1]
        data = memoryview(bytearray(stop - start))
        self._origin.read_into(start, data)
        self._origin.note()
        self._counts.add("fetched", len(data))
        self._counts.add("requests", 1)
        return start, data

    def _mend(self, writer: Writer, extent: int) -> None:
        """Take back what a record says, if its bytes are really damaged and nobody has mended them meanwhile."""
        writer.entry.doubt(*writer.entry.layout.span(extent))
        if writer.entry.check(*writer.entry.layout.span(extent)) is False:
            writer.begin(extent)
            self._counts.add("damaged", 1)
            _log.warning("%s: extent %d was damaged in the cache and is fetched again", writer.entry.path, extent)


def _missing_about(entry: Entry, extent: int, lowest: int, highest: int) -> list[int]:
    """A missing extent and its missing neighbours: upwards, then downwards, so that no beginning has a gap."""
    found: list[int] = []
    for direction in (range(extent, highest + 1), range(extent - 1, lowest - 1, -1)):
        for each in direction:
            if entry.record(each).state is State.PRESENT:
                break
            found.append(each)
        if not found:
            break
    return found


def _missing_from(entry: Entry, extent: int, last: int) -> int:
    """How many extents from `extent` on are not here; the first is not, whatever its record says."""
    number = 1
    while extent + number <= last and entry.record(extent + number).state is not State.PRESENT:
        number += 1
    return number

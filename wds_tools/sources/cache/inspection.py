"""What lies in a cache's folder, as its files say themselves: for counting, for `wds cache info`, for tidying."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from wds_tools import addresses
from wds_tools.sources.cache.layout import BLOCK, Header, Layout, Record, State, unpack_header, unpack_record
from wds_tools.sources.cache.names import is_entry

__all__ = ["Inspection", "entries", "inspect"]


class Inspection(NamedTuple):
    """What one entry holds."""

    header: Header
    layout: Layout
    records: tuple[Record, ...]
    on_disk: int
    """Bytes that the file system has given out for it."""

    @property
    def cost(self) -> int:
        """Bytes booked for it."""
        paid = (at for at, record in enumerate(self.records) if record.state is not State.EMPTY)
        return self.layout.overhead + sum(map(self.layout.cost, paid))

    @property
    def present(self) -> int:
        """Bytes of the object that are here."""
        spans = (self.layout.span(at) for at, record in enumerate(self.records) if record.state is State.PRESENT)
        return sum(stop - start for start, stop in spans)


def entries(folder: Path, *, tidy: bool = False) -> list[Path]:
    """The entries in a folder; with `tidy` (under the ledger's lock only) unfinished files are removed."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as names:
        for each in names:
            if is_entry(each.name):
                found.append(Path(each.path))
            elif tidy and addresses.is_temporary(each.name):
                Path(each.path).unlink()
    return found


def inspect(path: Path) -> Inspection | None:
    """What lies in an entry; None if it is no whole entry (any more)."""
    try:
        with path.open("rb", buffering=0) as stream:
            facts = os.fstat(stream.fileno())
            header = unpack_header(os.pread(stream.fileno(), BLOCK, max(0, facts.st_size - BLOCK)))
            layout = None if header is None else Layout.of_length(facts.st_size, header.size)
            if header is None or layout is None:
                return None
            data = os.pread(stream.fileno(), layout.extents * layout.record_size, layout.records_at)
    except FileNotFoundError:
        return None
    step = layout.record_size
    records = (unpack_record(header.birth, at, data[at * step : (at + 1) * step]) for at in range(layout.extents))
    return Inspection(header, layout, tuple(records), facts.st_blocks * 512)

"""Files of lines that parts have left, one behind the other in one file: reports of failures, originals of keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from wds_tools.atomic import write_atomic
from wds_tools.delivery import Delivery
from wds_tools.errors import ShardMissingError
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source

__all__ = ["merge_lines"]

_log = logging.getLogger(__name__)
_PIECE = 1 << 20


def merge_lines(delivery: Delivery, name: str, places: Sequence[str], remote: Remote | None = None) -> None:
    """Put the content of the files at `places`, in order, into the file `name` of the delivery.

    One that is gone is left out, with a line in the log: a report may be read and removed before parts are joined.

    Raises:
        UnavailableError: one cannot be read, or the new one not be written.
    """
    write_atomic(delivery.folder / name, (piece for place in places for piece in _content(place, remote)))
    delivery.deliver(name)


def _content(place: str, remote: Remote | None) -> Iterator[bytes]:
    try:
        with open_source(place, remote=remote) as source:
            for begin in range(0, source.size(), _PIECE):
                data = bytearray(min(_PIECE, source.size() - begin))
                source.read_into(begin, memoryview(data))
                yield bytes(data)
    except ShardMissingError:
        _log.warning("%s is gone, and its lines are missing in the joined file", place)

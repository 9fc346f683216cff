"""Files that many threads read at random: a bounded number of them open, each closed only when nobody reads it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wds_tools.sources.base import Source
from wds_tools.sources.resolve import open_source

__all__ = ["OpenFiles", "read_view"]

MOST = 128
"""Files open at once beside those in use; most systems let a process have 1,024."""


class OpenFiles:
    """Sources by number, opened when they are first read. Picklable; a copy opens its own.

    Args:
        urls: the files.
        opener: opens the file of a number and checks it; `open_source` of its url by default.
        most: how many stay open.
    """

    def __init__(self, urls: Sequence[str], *, opener: Callable[[int], Source] | None = None, most: int = MOST) -> None:
        self.urls = urls
        self._opener = opener
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[int, _Held] = OrderedDict()
        weakref.finalize(self, _forget, self._open)

    @contextlib.contextmanager
    def source(self, number: int) -> Iterator[Source]:
        """The file, open for as long as the block runs.

        Raises:
            UnavailableError, UsageError: it cannot be opened.
        """
        held = self._take(number)
        try:
            yield held.source
        finally:
            with self._lock:
                held.users -= 1
                last = held.dropped and not held.users
            if last:
                held.source.close()

    def read(self, number: int, offset: int, size: int) -> memoryview:
        """Bytes of a file, read-only, in memory of their own."""
        with self.source(number) as source:
            return read_view(source, offset, size)

    def close(self) -> None:
        """Close all that is not in use, and the rest when it is given back. They are opened again when asked for."""
        with self._lock:
            dropped = [self._drop(number) for number in list(self._open)]
        _close(dropped)

    def _take(self, number: int) -> _Held:
        with self._lock:
            held = self._open.get(number)
            if held is not None:
                self._open.move_to_end(number)
                held.users += 1
                return held
        made = _Held(self._opener(number) if self._opener is not None else open_source(self.urls[number]))
        with self._lock:
            held = self._open.setdefault(number, made)
            held.users += 1
            extra = [] if held is made else [made]
            while len(self._open) > self._most:
                extra.append(self._drop(next(iter(self._open))))
        _close(extra)
        return held

    def _drop(self, number: int) -> _Held:
        held = self._open.pop(number)
        held.dropped = True
        return held

    def __getstate__(self) -> dict[str, Any]:
        return {"urls": self.urls, "_opener": self._opener, "_most": self._most}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


class _Held:
    __slots__ = ("dropped", "source", "users")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.users = 0
        self.dropped = False


def _close(dropped: list[_Held]) -> None:
    for held in dropped:
        if not held.users:  # else the last user closes it
            held.source.close()


def _forget(held: OrderedDict[int, _Held]) -> None:
    """An input that was dropped without close: nobody reads from it any more."""
    _close(list(held.values()))


def read_view(source: Source, offset: int, size: int) -> memoryview:
    """Bytes of a source, read-only, in memory of their own that is not cleared first."""
    buffer = np.empty(size, dtype=np.uint8)
    source.read_into(offset, buffer.data)
    buffer.flags.writeable = False
    return buffer.data

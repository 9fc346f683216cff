"""A remote source read as a stream, its next pieces fetched while the caller looks at the last one.

For stores that are asked for ranges: one request after the other would cost a round trip each. Pieces of 4 MiB, three
under way, are 16 MiB a stream, and at 40 ms a round trip 300 MB/s. What goes wrong is raised where its bytes would have
come. `close`, from any thread, ends what is under way; no thread stays.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Self

import numpy as np

from wds_tools.errors import UnavailableError
from wds_tools.sources.base import Source

__all__ = ["AheadStream"]

PIECE = 4 << 20
UNDER_WAY = 3


class AheadStream:
    """A Source as a Stream, read ahead. It owns the source: `close` closes it. Nothing is asked for by making it."""

    def __init__(self, source: Source, *, piece: int = PIECE) -> None:
        self._source = source
        self._piece = piece
        self._pool: ThreadPoolExecutor | None = None
        self._asked = 0
        self._pieces: deque[Future[memoryview]] = deque()
        self._here = memoryview(b"")
        self._closed = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._source!r})"

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._source.url

    @property
    def shows_cuts(self) -> bool:
        """True: a source knows its size."""
        return True

    @property
    def length(self) -> int:
        """Bytes in all."""
        return self._source.size()

    @property
    def version(self) -> str | None:
        """What tells this object from a later one under the same address; None where nothing does."""
        return getattr(self._source, "version", None)

    def readinto(self, buffer: memoryview, /) -> int:
        """Bytes put into the buffer, at least one; 0 at the end. Raises what the source's `read_into` does."""
        if not self._here and not self._next():
            return 0
        count = min(len(buffer), len(self._here))
        buffer[:count] = self._here[:count]
        self._here = self._here[count:]
        return count

    def close(self) -> None:
        """Close the source, which ends the reads of our threads, and let them go. Twice does nothing."""
        with self._lock:  # a read of another thread may be asking for its next pieces, and must not make a pool anew
            self._closed = True
            pool, self._pool = self._pool, None
        self._source.close()
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        self._pieces.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _next(self) -> bool:
        """Have the next piece here; whether there is one."""
        self._ask()
        with self._lock:
            if self._closed:  # just now: not the end, though no piece is left
                raise self._over()
            if not self._pieces:
                return False
            piece = self._pieces.popleft()
        try:
            self._here = piece.result()
        except CancelledError as error:
            raise self._over() from error
        self._ask()
        return True

    def _ask(self) -> None:
        """Keep so many pieces under way."""
        if self._closed:
            raise self._over()
        size = self._source.size()
        with self._lock:
            if self._closed:
                raise self._over()
            while len(self._pieces) < UNDER_WAY and self._asked < size:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(UNDER_WAY, thread_name_prefix="shardstream-ahead")
                begin, self._asked = self._asked, min(self._asked + self._piece, size)
                self._pieces.append(self._pool.submit(self._read, begin, self._asked))

    def _read(self, begin: int, end: int) -> memoryview:
        data = np.empty(end - begin, dtype=np.uint8).data
        self._source.read_into(begin, data)
        return data

    def _over(self) -> UnavailableError:
        return UnavailableError("it has been closed", url=self.url)

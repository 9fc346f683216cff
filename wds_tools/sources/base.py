"""The one interface between addresses and everything that reads shards.

A source is an open object of known size that answers positioned reads from any thread. Nothing is taken for whole
that is not: a read fills its buffer wholly or raises. Sources hold no position, so that threads share one.
"""

from __future__ import annotations

from typing import Protocol, Self

__all__ = ["Source"]


class Source(Protocol):
    """An open shard (or other file). Opened by `resolve.open_source`, closed by `close` or `with`."""

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it; for messages."""
        ...

    def size(self) -> int:
        """Bytes in all, as found when the source was opened."""
        ...

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset` on.

        Raises:
            TruncatedShardError: the object ends before the buffer is full (it shrank, or the index is of another).
            UnavailableError: disk, network or permission.
        """
        ...

    def announce(self, offset: int, length: int) -> None:
        """Say that these bytes will be read soon (the kernel may begin to read them). Never raises, never blocks."""
        ...

    def close(self) -> None:
        """Give the descriptor back. Twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

"""The one interface between addresses and everything that reads shards.

A source is an open object of known size that answers positioned reads from any thread. Nothing is taken for whole
that is not: a read fills its buffer wholly or raises. Sources hold no position, so that threads share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

__all__ = ["Expecting", "Lending", "Scattering", "Source", "Stream"]


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


@runtime_checkable
class Expecting(Protocol):
    """A source that knows its size from the first answer only, and can be told what that must say."""

    def expect(self, *, size: int | None = None, version: str | None = None) -> object:
        """Have the first answer checked against this; nothing is asked for it."""
        ...


@runtime_checkable
class Scattering(Protocol):
    """A source that can put what lies side by side into several places in one go."""

    def scatter(self, offset: int, buffers: Sequence[memoryview]) -> None:
        """Fill the buffers, one after the other, with the bytes from `offset` on; raises as `read_into`."""
        ...


@runtime_checkable
class Lending(Protocol):
    """A source whose bytes lie in a local file, at the same offsets, from whose descriptor others may read."""

    def lend(self, start: int, stop: int) -> int | None:
        """The descriptor; None where it is not open, or has not all of these bytes.

        It stays open until `give_back`, which is always called. May raise what `read_into` does.
        """
        ...

    def give_back(self) -> None:
        """End the use of what `lend` gave."""
        ...


class Stream(Protocol):
    """An open shard that is read once, from its first byte on: for servers that do not answer ranges, and for passes.

    Opened by `resolve.open_stream`, closed by `close` or `with`.
    """

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it; for messages."""
        ...

    @property
    def shows_cuts(self) -> bool:
        """Whether the end is proven, by a length or the transfer's own end mark; if not, the archive's end decides."""
        ...

    def readinto(self, buffer: memoryview, /) -> int:
        """Bytes put into `buffer`, at least one; 0 at the end, and only there.

        Raises:
            ShardChangedError: the transfer broke, and what lies there now is another object.
            TruncatedShardError: the object ends before what has been read of it.
            UnavailableError: network or permission, after all retries; a transfer that ended before its stated length
                and could not be taken up again is that too, for nothing is wrong with the data.
        """
        ...

    def close(self) -> None:
        """Give the connection back. Twice does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

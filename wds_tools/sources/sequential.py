"""A source read as a stream, from its first byte to its last: for passes over what can also be read by position."""

from __future__ import annotations

from typing import Self

from wds_tools.sources.base import Source

__all__ = ["SequentialSource"]


class SequentialSource:
    """A Source as a Stream. It owns the source: `close` closes it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._position = 0

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
        """Fill the buffer, or as much of it as there is; 0 at the end. Raises what the source's `read_into` does."""
        count = max(min(len(buffer), self._source.size() - self._position), 0)
        if count:
            self._source.read_into(self._position, buffer[:count])
            self._position += count
        return count

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

"""Many strings in two arrays: no Python object each.

A list of 200,000 urls is 200,000 objects whose reference counts are written whenever one is touched, so that each
forked worker ends up with its own copy of all of them, and a spawned one unpickles them one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = ["PackedStrings"]


class PackedStrings(Sequence[str]):
    """An immutable sequence of str, made from any iterable of them. Equal to any sequence with the same strings."""

    __slots__ = ("_ends", "_text")

    def __init__(self, strings: Iterable[str]) -> None:
        # surrogatepass: names that are no UTF-8 hold lone surrogates and must come back as they were.
        encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
        self._text = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> PackedStrings: ...
    def __getitem__(self, at: int | slice) -> str | PackedStrings:
        if isinstance(at, slice):
            return PackedStrings(self[i] for i in range(*at.indices(len(self))))
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(f"{at} of {len(self)} strings")
        return self._text[self._ends[at] : self._ends[at + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        text, begin = self._text, 0
        for end in self._ends[1:].tolist():
            yield text[begin:end].decode("utf-8", "surrogatepass")
            begin = end

    def mentions(self, text: str) -> bool:
        """Whether any of them holds the text; a look at all at once, without a Python object each."""
        return text.encode("utf-8", "surrogatepass") in self._text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedStrings):
            return self._text == other._text and bool(np.array_equal(self._ends, other._ends))
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (self._text, self._ends)

    def __repr__(self) -> str:
        return f"<{len(self):,} strings: {self[0]!r} ...>" if len(self) else "<no strings>"


def _unpack(text: bytes, ends: np.ndarray[Any, np.dtype[np.int64]]) -> PackedStrings:
    packed = PackedStrings(())
    packed._text, packed._ends = text, ends  # noqa: SLF001 - same module
    return packed

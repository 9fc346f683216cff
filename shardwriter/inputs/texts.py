"""Many strings in little memory: their bytes one behind the other, and 8 bytes each for where they end.

Measured on paths such as n01440764/n01440764_10026.JPEG: 41 bytes each, where a list of str takes 88. Surrogates that
stand for bytes come back as they were, or as the letters that the bytes are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

__all__ = ["Texts", "in_letters"]


def in_letters(name: str) -> str:
    """A file's name with its bytes as the letters of UTF-8 that they are, where the locale knows none but ASCII."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


class Texts:
    """A sequence of strings that only grows. Picklable; may be read from any thread while nobody adds."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        begin = self._ends[index - 1] if index else 0
        return self._bytes[begin : self._ends[index]].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def add(self, text: str) -> None:
        """One more at the end."""
        self._bytes += text.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._bytes))

    def pieces(self) -> Iterator[bytes | bytearray]:
        """Bytes that are equal for equal sequences, and for no others: to be hashed."""
        yield self._ends.tobytes()
        yield self._bytes

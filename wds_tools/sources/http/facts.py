"""What an answer says about the object behind it: how long it is, which version, which part of it this is. Pure.

Two answers are of one object when nothing that both of them state differs. What an answer leaves out proves nothing,
so each fact is compared by itself: some servers give an ETag with a whole body and none with a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

__all__ = ["Facts", "Part"]

_PART = re.compile(r"\s*bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19}|\*)\s*", re.IGNORECASE)
_BEYOND = re.compile(r"\s*bytes\s+\*/(\d{1,19})\s*", re.IGNORECASE)
_LENGTH = re.compile(r"\s*(\d{1,19})\s*")


@dataclass(frozen=True)
class Part:
    """A Content-Range: bytes `begin` to `end` (not included) of `total` (None where the server does not say)."""

    begin: int
    end: int
    total: int | None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """The part that an answer says it is; None where it says nothing, nonsense, or another length beside it.

        >>> Part.of({"Content-Range": "bytes 0-9/512"})
        Part(begin=0, end=10, total=512)
        """
        match = _PART.fullmatch(headers.get("Content-Range", ""))
        if match is None:
            return None
        begin, last = int(match[1]), int(match[2])
        total = None if match[3] == "*" else int(match[3])
        sound = begin <= last and (total is None or last < total)
        return cls(begin, last + 1, total) if sound and _length(headers) in {None, last + 1 - begin} else None


@dataclass(frozen=True)
class Facts:
    """What answers say of an object; None for what they do not say.

    Attributes:
        size: bytes in all.
        etag: a strong ETag: it changes with every byte.
        modified: Last-Modified, as the server wrote it.
        weak: a weak ETag. A new one tells of a change, but no range may be asked for by it.
    """

    size: int | None = None
    etag: str | None = None
    modified: str | None = None
    weak: str | None = None

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str]) -> Self:
        """The facts in the headers of an answer to GET: a whole body (200), a part (206), a refused range (416)."""
        etag = headers.get("ETag", "").strip() or None
        weak = etag is not None and etag.startswith(("W/", "w/"))
        return cls(
            size=_size(status, headers),
            etag=None if weak else etag,
            modified=headers.get("Last-Modified", "").strip() or None,
            weak=etag if weak else None,
        )

    @classmethod
    def expected(cls, size: int | None, version: str | None) -> Self:
        """What somebody else (a listing, a cache) knows: a size, and a `version` as below."""
        if version is None:
            return cls(size=size)
        if version.startswith(("W/", "w/")):
            return cls(size=size, weak=version)
        return cls(size=size, etag=version) if version.startswith('"') else cls(size=size, modified=version)

    def with_more(self, later: Facts) -> Facts:
        """These facts, and from `later` what they leave open."""
        return Facts(
            size=later.size if self.size is None else self.size,
            etag=self.etag or later.etag,
            modified=self.modified or later.modified,
            weak=self.weak or later.weak,
        )

    @property
    def version(self) -> str | None:
        """What tells this object from a later one under the same address."""
        return self.etag or self.modified or self.weak

    @property
    def condition(self) -> str | None:
        """What If-Range takes: a strong ETag, else the date of the last change."""
        return self.etag or self.modified

    def names_version_of(self, known: Facts) -> bool:
        """Whether this states any of the versions that are known, so that `change` has something to compare."""
        pairs = (self.etag, known.etag), (self.weak, known.weak), (self.modified, known.modified)
        return any(None not in pair for pair in pairs)

    def change(self, later: Facts) -> str | None:
        """What is not the same in `later`, for a message; None where nothing contradicts."""
        if None not in (self.size, later.size) and self.size != later.size:
            return f"it had {self.size:,} bytes and has {later.size:,} now"
        for name, mine, its in (
            ("ETag", self.etag, later.etag),
            ("ETag", self.weak, later.weak),
            ("date of last change", self.modified, later.modified),
        ):
            if None not in (mine, its) and mine != its:
                return f"its {name} was {mine} and is {its} now"
        return None


def _size(status: int, headers: Mapping[str, str]) -> int | None:
    if status == 206:
        part = Part.of(headers)
        return None if part is None else part.total
    if status == 416:
        match = _BEYOND.fullmatch(headers.get("Content-Range", ""))
        return None if match is None else int(match[1])
    return _length(headers)


def _length(headers: Mapping[str, str]) -> int | None:
    match = None if "Transfer-Encoding" in headers else _LENGTH.fullmatch(headers.get("Content-Length", ""))
    return None if match is None else int(match[1])

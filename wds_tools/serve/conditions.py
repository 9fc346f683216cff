"""Which part of a file a request gets, if any: preconditions and ranges in the order of RFC 9110 section 13.2.2. Pure.

Several ranges at once, other units and malformed ranges are answered with the whole file, as section 14.2 allows; the
client sees it in the status. The ETag is strong: it holds the size, the time of the last change in nanoseconds, and the
inode, which is another one when a file is replaced by renaming, as all atomic writers do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

__all__ = ["Decision", "Facts", "decide"]

_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_RANGE = re.compile(r"bytes=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.IGNORECASE)
_DIGITS = 20  # more are beyond any file, and Python refuses to convert thousands of them


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What conditions are held against.

    Attributes:
        size: bytes.
        mtime_ns: time of the last change in nanoseconds since 1970.
        inode: the file's number in its file system.
    """

    size: int
    mtime_ns: int
    inode: int

    @property
    def etag(self) -> str:
        """The strong entity tag, quoted."""
        return f'"{self.size:x}-{self.mtime_ns:x}-{self.inode:x}"'

    def modified(self, now: float) -> datetime | None:
        """The last change in whole seconds; None where it lies in the future, which must not be sent."""
        seconds = self.mtime_ns // 1_000_000_000
        if seconds > now:
            return None
        try:
            return datetime.fromtimestamp(seconds, tz=UTC)
        except (ValueError, OverflowError, OSError):
            return None  # before the year 1: a broken clock, or a broken file system

    def fields(self, now: float) -> list[tuple[str, str]]:
        """The header fields that tell a client which file it sees."""
        modified = self.modified(now)
        tag = [("ETag", self.etag)]
        return tag if modified is None else [*tag, ("Last-Modified", format_datetime(modified, usegmt=True))]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to answer: 200 or 206 with `length` bytes from `first` on, or 304, 412, 416 without any."""

    status: int
    first: int = 0
    length: int = 0


def decide(method: str, fields: Mapping[str, str], facts: Facts, now: float) -> Decision:
    """The answer to a GET or HEAD with these header fields (names in lower case); `now` in seconds since 1970."""
    if not _wanted_as_it_is(fields, facts, now):
        return Decision(status=412)
    if not _news(fields, facts, now):
        return Decision(status=304)
    match = _RANGE.fullmatch(fields.get("range", "")) if method == "GET" else None
    if match is None or not _same_as_before(fields.get("if-range"), facts, now):
        return Decision(status=200, length=facts.size)
    return _part(match, facts.size)


def _wanted_as_it_is(fields: Mapping[str, str], facts: Facts, now: float) -> bool:
    if (wanted := fields.get("if-match")) is not None:
        return wanted.strip() == "*" or any(not weak and tag == facts.etag for weak, tag in _TAG.findall(wanted))
    since, modified = _date(fields.get("if-unmodified-since")), facts.modified(now)
    return since is None or modified is None or modified <= since


def _news(fields: Mapping[str, str], facts: Facts, now: float) -> bool:
    if (known := fields.get("if-none-match")) is not None:
        return known.strip() != "*" and all(tag != facts.etag for _, tag in _TAG.findall(known))
    since, modified = _date(fields.get("if-modified-since")), facts.modified(now)
    return since is None or modified is None or modified > since


def _same_as_before(validator: str | None, facts: Facts, now: float) -> bool:
    if validator is None or validator == facts.etag:
        return True
    date, modified = _date(validator), facts.modified(now)
    # A date is a strong validator only when a second change within its second is past (section 8.8.2.2).
    return date is not None and date == modified and now - facts.mtime_ns / 1e9 > 1


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return date.replace(tzinfo=UTC) if date is not None and date.tzinfo is None else date


def _part(match: re.Match[str], size: int) -> Decision:
    begin, end, suffix = match.groups()
    if suffix is not None:
        length = min(_number(suffix), size)
        return Decision(status=206, first=size - length, length=length) if length else Decision(status=416)
    first = _number(begin)
    last = min(_number(end), size - 1) if end else size - 1
    if end and _number(end) < first:
        return Decision(status=200, length=size)  # no range at all, by section 14.1.1
    return Decision(status=206, first=first, length=last - first + 1) if first < size else Decision(status=416)


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[:_DIGITS] or "0")

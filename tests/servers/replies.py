"""What a server answers: the right reply to a request, and the wrong ones, as functions from the request to the reply.

Plans that change a reply take the plan that makes it: `bare(chunked())`, `names(well, ETag=None)`.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlsplit

__all__ = [
    "Plan",
    "Reply",
    "Request",
    "Stored",
    "bare",
    "chunked",
    "clipped",
    "encoded",
    "ignoring_range",
    "names",
    "page",
    "says",
    "sends_on",
    "shifted",
    "until_closed",
    "well",
]

MODIFIED = "Mon, 02 Nov 2026 10:00:00 GMT"


@dataclass(frozen=True)
class Request:
    """One request, as it came."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def range(self) -> tuple[int, int | None] | None:
        """(first, last) of the Range header; last is None where it is open."""
        text = self.headers.get("range")
        if text is None:
            return None
        first, _, last = text.removeprefix("bytes=").partition("-")
        return int(first), int(last) if last else None


@dataclass(frozen=True)
class Stored:
    """An object and the version that the server gives it."""

    content: bytes
    modified: str = MODIFIED

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha1(self.content).hexdigest()}"'


@dataclass(frozen=True)
class Reply:
    """An answer before it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    protocol: str = "HTTP/1.1"

    def but(self, **headers: str | None) -> Self:
        """The same with other headers (`Content_Range=...`); None leaves one out."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        merged: dict[str, str | None] = {**self.headers, **names}
        return replace(self, headers={name: value for name, value in merged.items() if value is not None})

    def head(self) -> bytes:
        lines = [f"{self.protocol} {self.status} Said", *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


Plan = Callable[[Request, Stored], Reply]


def well(request: Request, stored: Stored) -> Reply:
    """The right answer, by RFC 9110: ranges, If-Range by ETag or date, 416."""
    wanted, condition = request.range, request.headers.get("if-range")
    size = len(stored.content)
    versions = {"ETag": stored.etag, "Last-Modified": stored.modified, "Accept-Ranges": "bytes"}
    if wanted is None or condition not in {None, stored.etag, stored.modified}:
        return ignoring_range(request, stored)
    first, last = wanted[0], min(size - 1 if wanted[1] is None else wanted[1], size - 1)
    if first >= size:
        return Reply(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
    body = stored.content[first : last + 1]
    return Reply(
        206, versions | {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(len(body))}, body
    )


def ignoring_range(request: Request, stored: Stored) -> Reply:
    """All of it, whatever was asked for."""
    versions = {"ETag": stored.etag, "Last-Modified": stored.modified}
    return Reply(200, versions | {"Content-Length": str(len(stored.content))}, stored.content)


def bare(plan: Plan) -> Plan:
    """Without ETag and date."""
    return lambda request, stored: plan(request, stored).but(ETag=None, Last_Modified=None)


def names(plan: Plan = well, **headers: str | None) -> Plan:
    """With these headers in place of the right ones."""
    return lambda request, stored: plan(request, stored).but(**headers)


def says(status: int, **headers: str) -> Plan:
    """An error with this status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request, stored: Reply(status, {"Content-Length": "4", **named}, b"oops")


def sends_on(location: str | Callable[[Request], str], status: int = 302) -> Plan:
    """A redirect."""

    def plan(request: Request, stored: Stored) -> Reply:
        to = location if isinstance(location, str) else location(request)
        return Reply(status, {"Location": to, "Content-Length": "0"})

    return plan


def page(request: Request, stored: Stored) -> Reply:
    """A login page, with status 200."""
    body = b"<!DOCTYPE html><html><title>Please log in</title></html>"
    return Reply(200, {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(body))}, body)


def encoded(request: Request, stored: Stored) -> Reply:
    """Compressed, though identity was asked for."""
    body = gzip.compress(stored.content, 1)
    return Reply(200, {"Content-Encoding": "gzip", "ETag": stored.etag, "Content-Length": str(len(body))}, body)


def shifted(by: int) -> Plan:
    """The range `by` bytes further on than asked for (or before, where negative), and named as such."""

    def plan(request: Request, stored: Stored) -> Reply:
        if request.range is None:
            return well(request, stored)
        first, last = request.range
        moved = f"bytes={max(first + by, 0)}-{'' if last is None else last}"
        return well(replace(request, headers={**request.headers, "range": moved}), stored)

    return plan


def clipped(count: int) -> Plan:
    """Of a range its first `count` bytes only, and named as such."""

    def plan(request: Request, stored: Stored) -> Reply:
        if request.range is None:
            return well(request, stored)
        first, last = request.range
        clip = first + count - 1 if last is None else min(last, first + count - 1)
        return well(replace(request, headers={**request.headers, "range": f"bytes={first}-{clip}"}), stored)

    return plan


def chunked(plan: Plan = ignoring_range, *, piece: int = 5000) -> Plan:
    """In chunks, without a length."""

    def changed(request: Request, stored: Stored) -> Reply:
        reply = plan(request, stored).but(Content_Length=None, Transfer_Encoding="chunked")
        pieces = [reply.body[at : at + piece] for at in range(0, len(reply.body), piece)]
        coded = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in [*pieces, b""])
        return replace(reply, body=coded)

    return changed


def until_closed(plan: Plan = ignoring_range) -> Plan:
    """As HTTP/1.0 did: the body is what comes until the connection ends."""
    return lambda request, stored: replace(plan(request, stored).but(Content_Length=None), protocol="HTTP/1.0")

"""The head of a request, from bytes to what it asks for. Pure.

Strict where leniency has let requests through that two servers read differently (RFC 9112 section 11): no folded
lines, no white space before the colon, one Host, no control characters. Only a bare line feed is taken for a line's
end, as the RFC allows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

__all__ = ["MOST_BYTES", "BadRequestError", "Request", "names_of", "parse_head"]

MOST_BYTES = 16_384
"""Of a head; nginx takes as much. Ours are 300."""
_MOST_FIELDS = 100
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_NAME = re.compile(_TOKEN)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ABSOLUTE = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
_ONCE = {"host", "content-length"}


class BadRequestError(Exception):
    """A request that gets an error for an answer.

    Attributes:
        status: the status code.
        reason: one line for whoever debugs the client.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a client asks for.

    Attributes:
        method: as it was written; methods are case-sensitive.
        path: of the target, percent-encoded, without the query.
        query: what stands behind its question mark, percent-encoded.
        host: the name or address the client believes to speak to, without the port.
        keep_alive: whether the client wants the connection to go on.
        has_body: whether bytes follow that belong to this request.
        fields: the header fields, names in lower case; repeated ones are joined by a comma.
    """

    method: str
    path: str
    query: str
    host: str
    keep_alive: bool
    has_body: bool
    fields: Mapping[str, str]


def parse_head(data: bytes) -> Request:
    """The request in `data`, a head without its empty last line.

    Raises:
        BadRequestError: 400 malformed, 431 too many fields, 505 another version than 1.0 and 1.1.
    """
    first, *lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadRequestError(400, "not a request line of HTTP/1.1")
    method, target, major, minor = match[1].decode(), match[2].decode(), int(match[3]), int(match[4])
    if major != 1:
        raise BadRequestError(505, "only HTTP/1.1 is spoken here")
    fields = _fields(lines)
    authority, path, query = _split_target(target, fields.get("host", ""))
    if minor >= 1 and "host" not in fields:
        raise BadRequestError(400, "HTTP/1.1 needs a Host field")
    options = {option.strip().lower() for option in fields.get("connection", "").split(",")}
    return Request(
        method=method,
        path=path,
        query=query,
        host=_host_of(authority),
        keep_alive=minor >= 1 and "close" not in options,
        has_body="transfer-encoding" in fields or fields.get("content-length", "0").strip("0") != "",
        fields=fields,
    )


def names_of(path: str) -> tuple[list[str], bool]:
    """The names from the root down, decoded, and whether the path ends in a slash.

    Hidden names are not served, and so neither are `.`, `..` and what a writer has not finished (`.NAME.tmp`); a name
    with a slash or a NUL in it, however encoded, exists in no folder.

    Raises:
        BadRequestError: 404 for a path that names nothing that is served.
    """
    if not path.startswith("/"):
        raise BadRequestError(404, "no such file")
    *folders, last = path[1:].split("/")
    names = [os.fsdecode(unquote_to_bytes(part)) for part in ([*folders, last] if last else folders)]
    if any(not name or name.startswith(".") or "/" in name or "\0" in name for name in names):
        raise BadRequestError(404, "no such file")
    return names, not last


def _fields(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > _MOST_FIELDS:
        raise BadRequestError(431, f"more than {_MOST_FIELDS} header fields")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise BadRequestError(400, "a malformed header field")
        key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
        if key in fields and key in _ONCE:
            raise BadRequestError(400, f"two {key} fields")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    return fields


def _split_target(target: str, host: str) -> tuple[str, str, str]:
    """(authority, path, query); the absolute form, which proxies are sent, has its own authority."""
    match = _ABSOLUTE.match(target)
    if match is not None:
        host, target = match[1], target[match.end() :]
        target = target if target.startswith("/") else "/" + target
    path, _, query = target.partition("#")[0].partition("?")
    return host, path, query


def _host_of(authority: str) -> str:
    name = authority.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].lower()

"""A part of an object, and proof of which object it was taken from.

S3 is asked for the part on condition that the object is still the one that was begun (If-Match), and says with the
part how long the whole is: one request, and no gap in which it could be replaced. Other file systems of fsspec have no
such condition, so the object's facts are asked for again after the part: where they are as before, the part is of that
object. That is one more small request for each block of some megabytes.

The version is the first of what a store tells that changes with the content: an ETag or a checksum, else a generation,
else the time of the last change.
"""

from __future__ import annotations

import asyncio
import errno
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from wds_tools.errors import ShardChangedError, UsageError
from wds_tools.sources.fsspec.asking import within
from wds_tools.sources.fsspec.refusals import code_of
from wds_tools.sources.fsspec.systems import System
from wds_tools.sources.http.rate import Meter
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.options import Remote

__all__ = ["ANEW", "ObjectFacts", "look", "read_part"]

_VERSIONS = (
    *("ETag", "etag", "e_tag", "checksum", "md5Hash", "content_md5", "crc32c", "sha256", "blob_id", "generation"),
    *("LastModified", "last_modified", "updated", "mtime", "modified", "created"),
)
_TOTAL = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_PIECE = 1 << 20
ANEW = "Start anew; if it was replaced on purpose, index it again with `wds index --force`"
"""What helps where an object was replaced."""


@dataclass(frozen=True, kw_only=True)
class ObjectFacts:
    """What is known of an object; None for what nobody has said.

    Attributes:
        size: bytes in all.
        version: what another object under the same url would not have.
    """

    size: int | None = None
    version: str | None = None


def look(system: System, path: str, remote: Remote) -> ObjectFacts:
    """The facts of the object, as the store has them now.

    Raises:
        FileNotFoundError, IsADirectoryError: nothing, or a folder; and whatever the file system raises.
        UsageError: the store does not say how long it is.
    """
    system.fs.invalidate_cache(path)
    info = system.call("info", path, within_s=within(remote, 0))
    if info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "a folder", path)
    if not isinstance(info.get("size"), int):
        raise UsageError("the store does not say how long it is", cure="Copy it to a local disk first")
    return ObjectFacts(size=info["size"], version=_version(info))


def read_part(
    system: System, path: str, part: range, *, known: ObjectFacts, remote: Remote
) -> tuple[bytes, ObjectFacts]:
    """The bytes with the numbers `part`, and the facts of the object that they are of.

    Args:
        system: the file system.
        path: the object's.
        part: offsets, at least one. Fewer bytes come where the object ends before, or the store falls short.
        known: the facts of the object that was begun.
        remote: the bounds of time.

    Raises:
        ShardChangedError: another object lies there now.
        Fault: it may go better next time; and whatever the file system raises.
    """
    if system.scheme in {"s3", "s3a"}:
        return _on_condition(system, path, part, known=known, remote=remote)
    if known.version is None:
        known = look(system, path, remote)
    data = system.call("cat_file", path, start=part.start, end=part.stop, within_s=within(remote, len(part)))
    return data, look(system, path, remote)


def _on_condition(
    system: System, path: str, part: range, *, known: ObjectFacts, remote: Remote
) -> tuple[bytes, ObjectFacts]:
    bucket, key, version = system.fs.split_path(path)
    request = {"Bucket": bucket, "Key": key, "Range": f"bytes={part.start}-{part.stop - 1}"}
    request |= {"VersionId": version} if version else {}
    request |= {"IfMatch": known.version} if known.version else {}
    try:
        data, answer = system.run(_get, system.fs, request, len(part), remote, within_s=within(remote, len(part)))
    except OSError as error:
        code = code_of(error)
        if code in {"PreconditionFailed", "412"}:
            raise ShardChangedError("another object lies there than the one that was begun", cure=ANEW) from error
        if code in {"InvalidRange", "416"}:
            return b"", look(system, path, remote)
        raise
    return data, ObjectFacts(size=_total(answer, part.start, len(data)), version=answer.get("ETag") or None)


async def _get(fs: Any, request: Mapping[str, str], length: int, remote: Remote) -> tuple[bytes, Mapping[str, Any]]:
    # The client's own times are for each byte of a head, and not for all of it; a place in its pool is waited for too.
    head_s = max(remote.give_up_s, within(remote, 0))
    asking = fs._call_s3("get_object", fs.req_kw, **request)  # noqa: SLF001 - there is no other with conditions
    answer = await asyncio.wait_for(asking, head_s)
    body, meter = answer["Body"], Meter(remote)
    pieces: list[bytes] = []  # joined once: a bytearray that grows is copied over and over, half the speed
    left = length
    try:
        while left:
            began = time.monotonic()
            piece = await body.read(min(_PIECE, left))
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
            if meter.too_slow(time.monotonic() - began, len(piece)):
                raise Fault("the store sends too slowly")
    finally:
        body.close()
    return b"".join(pieces), answer


def _total(answer: Mapping[str, Any], first: int, length: int) -> int:
    """Bytes of the whole object, where the answer is the part that was asked for."""
    text = answer.get("ContentRange")
    if text is None and first == 0:
        return int(answer["ContentLength"])
    match = _TOTAL.fullmatch(text or "")
    if match is None or int(match[1]) != first or int(match[2]) - first + 1 < length:
        raise Fault(f"the store sends another part than the one that was asked for ({text or 'all of it'})")
    return int(match[3])


def _version(info: Mapping[str, Any]) -> str | None:
    for name in _VERSIONS:
        value = info.get(name)
        if value is not None and value != "":
            return value.isoformat() if isinstance(value, datetime) else str(value)
    return None

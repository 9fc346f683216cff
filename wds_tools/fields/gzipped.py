"""Fields compressed with gzip: `.gz` behind the name of any other kind."""

from __future__ import annotations

import gzip
import zlib

from wds_tools.errors import FieldError
from wds_tools.sample import BytesLike

__all__ = ["MAX_UNPACKED", "compress", "decompress"]

MAX_UNPACKED = 1 << 30
"""Bytes that one field may unpack to: far above any sample, far below what ends a process."""


def decompress(data: BytesLike, limit: int = MAX_UNPACKED) -> bytes:
    """Unpack gzip data of one or several parts.

    Raises:
        FieldError: no gzip data, damaged or cut off, or more than `limit` bytes inside.
    """
    unpacked: list[bytes] = []
    rest, room = bytes(data), limit
    while rest or not unpacked:
        inflater = zlib.decompressobj(wbits=31)
        try:
            part = inflater.decompress(rest, room + 1)
        except zlib.error as error:
            raise FieldError(f"gzip data does not unpack: {error}") from error
        room -= len(part)
        if room < 0:
            raise FieldError(f"gzip data unpacks to more than {limit:,} bytes")
        if not inflater.eof:
            raise FieldError(f"gzip data cut off after {len(data)} bytes")
        unpacked.append(part)
        rest = inflater.unused_data.lstrip(b"\0")  # padding behind the last part is common
    return b"".join(unpacked)


def compress(data: bytes) -> bytes:
    """Pack with gzip, without a time in the header: the same bytes every time."""
    return gzip.compress(data, compresslevel=6, mtime=0)

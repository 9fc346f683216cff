"""The 512-byte blocks of a tar archive: what they say, and how to make them. Bytes in, values out; no file, no clock.

Formats: v7, POSIX ustar (with prefix), PAX (`x`, `g`), GNU (`L`, `K`, base-256 numbers, sparse). Sources:
POSIX.1-2017 "pax", GNU tar's "Basic Tar Format". Where writers disagree with both, Python's tarfile is followed, since
webdataset reads with it: signed checksums are taken, and a NUL type whose name ends with a slash is a folder.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from wds_tools.errors import HeaderError

__all__ = [
    "BLOCK",
    "MAX_EXTENSION",
    "ZERO",
    "Header",
    "decode_name",
    "parse",
    "parse_pax",
    "valid_checksum",
]

BLOCK = 512
ZERO = bytes(BLOCK)
MAX_EXTENSION = 1 << 20
"""Bytes that one extension header (PAX records, a GNU long name) may declare. Checked before anything is read."""
MAX_SIZE = 1 << 62

_FIELDS = struct.Struct("100s8x8x8x12s12x8sc100s6s2x32x32x8x8x155s12x").unpack
_SIGNED = struct.Struct("148b8x356b").unpack
_DATALESS = frozenset(b"123456")


class Header(NamedTuple):
    """One block, extensions not yet applied."""

    name: bytes
    size: int
    """Bytes of data that follow: 0 for links, folders and devices, whatever the field says, as POSIX wants."""
    kind: int
    """The type flag: `ord("0")` for a plain file."""
    link: bytes


def valid_checksum(block: bytes | memoryview) -> bool:
    """Whether the header's checksum holds, over unsigned bytes or, as some old writers did, over signed ones."""
    stored = _octal(bytes(block[148:156]))
    if stored is None:
        return False
    unsigned = 256 + sum(block[:148]) + sum(block[156:BLOCK])
    return stored == unsigned or stored == 256 + sum(_SIGNED(block))


def parse(block: bytes | memoryview, *, url: str, offset: int) -> Header:
    """Read one header block of 512 bytes.

    Raises:
        HeaderError: wrong checksum, or a size that is no number, negative, or beyond 2**62.
    """
    if not valid_checksum(block):
        raise HeaderError(
            f"a tar header with a right checksum was expected, found {bytes(block[:16])!r}...",
            url=url,
            offset=offset,
            cure="The shard is damaged here, or an index of another shard was used: copy it again, or index it anew.",
        )
    name, size, _, kind, link, magic, prefix = _FIELDS(block)
    name = name.partition(b"\0")[0]
    flag = kind[0]
    if magic == b"ustar\0" and prefix[0]:
        name = prefix.partition(b"\0")[0] + b"/" + name
    if flag == 0:  # v7 knows folders by their slash
        flag = ord("5") if name.endswith(b"/") else ord("0")
    length = 0 if flag in _DATALESS else _size(size, url, offset)
    return Header(name, length, flag, link.partition(b"\0")[0])


def parse_pax(data: bytes | memoryview, *, url: str, offset: int) -> dict[bytes, bytes]:
    """The records of a PAX extension header, later ones winning.

    Raises:
        HeaderError: the records do not add up.
    """
    data = bytes(data)
    records: dict[bytes, bytes] = {}
    begin = 0
    while begin < len(data) and data[begin]:  # some writers fill the rest with NULs
        digits, space, _ = data[begin : begin + 20].partition(b" ")
        end = begin + int(digits) if space and digits.isdigit() else 0
        keyword, equals, value = data[begin + len(digits) + 1 : max(end - 1, 0)].partition(b"=")
        if not equals or not keyword or end > len(data) or data[end - 1] != 0x0A:
            raise HeaderError(
                f"a PAX record '<length> <keyword>=<value>' was expected, found {data[begin : begin + 32]!r}",
                url=url,
                offset=offset,
                cure="The shard is damaged here, or its writer is: pack it again.",
            )
        records[keyword] = value
        begin = end
    return records


def decode_name(name: bytes) -> str:
    """A name as str: UTF-8, other bytes as surrogates, so that `encode("utf-8", "surrogateescape")` gives them back."""
    return name.decode("utf-8", "surrogateescape")


def _octal(field: bytes) -> int | None:
    digits = field.partition(b"\0")[0].strip() or b"0"
    try:
        return int(digits, 8)
    except ValueError:
        return None


def _size(field: bytes, url: str, offset: int) -> int:
    # The first bit set means base-256: a two's complement number in the 95 bits that follow. Negative ones are absurd.
    base256 = field[0] >= 0x80
    size = int.from_bytes(field, "big") - (1 << 95) if base256 else _octal(field)
    if size is None or not 0 <= size < MAX_SIZE:
        raise HeaderError(
            f"a member's size was expected, found {field!r}",
            url=url,
            offset=offset,
            cure="The shard is damaged here, or its writer is: copy it again, or pack it again.",
        )
    return size

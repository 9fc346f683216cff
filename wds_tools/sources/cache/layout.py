"""The file of one cached object, as numbers and bytes alone. Pure: no file, no clock.

    [ the object's bytes, holes where nothing was fetched yet | one record an extent | header, 4 KiB ]

Offsets in the file are offsets in the object, so a cached read is one positioned read and a file that is whole opens
with `tar` as it is. The rest lies behind, since its length follows from the object's size; the header comes last, where
a reader finds it from the file's length alone.

An extent (4 MiB) is what is fetched, locked and admitted at once. Measured at 40 ms round trip and 25 MB/s a
connection, blocks of 256 KiB from all over 16 shards of 8 MiB, 8 threads: the first 16 blocks after 0.21, 0.48 and
0.85 s, the whole after 1.67, 1.19 and 1.31 s, for extents of 1, 4 and 16 MiB, in 128, 32 and 16 requests. Readers that
want more at once get it: neighbouring extents are asked for in one request.

A leaf (64 KiB) is what is checked at once: the record of an extent holds a check for each of its leaves, so that the
first read of 100 KB in a process checks 192 KiB and not 4 MiB.

A record is written in place with one call, after its data. It carries a check over itself, its place and the file's
birth (16 random bytes), so that neither half a record nor one of another file is believed. It begins as zeros (nothing
there, nothing paid), becomes BEGUN when its bytes are booked in the ledger, and PRESENT when they are all written. A
process that is killed between the two leaves an extent that is paid for and that its next reader fetches.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from wds_tools.sample import BytesLike

__all__ = [
    "BLOCK",
    "EXTENT",
    "LEAF",
    "Header",
    "Layout",
    "Record",
    "State",
    "leaf_check",
    "pack_header",
    "pack_origin",
    "pack_record",
    "unpack_header",
    "unpack_origin",
    "unpack_record",
]

EXTENT = 4 << 20
LEAF = 64 << 10
BLOCK = 4096
"""What file systems hand out space in; costs are rounded up to it."""

_LEAVES = EXTENT // LEAF
_RECORD = struct.Struct(f"<II{_LEAVES}I")
_PLACE = struct.Struct("<16sQI")
_MAGIC = b"shardstream-cache-2\n"
_ORIGIN = struct.Struct("<II")
_ORIGIN_AT = 3072
_URL_SHOWN, _VERSION_SHOWN = 200, 32  # characters; in the worst case each is twelve bytes of JSON


class State(IntEnum):
    """How far an extent is."""

    EMPTY = 0
    BEGUN = 1
    PRESENT = 2


class Record(NamedTuple):
    """One extent: how far it is, and the `leaf_check` of each leaf where it is present."""

    state: State
    checks: Sequence[int] = ()


class Header(NamedTuple):
    """What an entry says of itself.

    Attributes:
        birth: 16 random bytes; another file has others, even under the same name.
        size: bytes of the object.
        url: for people, without secrets, cut if long.
        version: as the caller gave it, for people, cut if long.
    """

    birth: bytes
    size: int
    url: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in the entry of an object of `size` bytes."""

    size: int

    @classmethod
    def of_length(cls, length: int, size: int) -> Layout | None:
        """The layout for an object of `size` bytes if its file would be `length` bytes long."""
        layout = cls(size)
        return layout if size > 0 and layout.length == length else None

    @property
    def extents(self) -> int:
        return -(-self.size // EXTENT)

    @property
    def leaves(self) -> int:
        return -(-self.size // LEAF)

    @property
    def records_at(self) -> int:
        return _rounded(self.size)

    @property
    def header_at(self) -> int:
        return self.records_at + _rounded(self.extents * _RECORD.size)

    @property
    def origin_at(self) -> int:
        return self.header_at + _ORIGIN_AT

    @property
    def length(self) -> int:
        return self.header_at + BLOCK

    @property
    def overhead(self) -> int:
        """Bytes on disk before the first extent: records, header, and the file system's own list of the blocks."""
        return self.length - self.records_at + BLOCK

    def span(self, extent: int) -> tuple[int, int]:
        """Where an extent begins and ends in the object."""
        return extent * EXTENT, min((extent + 1) * EXTENT, self.size)

    def cost(self, extent: int) -> int:
        """Bytes on disk of an extent."""
        start, stop = self.span(extent)
        return _rounded(stop - start)

    def record_at(self, extent: int) -> int:
        return self.records_at + extent * _RECORD.size

    @property
    def record_size(self) -> int:
        return _RECORD.size


def pack_record(birth: bytes, extent: int, state: State, checks: Sequence[int] = ()) -> bytes:
    """The bytes of a record; fewer checks than an extent has leaves are filled up with zeros."""
    checks = [*checks, *([0] * (_LEAVES - len(checks)))]
    return _RECORD.pack(_check(birth, extent, state, checks), state, *checks)


def unpack_record(birth: bytes, extent: int, data: bytes) -> Record:
    """What the bytes of a record say. What is neither empty nor right has been begun: its space is paid for."""
    if data == bytes(len(data)):
        return Record(State.EMPTY)
    check, state, *checks = _RECORD.unpack(data)
    if state == State.PRESENT and check == _check(birth, extent, state, checks):
        return Record(State.PRESENT, checks)
    return Record(State.BEGUN)


def _check(birth: bytes, extent: int, state: int, checks: Sequence[int]) -> int:
    return zlib.crc32(struct.pack(f"<{_LEAVES}I", *checks), zlib.crc32(_PLACE.pack(birth, extent, state)))


def leaf_check(data: BytesLike) -> int:
    """The check of a leaf's bytes: the low 32 bits of their xxh3, at 64 GB/s where zlib's crc32 does 4."""
    return xxh3_64_intdigest(data) & 0xFFFFFFFF


def pack_header(header: Header) -> bytes:
    """The last block of an entry, with no origin yet."""
    facts = {
        "birth": header.birth.hex(),
        "size": header.size,
        "extent": EXTENT,
        "leaf": LEAF,
        "url": header.url[:_URL_SHOWN],
        "version": None if header.version is None else header.version[:_VERSION_SHOWN],
    }
    text = json.dumps(facts).encode("ascii")
    return (_MAGIC + b"%08x" % zlib.crc32(text) + text + b"\n").ljust(BLOCK, b"\0")


def unpack_header(block: bytes) -> Header | None:
    """What the last block of an entry says; None if it is damaged, or made with other sizes."""
    text, end, _ = block[len(_MAGIC) + 8 : _ORIGIN_AT].partition(b"\n")
    if not end or block[: len(_MAGIC) + 8] != _MAGIC + b"%08x" % zlib.crc32(text):
        return None
    facts = json.loads(text)
    if (facts["extent"], facts["leaf"]) != (EXTENT, LEAF):
        return None
    return Header(bytes.fromhex(facts["birth"]), facts["size"], facts["url"], facts["version"])


def pack_origin(version: str) -> bytes | None:
    """The slot for the version that the object's host gave with its bytes; None if it is too long to be kept."""
    text = version.encode("utf-8", "surrogatepass")
    fits = 0 < len(text) <= BLOCK - _ORIGIN_AT - _ORIGIN.size
    return _ORIGIN.pack(len(text), zlib.crc32(text)) + text if fits else None


def unpack_origin(slot: bytes) -> str | None:
    """The version in the slot, given from its first byte to the end of the block; None if there is none."""
    length, check = _ORIGIN.unpack_from(slot)
    text = slot[_ORIGIN.size : _ORIGIN.size + length]
    return text.decode("utf-8", "surrogatepass") if length and zlib.crc32(text) == check else None


def _rounded(count: int) -> int:
    return -(-count // BLOCK) * BLOCK

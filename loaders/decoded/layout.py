"""The file of decoded pictures, as numbers and bytes alone. Pure: no file, no clock.

    [ header, 4 KiB | where each sample's record begins, 8 bytes a sample | records, one behind the other ]

A record is one sample without the bytes of its pictures: the key, the fields that the batch is made of, and in place
of a picture its pixels and the size of the original. It begins with a check (xxh3, 64 bits) over all of it and over the
file's birth (16 random bytes), so that neither half a record nor one of another file is believed. Records begin at
multiples of 64. An entry of the table says where and how long it is, both counted in 64 bytes; 0 means that the sample
is not kept. It is written after the record, with one store of eight bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xxhash

from loaders.decoded.small import Small
from wds_tools.sample import KEY, BytesLike

__all__ = [
    "BLOCK",
    "MOST_BYTES",
    "Header",
    "Layout",
    "is_sound",
    "pack_entry",
    "pack_header",
    "pack_record",
    "rounded",
    "unpack_entry",
    "unpack_header",
    "unpack_record",
]

BLOCK = 4096
"""What file systems hand out space in: the file's length is a multiple of it."""
UNIT = 64
_LENGTH_BITS = 24
MOST_BYTES = ((1 << _LENGTH_BITS) - 1) * UNIT
"""Of a record: a gigabyte."""
_MAGIC = b"shardstream-decoded-1\n"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s16s32sQ")
_CHECK = struct.Struct("<Q")
_HEAD = struct.Struct("<QQqQ")  # check, sample, when its shard was written, bytes of the facts


class Header(NamedTuple):
    """What a file says of itself: 16 random bytes, the digest (32 bytes) of what is in it, and how many samples."""

    birth: bytes
    key: bytes
    samples: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in the file of so many samples."""

    samples: int

    @property
    def table_at(self) -> int:
        return BLOCK

    @property
    def records_at(self) -> int:
        return BLOCK + rounded(8 * self.samples)


def rounded(count: int, unit: int = BLOCK) -> int:
    """The next multiple."""
    return -(-count // unit) * unit


def pack_header(header: Header) -> bytes:
    """The first block."""
    text = _HEADER.pack(_MAGIC, *header)
    return (text + _CHECK.pack(xxhash.xxh3_64_intdigest(text))).ljust(BLOCK, b"\0")


def unpack_header(block: bytes) -> Header | None:
    """What the first block says; None where it is damaged or of another version."""
    if len(block) < BLOCK:
        return None
    text = block[: _HEADER.size]
    (check,) = _CHECK.unpack_from(block, _HEADER.size)
    magic, *facts = _HEADER.unpack(text)
    return Header(*facts) if magic == _MAGIC and check == xxhash.xxh3_64_intdigest(text) else None


def pack_entry(begin: int, length: int) -> int:
    """The table's entry of a record."""
    return begin // UNIT << _LENGTH_BITS | length // UNIT


def unpack_entry(entry: int) -> tuple[int, int]:
    """Where a record begins and how long it is."""
    return (entry >> _LENGTH_BITS) * UNIT, (entry & (1 << _LENGTH_BITS) - 1) * UNIT


def pack_record(
    birth: bytes, sample: int, written: int, fields: Mapping[str, Any], names: Sequence[str]
) -> list[BytesLike]:
    """A record, in pieces.

    Args:
        birth: of the file.
        sample: its number in the dataset.
        written: when its shard was written, as the disk says.
        fields: the raw sample; pictures are `Small`.
        names: which of its fields.
    """
    facts: list[Any] = [fields[KEY]]
    pieces: list[BytesLike] = []
    for name in names:
        value = fields[name]
        if isinstance(value, Small):
            pixels = np.ascontiguousarray(value.pixels)
            facts.append([name, value.width, value.height, *pixels.shape[:2]])
            data: BytesLike = pixels.reshape(-1).data
        else:
            facts.append([name, len(value)])
            data = value
        pieces += [data, bytes(-len(data) % UNIT)]
    text = json.dumps(facts, separators=(",", ":")).encode("ascii")
    head = text + bytes(-(_HEAD.size + len(text)) % UNIT)
    start = _HEAD.pack(0, sample, written, len(text))[_CHECK.size :]
    return [_CHECK.pack(_check(birth, [start, head, *pieces])), start, head, *pieces]


def is_sound(birth: bytes, sample: int, record: memoryview) -> bool:
    """Whether a whole record, exactly as long as it is, is as it was written, and is that sample's."""
    if len(record) < _HEAD.size:
        return False
    check, number, *_ = _HEAD.unpack_from(record)
    return bool(number == sample and check == _check(birth, [record[_CHECK.size :]]))


def unpack_record(record: memoryview) -> tuple[int, dict[str, Any]]:
    """When the record's shard was written, and the raw sample: views on the record, pictures as `Small`."""
    _, _, written, length = _HEAD.unpack_from(record)
    key, *facts = json.loads(bytes(record[_HEAD.size : _HEAD.size + length]))
    sample: dict[str, Any] = {KEY: key}
    at = rounded(_HEAD.size + length, UNIT)
    for name, *numbers in facts:
        if len(numbers) == 1:
            (count,) = numbers
            sample[name] = record[at : at + count]
        else:
            width, height, rows, columns = numbers
            count = rows * columns * 3
            pixels = np.frombuffer(record, np.uint8, count, at).reshape(rows, columns, 3)
            sample[name] = Small(width, height, pixels)
        at += rounded(count, UNIT)
    return written, sample


def _check(birth: bytes, pieces: Sequence[BytesLike]) -> int:
    digest = xxhash.xxh3_64(birth)
    for piece in pieces:
        digest.update(piece)
    return digest.intdigest()

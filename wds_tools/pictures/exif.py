"""The one thing that EXIF says about pixels: which way up. Read from the TIFF block, without a decoder.

Only the orientation of the first directory counts, stored as a whole number (SHORT as the standard says, BYTE or LONG
as some cameras do). Zero, nine, text and every other oddity mean "leave it", as in Pillow. The orientation in XMP is
not read, nor is a profile in a text chunk, as old versions of ImageMagick write it into PNG: browsers, OpenCV and DALI
do not read them either.
"""

from __future__ import annotations

import struct

from wds_tools.sample import BytesLike

__all__ = ["read_orientation", "set_upright"]

_ORIENTATION = 0x0112
_WHOLE_NUMBERS = {1: "B", 3: "H", 4: "I"}  # TIFF types BYTE, SHORT, LONG
_MAX_ENTRIES = 1000  # a directory of a real camera has about a dozen


def read_orientation(block: BytesLike) -> int:
    """The EXIF orientation, 1 to 8; 1 where the block says nothing that makes sense.

    Args:
        block: the TIFF block, with or without `Exif` and two zero bytes before it.
    """
    if block[:6] == b"Exif\0\0":
        block = block[6:]
    order = {b"II": "<", b"MM": ">"}.get(bytes(block[:2]))
    if order is None:
        return 1
    try:
        return _from_directory(block, order)
    except struct.error:
        return 1


def set_upright(block: BytesLike) -> bytes:
    """The same TIFF block for a picture that was turned: orientation 1, and no preview, which would lie otherwise.

    All else keeps its place, since cameras' own entries count from the block's beginning. A block that makes no sense
    is left out: empty.

    Args:
        block: with or without `Exif` and two zero bytes before it; the result is without.
    """
    block = bytearray(block[6:] if block[:6] == b"Exif\0\0" else block)
    order = {b"II": "<", b"MM": ">"}.get(bytes(block[:2]))
    try:
        return b"" if order is None else _upright(block, order)
    except struct.error:
        return b""


def _upright(block: bytearray, order: str) -> bytes:
    magic, first = struct.unpack_from(order + "HI", block, 2)
    (count,) = struct.unpack_from(order + "H", block, first)
    if magic != 42 or count > _MAX_ENTRIES:
        return b""
    after = first + 2 + 12 * count
    for place in range(first + 2, after, 12):
        tag, kind = struct.unpack_from(order + "HH", block, place)
        if tag == _ORIENTATION:
            value = struct.pack(order + _WHOLE_NUMBERS.get(kind, "I"), 1)
            struct.pack_into(order + "I4s", block, place + 4, 1, value)
    struct.pack_into(order + "I", block, after, 0)  # the second directory, which is the preview's
    return bytes(block)


def _from_directory(block: BytesLike, order: str) -> int:
    magic, first = struct.unpack_from(order + "HI", block, 2)
    if magic != 42:
        return 1
    (count,) = struct.unpack_from(order + "H", block, first)
    entry = struct.Struct(order + "HHI")
    for place in range(first + 2, first + 2 + 12 * min(count, _MAX_ENTRIES), 12):
        tag, kind, values = entry.unpack_from(block, place)
        if tag == _ORIENTATION:
            if values != 1 or kind not in _WHOLE_NUMBERS:
                return 1
            (value,) = struct.unpack_from(order + _WHOLE_NUMBERS[kind], block, place + 8)
            return value if 1 <= value <= 8 else 1
    return 1

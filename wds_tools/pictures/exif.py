"""The one thing that EXIF says about pixels: which way up. Read from the TIFF block, without a decoder.

Only the orientation of the first directory counts, stored as a whole number (SHORT as the standard says, BYTE or LONG
as some cameras do). Zero, nine, text and every other oddity mean "leave it", as in Pillow. The orientation in XMP is
not
read: browsers, OpenCV and DALI do not read it either.
"""

from __future__ import annotations

import struct

from wds_tools.sample import BytesLike

__all__ = ["read_orientation"]

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

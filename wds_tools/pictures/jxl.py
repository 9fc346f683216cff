"""The size in a JPEG XL file, read from its first bits.

The plugin for Pillow decodes all pixels when it opens a file, so the limit on pixels must be checked before. Decoders
turn the picture on their own, by the orientation that stands right behind the size: what is returned is the size after
that.

Source: ISO/IEC 18181-1, SizeHeader and ImageMetadata; ISO/IEC 18181-2, boxes.
"""

from __future__ import annotations

from wds_tools.errors import PictureError, TruncatedPictureError
from wds_tools.sample import BytesLike

__all__ = ["read_size"]

_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_SIZE_BITS = (9, 13, 18, 30)
_HEAD = 16  # bytes: more than the longest size and orientation


class _Bits:
    # Fields are packed from the lowest bit upwards.
    def __init__(self, data: bytes) -> None:
        self._number, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def take(self, count: int) -> int:
        if count > self._left:
            raise TruncatedPictureError("JXL picture cut off inside its header")
        value = self._number & ((1 << count) - 1)
        self._number >>= count
        self._left -= count
        return value


def read_size(data: BytesLike) -> tuple[int, int]:
    """Width and height of the upright picture.

    Raises:
        TruncatedPictureError: the data ends before the size.
        PictureError: a container without pixels.
    """
    stream = _stream(data)
    bits = _Bits(bytes(data[stream + 2 : stream + 2 + _HEAD]))
    small = bits.take(1)
    height = _side(bits, small)
    ratio = bits.take(3)
    width = height * _RATIOS[ratio][0] // _RATIOS[ratio][1] if ratio else _side(bits, small)
    plain = bits.take(1)  # all of the metadata has its usual value
    orientation = 1 + bits.take(3) if not plain and bits.take(1) else 1
    return (height, width) if orientation > 4 else (width, height)


def _side(bits: _Bits, small: int) -> int:
    return 8 * (bits.take(5) + 1) if small else bits.take(_SIZE_BITS[bits.take(2)]) + 1


def _stream(data: BytesLike) -> int:
    """Where the codestream begins: at once, or in the first box of a container that holds a part of it."""
    if data[:2] == b"\xff\x0a":
        return 0
    place = 0
    while place + 16 <= len(data):
        size, name = int.from_bytes(data[place : place + 4], "big"), bytes(data[place + 4 : place + 8])
        head = 16 if size == 1 else 8
        if name in {b"jxlc", b"jxlp"}:
            return place + head + (4 if name == b"jxlp" else 0)
        size = int.from_bytes(data[place + 8 : place + 16], "big") if size == 1 else size
        if size < head:
            raise PictureError("JXL picture with a damaged container")
        place += size
    raise TruncatedPictureError("JXL picture cut off before its pixels")

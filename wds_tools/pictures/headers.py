"""The headers of PNG, WebP, GIF and BMP: size, colour mode, orientation and where the file must end.

Chunks are stepped over by their lengths; no pixel is touched. PNG chunks that hold text and other extras can be left
out, so that a decoder never inflates a comment of gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from wds_tools.errors import PictureError, TruncatedPictureError
from wds_tools.pictures.exif import read_orientation
from wds_tools.sample import BytesLike

__all__ = [
    "Header",
    "png_chunk",
    "png_pixels_only",
    "png_without",
    "read_bmp",
    "read_gif",
    "read_png",
    "read_webp",
    "webp_chunk",
    "webp_without",
]

_PNG_MODES = {0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}
_PNG_CHUNK = struct.Struct(">I4s")
_PNG_PIXELS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})


class Header(NamedTuple):
    """What a header says.

    Attributes:
        width: columns, as stored.
        height: rows, as stored.
        mode: Pillow's name for the kind of pixels.
        bits: per channel.
        orientation: 1 to 8.
        alpha: whether pixels may be transparent.
        icc: whether a colour profile is embedded.
        animated: whether more than one frame is announced.
        end: the length that the file must have at least; 0 where the format does not say.
    """

    width: int
    height: int
    mode: str
    bits: int = 8
    orientation: int = 1
    alpha: bool = False
    icc: bool = False
    animated: bool = False
    end: int = 0


def _png_chunks(data: BytesLike) -> Iterator[tuple[bytes, int, int]]:
    """Name, begin and end of the content of each chunk, until the end chunk or the end of the data."""
    place, name = 8, b""
    while name != b"IEND" and place + 8 <= len(data):
        length, name = _PNG_CHUNK.unpack_from(data, place)
        yield name, place + 8, place + 8 + length
        place += 12 + length


def read_png(data: BytesLike) -> Header:
    """Read a PNG header and walk the chunks, which may hold transparency, a profile and EXIF anywhere.

    Raises:
        TruncatedPictureError: the data ends inside the first chunk.
        PictureError: the first chunk makes no sense.
    """
    if len(data) < 33:
        raise TruncatedPictureError(f"PNG picture cut off inside its header, after {len(data)} bytes")
    length, name, width, height, bits, colour = struct.unpack_from(">I4sIIBB", data, 8)
    if length != 13 or name != b"IHDR" or colour not in _PNG_MODES:
        raise PictureError("PNG picture with a damaged header")
    seen: dict[bytes, tuple[int, int]] = {}
    end = 33
    for name, begin, end in _png_chunks(data):
        seen.setdefault(name, (begin, end))
    end += 4 if b"IEND" in seen else 12 + 4  # the checksum of the last chunk, and the end chunk where it is missing
    exif = seen.get(b"eXIf")
    mode = _PNG_MODES[colour]
    alpha = mode in {"LA", "RGBA"} or b"tRNS" in seen
    orientation = read_orientation(data[slice(*exif)]) if exif else 1
    return Header(width, height, mode, bits, orientation, alpha, b"iCCP" in seen, b"acTL" in seen, end)


def png_chunk(data: BytesLike, wanted: bytes) -> bytes:
    """The content of the first chunk of that name; empty where there is none."""
    return next((bytes(data[begin:end]) for name, begin, end in _png_chunks(data) if name == wanted), b"")


def png_pixels_only(data: BytesLike) -> bytes:
    """The same picture with nothing but the chunks that make its pixels: no text, profile, EXIF or animation."""
    kept = [data[begin - 8 : end + 4] for name, begin, end in _png_chunks(data) if name in _PNG_PIXELS]
    return b"".join([data[:8], *kept])


def png_without(data: BytesLike, names: frozenset[bytes]) -> BytesLike:
    """The same picture without the chunks of these names, and nothing behind its end.

    `data` itself where it has none.
    """
    chunks = list(_png_chunks(data))
    end = chunks[-1][2] + 4
    if end == len(data) and not any(name in names for name, _, _ in chunks):
        return data
    kept = [data[begin - 8 : stop + 4] for name, begin, stop in chunks if name not in names]
    return b"".join([data[:8], *kept])


def read_webp(data: BytesLike) -> Header:
    """Read a WebP header: simple lossy, simple lossless or extended.

    Raises:
        TruncatedPictureError: the data ends inside the header.
        PictureError: the first chunk is none of the three.
    """
    if len(data) < 30:
        raise TruncatedPictureError(f"WebP picture cut off inside its header, after {len(data)} bytes")
    (riff,) = struct.unpack_from("<I", data, 4)
    end, kind = 8 + riff, bytes(data[12:16])
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header(width & 0x3FFF, height & 0x3FFF, "RGB", end=end)
    if kind == b"VP8L" and data[20] == 0x2F:
        (packed,) = struct.unpack_from("<I", data, 21)
        alpha = bool(packed >> 28 & 1)
        return Header(
            (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1, "RGBA" if alpha else "RGB", alpha=alpha, end=end
        )
    if kind == b"VP8X":
        return _read_webp_extended(data, end)
    raise PictureError("WebP picture with a damaged header")


def _read_webp_extended(data: BytesLike, end: int) -> Header:
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    alpha = bool(flags & 0x10)
    exif = webp_chunk(data, b"EXIF") if flags & 0x08 else b""
    orientation = read_orientation(exif) if exif else 1
    return Header(
        width, height, "RGBA" if alpha else "RGB", 8, orientation, alpha, bool(flags & 0x20), bool(flags & 0x02), end
    )


def _webp_chunks(data: BytesLike) -> Iterator[tuple[bytes, int, int]]:
    """Name, begin and end of the content of each chunk."""
    place = 12
    while place + 8 <= len(data):
        name, length = struct.unpack_from("<4sI", data, place)
        yield name, place + 8, place + 8 + length
        place += 8 + length + (length & 1)


def webp_chunk(data: BytesLike, wanted: bytes) -> bytes:
    """The content of the first chunk of that name; empty where there is none."""
    return next((bytes(data[begin:end]) for name, begin, end in _webp_chunks(data) if name == wanted), b"")


_WEBP_FLAGS = {b"ICCP": 0x20, b"EXIF": 0x08, b"XMP ": 0x04}


def webp_without(data: BytesLike, names: frozenset[bytes]) -> BytesLike:
    """The same picture without the chunks of these names (ICCP, EXIF, XMP), and nothing behind its end.

    `data` itself where it has none.
    """
    end = 8 + int.from_bytes(data[4:8], "little")
    chunks = list(_webp_chunks(data[:end]))
    if end >= len(data) - 1 and not any(name in names for name, _, _ in chunks):
        return data
    body = bytearray()
    for name, begin, stop in chunks:
        if name not in names:
            body += data[begin - 8 : min(stop + ((stop - begin) & 1), len(data))]
    if body[:4] == b"VP8X":
        body[8] &= ~sum(flag for name, flag in _WEBP_FLAGS.items() if name in names)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + bytes(body)


def read_gif(data: BytesLike) -> Header:
    """Read the canvas of a GIF, grown to its first frame as Pillow grows it.

    Whether it is animated or transparent only its frames say: both are taken as possible.

    Raises:
        TruncatedPictureError: the data ends before the first frame.
    """
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        place = _gif_frame(data, 13 + _gif_palette(flags))
        left, top, wide, high = struct.unpack_from("<HHHH", data, place + 1)
    except (struct.error, IndexError) as error:
        raise TruncatedPictureError(f"GIF picture cut off before its first frame, after {len(data)} bytes") from error
    return Header(max(width, left + wide), max(height, top + high), "P", alpha=True, animated=True)


def _gif_palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _gif_frame(data: BytesLike, place: int) -> int:
    # Before a frame lie extensions: "!", a label, then blocks with a length each until one of length 0.
    while data[place] != 0x2C:
        if data[place] == 0x3B:
            raise PictureError("GIF picture without a frame")
        if data[place] != 0x21:
            place += 1  # junk, which Pillow skips too
            continue
        place += 2
        while data[place]:
            place += 1 + data[place]
        place += 1
    return place


def read_bmp(data: BytesLike) -> Header:
    """Read a BMP header, of any of its versions.

    Raises:
        TruncatedPictureError: the data ends inside the header.
        PictureError: a version that does not exist.
    """
    if len(data) < 26:
        raise TruncatedPictureError(f"BMP picture cut off inside its header, after {len(data)} bytes")
    (size,) = struct.unpack_from("<I", data, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
    elif size >= 16 and len(data) >= 30:
        width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
    else:
        raise PictureError("BMP picture with a damaged header")
    return Header(width, abs(height), "P" if bits <= 8 else "RGB", alpha=bits == 32)

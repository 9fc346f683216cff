"""The JPEG header, read without a decoder: once for every picture of a training run, so it must cost microseconds.

One step a segment, up to the first scan; nothing is looked at byte by byte. About 4 microseconds for a picture with ten
segments. Junk between segments and fill bytes are skipped, as libjpeg and Pillow do.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from wds_tools.errors import PictureError, TruncatedPictureError
from wds_tools.pictures.exif import read_orientation
from wds_tools.sample import BytesLike

__all__ = [
    "XMP_NAME",
    "JpegHeader",
    "has_end",
    "icc_profile",
    "picture_end",
    "read_header",
    "segment",
    "with_segments",
    "without_extras",
    "without_metadata",
]

_SEGMENT = struct.Struct(">BBH")  # 0xff, marker, length that counts its own two bytes
_FRAME = struct.Struct(">BHHB")  # bits, height, width, components
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # TEM, RST0-7, SOI: markers without a length
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_SCAN, _END, _APP0, _APP1, _APP2, _APP14 = 0xDA, 0xD9, 0xE0, 0xE1, 0xE2, 0xEE
_NEXT_MARKER = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]")  # inside a scan: neither stuffing nor a restart
_MOST_CONTENT = 0xFFFF - 2
_PROFILE = b"ICC_PROFILE\0"
XMP_NAME = b"http://ns.adobe.com/xap/1.0/\0"
"""What an APP1 segment of XMP begins with."""
_CODINGS = {
    0xC0: "baseline",
    0xC1: "sequential",
    0xC2: "progressive",
    0xC3: "lossless",
    0xC9: "arithmetic",
    0xCA: "arithmetic progressive",
    0xCB: "lossless arithmetic",
}
_TAIL = 4096  # where the end marker is looked for before the whole file is searched


class JpegHeader(NamedTuple):
    """What the header says.

    Attributes:
        width: columns, as stored.
        height: rows, as stored.
        bits: per channel.
        components: 1 (grey), 3 (colour) or 4 (CMYK, YCCK); anything else is nobody's picture.
        coding: "baseline", "progressive", "arithmetic" and so on.
        progressive: several passes over the whole picture.
        orientation: 1 to 8.
        icc: whether a colour profile is embedded.
        frame: where the frame header (SOF) begins.
        scan: where the data of the first scan begins.
        unit_rows: rows of one row of coding units, in a picture of one scan in which all components are interleaved;
            else 0.
    """

    width: int
    height: int
    bits: int
    components: int
    coding: str
    progressive: bool
    orientation: int
    icc: bool
    frame: int
    scan: int
    unit_rows: int


def read_header(data: BytesLike) -> JpegHeader:
    """Read all segments before the first scan.

    Raises:
        TruncatedPictureError: the data ends before the first scan.
        PictureError: the segments make no picture.
    """
    place, frame, orientation, icc = 2, 0, 0, False
    try:
        while True:
            lead, marker, length = _SEGMENT.unpack_from(data, place)
            if lead != 0xFF or marker in {0xFF, 0x00}:
                data = bytes(data)  # once: junk is rare, and searching a copy of the rest each time would be quadratic
                place = _next_marker(data, place + 1)
                continue
            if marker in _ALONE:
                place += 2
                continue
            if marker == _SCAN:
                break
            if marker == _END or length < 2:
                raise PictureError("JPEG picture with a damaged header")
            if marker in _FRAMES:
                frame = place
            elif marker == _APP1 and not orientation and data[place + 4 : place + 10] == b"Exif\0\0":
                orientation = read_orientation(data[place + 10 : place + 2 + length])
            elif marker == _APP2 and data[place + 4 : place + 16] == b"ICC_PROFILE\0":
                icc = True
            place += 2 + length
        scan = place + 2 + length
        if not frame:
            raise PictureError("JPEG picture whose frame header is missing")
        bits, height, width, components = _FRAME.unpack_from(data, frame + 4)
        marker = data[frame + 1]
        single = data[place + 4] == components and marker not in _PROGRESSIVE
        rows = 8 * max(data[frame + 11 + 3 * part] & 15 for part in range(components)) if single and components else 0
    except (struct.error, IndexError) as error:
        raise TruncatedPictureError(f"JPEG picture cut off inside its header, after {len(data)} bytes") from error
    return JpegHeader(
        width, height, bits, components, _CODINGS.get(marker, "hierarchical"), marker in _PROGRESSIVE,
        orientation or 1, icc, frame, scan, rows,
    )  # fmt: skip


def _next_marker(data: bytes, place: int) -> int:
    found = data.find(b"\xff", place)
    if found < 0:
        raise IndexError(place)
    return found


def has_end(data: BytesLike, scan: int) -> bool:
    """Whether an end-of-image marker follows the beginning of the scans; bytes after it do not matter.

    The marker cannot occur inside a scan (0xff is always followed by a zero there), and one inside an embedded preview
    lies before `scan`: so the last marker of the file decides.
    """
    if data[-2:] == b"\xff\xd9":
        return len(data) - 2 >= scan
    if bytes(data[-_TAIL:]).rfind(b"\xff\xd9") >= max(0, scan - max(0, len(data) - _TAIL)):
        return True
    return bytes(data[scan:]).rfind(b"\xff\xd9") >= 0


def _segments(data: BytesLike, scan: int) -> list[tuple[int, int, int]]:
    # (marker, begin, end) of each segment with a length before the data of the first scan; `data` was read before
    found, place, data = [], 2, bytes(data[:scan])
    while place < scan:
        lead, marker, length = _SEGMENT.unpack_from(data, place)
        if lead != 0xFF or marker in {0xFF, 0x00}:
            place = _next_marker(data, place + 1)
        elif marker in _ALONE:
            place += 2
        else:
            found.append((marker, place, place + 2 + length))
            place += 2 + length
    return found


def icc_profile(data: BytesLike, scan: int) -> bytes:
    """The embedded colour profile, its parts put together in the order of their numbers; empty where there is none."""
    parts = [
        (data[begin + 16], bytes(data[begin + 18 : end]))
        for marker, begin, end in _segments(data, scan)
        if marker == _APP2 and data[begin + 4 : begin + 16] == b"ICC_PROFILE\0" and end - begin >= 18
    ]
    return b"".join(part for _, part in sorted(parts))


def segment(data: BytesLike, scan: int, marker: int, name: bytes) -> bytes:
    """The content, behind its name, of the first segment of that kind; empty where there is none."""
    return next(
        (
            bytes(data[begin + 4 + len(name) : end])
            for kind, begin, end in _segments(data, scan)
            if kind == marker and data[begin + 4 : begin + 4 + len(name)] == name
        ),
        b"",
    )


def picture_end(data: BytesLike, scan: int) -> int:
    """Where the picture ends: behind the first end-of-image marker after its scans, or else behind all bytes.

    What follows is another picture, a film or the like, which cameras append.
    """
    whole, place = bytes(data), scan
    if whole.find(b"\xff\xd9", scan) == len(whole) - 2:  # the only one: no need to walk
        return len(whole)
    while found := _NEXT_MARKER.search(whole, place):
        marker = whole[found.end() - 1]
        if marker == _END:
            return found.end()
        place = found.end() if marker in _ALONE else found.end() + int.from_bytes(whole[found.end() :][:2], "big")
    return len(whole)


def without_extras(data: BytesLike, scan: int, *, profile: bool) -> BytesLike:
    """The same picture and what is needed to show it: no EXIF, XMP, previews, comments, nothing behind its end.

    Args:
        data: a whole JPEG.
        scan: where its first scan begins.
        profile: whether its colour profile stays.

    Returns:
        `data` itself where there is nothing to leave out.
    """

    def needed(marker: int, begin: int) -> bool:
        content = bytes(data[begin + 4 : begin + 4 + len(_PROFILE)])
        return (
            marker == _APP14
            or (marker == _APP0 and content[:5] == b"JFIF\0")
            or (profile and marker == _APP2 and content == _PROFILE)
            or not (0xE0 <= marker <= 0xEF or marker == 0xFE)
        )

    segments, end = _segments(data, scan), picture_end(data, scan)
    if end == len(data) and all(needed(marker, begin) for marker, begin, _ in segments):
        return data
    kept = [bytes(data[begin:stop]) for marker, begin, stop in segments if needed(marker, begin)]
    return b"".join([b"\xff\xd8", *kept, data[scan:end]])


def with_segments(data: bytes, *, exif: bytes = b"", xmp: bytes = b"", profile: bytes = b"") -> bytes:
    """The same picture with metadata, in front of all but the JFIF header.

    Args:
        data: a JPEG without such segments.
        exif: a TIFF block.
        xmp: a packet.
        profile: a colour profile of at most 255 segments (16 MB).

    EXIF and XMP that do not fit into a segment of 64 KiB are left out.
    """
    if not (exif or xmp or profile):
        return data
    size = _MOST_CONTENT - len(_PROFILE) - 2
    parts = [profile[place : place + size] for place in range(0, len(profile), size)]
    contents = [(_APP1, b"Exif\0\0" + exif)] if exif else []
    contents += [(_APP1, XMP_NAME + xmp)] if xmp else []
    contents += [
        (_APP2, _PROFILE + bytes([number, len(parts)]) + part) for number, part in enumerate(parts, 1) if number < 256
    ]
    made = [
        struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
        for marker, content in contents
        if len(content) <= _MOST_CONTENT
    ]
    at = 4 + int.from_bytes(data[4:6], "big") if data[2:4] == b"\xff\xe0" else 2
    return b"".join([data[:at], *made, data[at:]])


def without_metadata(data: BytesLike, scan: int) -> bytes:
    """The same picture without application segments and comments, except Adobe's, which says how colours are stored.

    For Pillow, which otherwise parses EXIF, profiles and multi-picture directories when it opens a file, and warns or
    fails over those that are damaged although the picture is not.
    """
    kept = [
        bytes(data[begin:end])
        for marker, begin, end in _segments(data, scan)
        if marker == _APP14 or not (0xE0 <= marker <= 0xEF or marker == 0xFE)
    ]
    return b"".join([b"\xff\xd8", *kept, data[scan:]])

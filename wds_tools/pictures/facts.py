"""What a picture's header says: format, size, orientation; known before a decoder runs or memory is allocated.

JPEG, PNG, WebP, GIF, BMP and JPEG XL are read by this package; a JPEG, which is read once for every picture of a
training run, costs about 4 microseconds. The other formats are opened by their Pillow plugin, which reads headers only.

`check_whole` decides truncation for all decoders alike, since a decoder that needs only the upper part of a picture
never sees what lies below: a JPEG needs its end-of-image marker after its scans, a PNG its end chunk, a WebP the length
that it states. Damage inside the data that leaves the ends in place is found only by decoding.
"""

from __future__ import annotations

from typing import NamedTuple

from wds_tools.errors import PictureError, PictureTooLargeError, TruncatedPictureError, UnsupportedPictureError
from wds_tools.pictures import headers, jpeg
from wds_tools.pictures.jxl import read_size
from wds_tools.pictures.sniff import describe, sniff
from wds_tools.sample import BytesLike

__all__ = ["Facts", "Shape", "check_size", "check_whole", "flat", "read_facts"]

_MOST_SCANS = 500  # as the kernel has it; a picture has about ten, and 64 coefficients of three colours by 13 bits
_JPEG_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_READERS = {"png": headers.read_png, "webp": headers.read_webp, "gif": headers.read_gif, "bmp": headers.read_bmp}


class Facts(NamedTuple):
    """What the header of one picture says.

    Attributes:
        format: "jpeg", "png", "webp", "gif", "bmp", "tiff", "avif", "ppm", "heic", "jxl" or "jpeg2000", by content.
        width: columns as stored, before any turning.
        height: rows as stored.
        orientation: EXIF orientation, 1 to 8; 1 where there is none or it makes no sense.
        mode: Pillow's name for the kind of pixels; "" where a JPEG has a number of components that no picture has.
        bits: per channel.
        progressive: a JPEG of several passes.
        coding: "baseline", "progressive", "arithmetic" and so on for a JPEG, else "".
        alpha: whether pixels may be transparent.
        icc: whether a colour profile is embedded.
        animated: whether there may be more than one frame. The first one is decoded.
        end: the number of bytes that the file must have at least; 0 where the format does not say.
        frame: where a JPEG's frame header begins.
        scan: where the data of a JPEG's first scan begins.
        unit_rows: rows of one row of coding units of a JPEG with a single scan, else 0.
    """

    format: str
    width: int
    height: int
    orientation: int = 1
    mode: str = "RGB"
    bits: int = 8
    progressive: bool = False
    coding: str = ""
    alpha: bool = False
    icc: bool = False
    animated: bool = False
    end: int = 0
    frame: int = 0
    scan: int = 0
    unit_rows: int = 0


class Shape(NamedTuple):
    """As much of the facts as says how large a picture is."""

    format: str
    width: int
    height: int


def flat(data: BytesLike) -> BytesLike:
    """The same bytes as something whose items are single bytes: all that the readers here can index."""
    if isinstance(data, memoryview) and (data.format != "B" or data.ndim != 1 or not data.contiguous):
        return data.cast("B") if data.c_contiguous else data.tobytes()
    return data


def read_facts(data: BytesLike) -> Facts:
    """Read the header of a picture of any format.

    Raises:
        UnsupportedPictureError: no picture, or one of a format for which no reader is installed.
        TruncatedPictureError: the data ends inside the header.
        PictureError: a header that makes no sense.
    """
    data = flat(data)
    if data[:3] == b"\xff\xd8\xff":
        return _jpeg(data)
    if not len(data):
        raise TruncatedPictureError("a picture of 0 bytes")
    name = sniff(data)
    if not name:
        found = describe(data)
        raise UnsupportedPictureError(f"no picture of a known format but {found}", cure=_cure(found))
    if name == "jxl":
        return Facts(name, *read_size(data), icc=True)  # the decoder always tells a profile
    reader = _READERS.get(name)
    return _own(name, reader(data)) if reader else _foreign(name, data)


def _cure(found: str) -> str | None:
    return "Compressed members are named with .gz behind, such as jpg.gz." if found == "gzip data" else None


def _jpeg(data: BytesLike) -> Facts:
    header = jpeg.read_header(data)
    if not header.width or not header.height:
        raise UnsupportedPictureError("JPEG picture whose header does not state its height (a DNL marker)")
    return Facts(
        "jpeg", header.width, header.height, header.orientation, _JPEG_MODES.get(header.components, ""), header.bits,
        header.progressive, header.coding, False, header.icc, False, 0, header.frame, header.scan, header.unit_rows,
    )  # fmt: skip


def _own(name: str, header: headers.Header) -> Facts:
    if header.width < 1 or header.height < 1:
        raise PictureError(f"{name.upper()} picture of {header.width} x {header.height} pixels")
    return Facts(
        name, header.width, header.height, header.orientation, header.mode, header.bits,
        alpha=header.alpha, icc=header.icc, animated=header.animated, end=header.end,
    )  # fmt: skip


def _foreign(name: str, data: BytesLike) -> Facts:
    from wds_tools.pictures.plugins import opened

    picture = opened(name, data)
    return Facts(
        name, *picture.stored, picture.orientation, picture.image.mode,
        alpha=picture.image.has_transparency_data, icc=bool(picture.image.info.get("icc_profile")),
        animated=getattr(picture.image, "is_animated", False),
    )  # fmt: skip


def check_whole(data: BytesLike, facts: Facts) -> None:
    """Refuse a picture whose end is missing, whichever decoder will read it.

    Raises:
        TruncatedPictureError: no end-of-image marker after a JPEG's scans, no end chunk in a PNG, a WebP shorter than
            it says.
        PictureError: a JPEG of so many scans, each empty, that decoding them would take hours.
    """
    if facts.format == "jpeg":
        if facts.progressive and bytes(data[facts.scan :]).count(b"\xff\xda") >= _MOST_SCANS:
            raise PictureError("JPEG picture of more scans than any picture has")
        if not jpeg.has_end(flat(data), facts.scan):
            raise TruncatedPictureError(f"JPEG picture cut off after {len(data)} bytes: no end-of-image marker")
    elif facts.end > len(data):
        name = "PNG" if facts.format == "png" else "WebP"
        raise TruncatedPictureError(f"{name} picture cut off: {len(data)} bytes where at least {facts.end} are needed")


def check_size(facts: Facts | Shape, max_pixels: int) -> None:
    """Refuse a picture with more pixels than the limit.

    Raises:
        PictureTooLargeError: the message names size and limit.
    """
    if facts.width * facts.height > max_pixels:
        size = f"{facts.width} x {facts.height} = {facts.width * facts.height:,} pixels"
        raise PictureTooLargeError(
            f"{facts.format.upper()} picture of {size}, more than the limit of {max_pixels:,}",
            cure="If it is wanted, raise Pictures(max_pixels=...).",
        )

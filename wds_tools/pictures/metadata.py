"""What goes along with a picture beside its pixels: read, left out without touching a pixel, and given to another.

Known of JPEG, PNG and WebP are EXIF (with place, camera and preview), XMP, texts, dates, comments, and what cameras
append behind the picture's end. Of other formats EXIF and XMP are what Pillow tells, and they cannot be left out
without writing the picture anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wds_tools.pictures import headers, jpeg
from wds_tools.pictures.exif import set_upright
from wds_tools.pictures.facts import Facts
from wds_tools.pictures.plugins import opened
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["PNG_XMP", "Metadata", "read_metadata", "without_metadata"]

_APP1 = 0xE1
_PNG_EXTRAS = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"})
PNG_XMP = b"XML:com.adobe.xmp\0\0\0\0\0"
"""How a PNG chunk of XMP begins: an uncompressed text without language, as all writers of XMP make it."""
_WEBP_EXTRAS = frozenset({b"EXIF", b"XMP "})


class Metadata(NamedTuple):
    """What a picture says of itself.

    Attributes:
        exif: a TIFF block that states orientation 1 and has no preview; empty where there is none.
        xmp: a packet, as it is.
    """

    exif: bytes = b""
    xmp: bytes = b""


def read_metadata(data: BytesLike, facts: Facts) -> Metadata:
    """EXIF and XMP of a picture, for a copy of it that was turned upright."""
    exif, xmp = _read(data, facts)
    return Metadata(set_upright(exif) if exif else b"", xmp)


def _read(data: BytesLike, facts: Facts) -> tuple[bytes, bytes]:
    if facts.format == "jpeg":
        exif = jpeg.segment(data, facts.scan, _APP1, b"Exif\0\0")
        return exif, jpeg.segment(data, facts.scan, _APP1, jpeg.XMP_NAME)
    if facts.format == "png":
        text = headers.png_chunk(data, b"iTXt")
        return headers.png_chunk(data, b"eXIf"), text[len(PNG_XMP) :] if text.startswith(PNG_XMP) else b""
    if facts.format == "webp":
        return headers.webp_chunk(data, b"EXIF"), headers.webp_chunk(data, b"XMP ")
    if facts.format in {"avif", "heic", "jxl"}:
        return _told(opened(facts.format, data).image)
    return b"", b""


def _told(image: Image.Image) -> tuple[bytes, bytes]:
    exif, xmp = (image.info.get(name) for name in ("exif", "xmp"))
    return exif if isinstance(exif, bytes) else b"", xmp if isinstance(xmp, bytes) else b""


def without_metadata(data: BytesLike, facts: Facts, *, profile: bool) -> BytesLike:
    """The same picture without all that, its pixels not touched.

    Args:
        data: a whole picture of orientation 1.
        facts: its facts.
        profile: whether its colour profile stays, without which its colours may mean something else.

    Returns:
        `data` itself where there is nothing to leave out, and for formats other than JPEG, PNG and WebP.
    """
    if facts.format == "jpeg":
        return jpeg.without_extras(data, facts.scan, profile=profile)
    if facts.format == "png":
        return headers.png_without(data, _PNG_EXTRAS if profile else _PNG_EXTRAS | {b"iCCP"})
    if facts.format == "webp":
        return headers.webp_without(data, _WEBP_EXTRAS if profile else _WEBP_EXTRAS | {b"ICCP"})
    return data

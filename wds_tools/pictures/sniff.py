"""Which format bytes really are, whatever the member's name says.

Names lie: PNG and WebP under `.jpg`, pages and gzip where a picture should be. The first bytes decide, as they do in
Pillow and in browsers.
"""

from __future__ import annotations

from wds_tools.sample import BytesLike

__all__ = ["describe", "sniff"]

_MAGIC = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),
    (b"MM\0+", "tiff"),
    (b"\xff\x0a", "jxl"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "jxl"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
)
_ANYMAP = frozenset(b"P" + bytes([digit]) for digit in b"123456")
_BRANDS = {
    b"avif": "avif",
    b"avis": "avif",
    b"heic": "heic",
    b"heix": "heic",
    b"hevc": "heic",
    b"heim": "heic",
    b"heis": "heic",
}
_OTHERS = (
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstandard data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF document"),
    (b"8BPS", "a Photoshop document"),
    (b"\0\0\x01\0", "a Windows icon"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"),
)


def sniff(data: BytesLike) -> str:
    """The picture format that the bytes begin with, such as "jpeg" or "webp"; "" where they are none that is known."""
    head = bytes(data[:12])
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp":
        return _brand(data)
    return "ppm" if head[:2] in _ANYMAP and head[2:3].isspace() else ""


def _brand(data: BytesLike) -> str:
    # An AVIF file may call itself `mif1` first and `avif` among its compatible brands: all of them count, in order.
    box = bytes(data[8 : min(int.from_bytes(data[:4], "big"), 256)])
    brands = [box[:4], *(box[place : place + 4] for place in range(8, len(box), 4))]
    return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), "")


def describe(data: BytesLike) -> str:
    """What bytes are that `sniff` does not know, in words for an error message."""
    head = bytes(data[:64])
    for magic, words in _OTHERS:
        if head.startswith(magic):
            return words
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<head")):
        return "an HTML page"
    if head.lstrip().startswith((b"<svg", b"<?xml")):
        return "an XML or SVG document"
    return f"bytes that begin with {head[:12]!r}"

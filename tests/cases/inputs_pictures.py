"""Pictures as people have them: cut off, turned, transparent, in other colours, far too large, under false names."""

from __future__ import annotations

import functools
import gzip
import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from tests.wds_tools.pictures.made import (
    exif_block,
    jpeg,
    png_chunk,
    png_with,
    saved,
    scene,
    with_orientation,
    with_segment,
)

__all__ = [
    "bombs",
    "containers",
    "cut_jpegs",
    "cut_pngs",
    "four_channel_jpegs",
    "halves",
    "modes",
    "noise",
    "profiles",
    "transparent",
    "turned_pictures",
    "wide_gamut",
]

Pixels = npt.NDArray[np.uint8]

RED, BLUE = (255, 0, 0), (0, 0, 255)


def noise(width: int = 256, height: int = 256, *, seed: int = 0) -> Pixels:
    """Pixels that do not compress, so that a cut anywhere is a cut in the data."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@functools.cache
def cut_jpegs() -> dict[str, bytes]:
    """A noise JPEG that ends too early, by what is left of it."""
    data = saved(noise(), "JPEG", quality=90)
    return {
        "without its end marker": data[:-2],
        "60 bytes short": data[:-60],
        "half": data[: len(data) // 2],
        "empty": b"",
    }


@functools.cache
def cut_pngs() -> dict[str, bytes]:
    """A noise PNG cut inside its data, and inside the length of a chunk."""
    data = saved(noise(64, 64), "PNG")
    return {"inside IDAT": data[: len(data) // 2], "inside a length": data[: data.index(b"IDAT") - 2]}


@functools.cache
def modes(width: int = 32, height: int = 24) -> dict[str, bytes]:
    """One scene in every mode that a folder of pictures turns out to hold, all of one size."""
    image = Image.fromarray(scene(width, height))
    pngs = {mode: saved(image.convert(mode), "PNG") for mode in ("L", "RGB", "RGBA", "P", "1", "LA")}
    deep = np.asarray(image.convert("L")).astype(np.uint16) * 257
    return {**pngs, "CMYK": saved(image.convert("CMYK"), "JPEG"), "I;16": saved(deep, "PNG")}


def halves(width: int = 80, height: int = 40) -> Pixels:
    """Left red, right blue."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:, : width // 2] = RED
    pixels[:, width // 2 :] = BLUE
    return pixels


@functools.cache
def turned_pictures() -> dict[str, bytes]:
    """`halves` with the orientation written in every way that was seen, by a name that begins with the value."""
    stored = saved(halves(), "JPEG", quality=95, subsampling=0)
    xmp = (
        b'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF '
        b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
        b'xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    )
    return {
        **{f"{value} as SHORT": with_orientation(stored, value) for value in range(10)},
        "6 as LONG": with_orientation(stored, 6, kind=4),
        "6 as text": with_orientation(stored, 6, kind=2, raw=b"6\0"),
        "6 in XMP only": with_segment(stored, 0xE1, xmp),
        "6 in a PNG": saved(halves(), "PNG", exif=exif_block(6)),
        "6 in a WebP": saved(halves(), "WEBP", lossless=True, exif=exif_block(6)),
    }


@functools.cache
def four_channel_jpegs() -> dict[str, bytes]:
    """Pure red in four channels: with Adobe's marker for CMYK and for YCCK, and without any."""
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    cmyk = saved(red, "JPEG", quality=95)
    at = cmyk.index(b"\xff\xee")
    length = int.from_bytes(cmyk[at + 2 : at + 4], "big") + 2
    assert cmyk[at + 4 : at + 9] == b"Adobe"
    # What a YCCK file stores: the inverted inks' RGB as YCbCr. Same bytes of coding, another transform in the marker.
    inks = np.asarray(red)
    ycc = np.asarray(Image.fromarray(255 - (255 - inks[..., :3])).convert("YCbCr"))
    stored = saved(Image.fromarray(np.dstack([ycc, inks[..., 3:]]), "CMYK"), "JPEG", quality=95)
    ycck = stored[: at + length - 1] + b"\2" + stored[at + length :]
    return {"CMYK": cmyk, "CMYK without a marker": cmyk[:at] + cmyk[at + length :], "YCCK": ycck}


@functools.cache
def transparent() -> dict[str, bytes]:
    """8 x 8 pixels that show nothing but what lies below them, each with a loud colour hidden under it."""
    hidden = (255, 0, 255)
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, *RED])
    keyed = io.BytesIO()
    Image.new("L", (8, 8), 77).save(keyed, "PNG", transparency=77)
    return {
        "RGBA": saved(Image.new("RGBA", (8, 8), (*hidden, 0)), "PNG"),
        "palette": saved(palette, "PNG", transparency=bytes([255, 0])),
        "LA": saved(Image.new("LA", (8, 8), (10, 0)), "PNG"),
        "grey with a colour key": keyed.getvalue(),
        "RGB with a colour key": saved(Image.new("RGB", (8, 8), hidden), "PNG", transparency=hidden),
        "WebP": saved(Image.new("RGBA", (8, 8), (*hidden, 0)), "WEBP", lossless=True, exact=True),
    }


@functools.cache
def bombs() -> dict[str, bytes]:
    """Small files whose headers promise more than a gigabyte of pixels."""
    row = zlib.compressobj()
    lines = b"".join(row.compress(bytes(2501)) for _ in range(20_000)) + row.flush()
    head = struct.pack(">IIBBBBB", 20_000, 20_000, 1, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", lines) + png_chunk(b"IEND", b"")
    frame = bytearray(jpeg(64, 64))
    at = frame.index(b"\xff\xc0")
    frame[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    gif = bytearray(saved(Image.new("P", (1, 1)), "GIF"))
    gif[6:10] = struct.pack("<HH", 60_000, 60_000)
    return {"PNG": png, "JPEG": bytes(frame), "GIF": bytes(gif)}


@functools.cache
def swollen_text(megabytes: int = 80) -> bytes:
    """A small PNG that carries a comment which unpacks to very much."""
    content = b"Comment\0\0" + zlib.compress(bytes(megabytes << 20), 9)
    return png_with(saved(scene(20, 10), "PNG"), b"zTXt", content)


@functools.cache
def containers() -> dict[str, tuple[bytes, str | None]]:
    """What lies in members called `.jpg`, with what an error has to call it; None where it is a picture after all."""
    pixels = scene(40, 30)
    moving: dict[str, Any] = {
        "save_all": True,
        "append_images": [Image.fromarray(255 - pixels), Image.fromarray(pixels // 2)],
    }
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)
    html = b"<!DOCTYPE html><html><body>404</body></html>"
    return {
        "PNG": (saved(pixels, "PNG"), None),
        "WebP": (saved(pixels, "WEBP"), None),
        "GIF of three frames": (saved(pixels, "GIF", **moving), None),
        "moving WebP": (saved(pixels, "WEBP", **moving), None),
        "APNG": (saved(pixels, "PNG", **moving), None),
        "AVIF": (saved(pixels, "AVIF"), None),
        "BMP": (saved(pixels, "BMP"), None),
        "progressive JPEG": (jpeg(40, 30, progressive=True), None),
        "HEIC": (heic, "heic"),
        "gzip of a JPEG": (gzip.compress(jpeg(40, 30)), "gzip"),
        "a web page": (html, "html"),
        "JPEG behind ten bytes of junk": (b"0123456789" + jpeg(40, 30), "0123456789"),
        "12-bit JPEG": (_with_frame(jpeg(40, 30), precision=12), "12"),
        "hierarchical JPEG": (_with_frame(jpeg(40, 30), marker=0xC5), "jpeg"),
        "lossless JPEG": (_lossless(40, 30), None),
    }


def _lossless(width: int, height: int) -> bytes:
    """A JPEG of the lossless process (ITU T.81, annex H): grey, every sample as predicted, so all of them 128."""
    frame = struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)
    code = b"\0" + bytes([1, *bytes(15)]) + b"\0"  # one code of one bit, for "no difference"
    scan = b"\1\1\0\1\0\0"  # one component, the left neighbour predicts
    segments = ((0xC3, frame), (0xC4, code), (0xDA, scan))
    head = b"".join(struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body for marker, body in segments)
    bits, rest = divmod(width * height, 8)
    return b"\xff\xd8" + head + bytes(bits) + (bytes([0xFF >> rest]) if rest else b"") + b"\xff\xd9"


def _with_frame(data: bytes, *, precision: int = 8, marker: int = 0xC0) -> bytes:
    """The same JPEG, whose frame header says that it is of another process."""
    frame = bytearray(data)
    at = frame.index(b"\xff\xc0")
    frame[at + 1], frame[at + 4] = marker, precision
    return bytes(frame)


def wide_gamut() -> bytes:
    """A profile like sRGB's with the primaries of Display P3."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    primaries = {
        b"rXYZ": (0.51512, 0.2412, -0.00105),
        b"gXYZ": (0.29198, 0.69225, 0.04189),
        b"bXYZ": (0.1571, 0.06657, 0.78407),
    }
    (count,) = struct.unpack_from(">I", profile, 128)
    for entry in range(132, 132 + 12 * count, 12):
        if (values := primaries.get(bytes(profile[entry : entry + 4]))) is not None:
            (begin,) = struct.unpack_from(">I", profile, entry + 4)
            struct.pack_into(">iii", profile, begin + 8, *(round(value * 65536) for value in values))
    return bytes(profile)


@functools.cache
def profiles() -> dict[str, bytes]:
    """The same pixels with colour profiles that cannot be used."""
    pixels = scene(40, 30)
    grey = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    inflated = b"icc\0\0" + zlib.compress(wide_gamut() + bytes(50 << 20), 9)
    return {
        "cut off": saved(pixels, "PNG", icc_profile=wide_gamut()[:200]),
        "of another kind of colour": saved(pixels, "PNG", icc_profile=grey),
        "no profile at all": saved(pixels, "PNG", icc_profile=b"nothing of the kind"),
        "swollen to 50 MB": png_with(saved(pixels, "PNG"), b"iCCP", inflated),
    }

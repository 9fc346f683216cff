"""What a picture should become, by Pillow alone: the oracle that our decoders are held against.

Pillow's own picture, made RGB by the rules of docs/pictures.md in the plainest way: turned by EXIF, on white where it
is transparent, the high byte of sixteen bits; parts are cut out, then resized. Of this package's code none is used.

Three habits of Pillow's are not followed, each for a reason. XMP and texts do not turn a picture (browsers do not heed
them either). A PNG's transparent colour is stated in units of the stored depth, and compared so: Pillow compares it
with the pixels that it has scaled. A JPEG's part that is made much smaller is decoded at a smaller scale first, as
Pillow's own `draft` does it, at the smallest of 1, 1/2, 1/4 and 1/8 that covers the result.
"""

from __future__ import annotations

import io
import math
import warnings
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

__all__ = ["Part", "format_of", "made", "parts", "whole"]

Pixels = npt.NDArray[np.uint8]


class Part(NamedTuple):
    """A box of the upright picture in whole pixels, and the height and width that it becomes."""

    left: int
    top: int
    width: int
    height: int
    size: tuple[int, int]


def parts(name: str, width: int, height: int) -> list[Part]:
    """A few parts of a picture, by chance, the same for a name each time: two at about their size, one much smaller."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    found = []
    for shrink in (1.0, 1.7, 6.0):
        wide, high = (int(random.integers(max(1, side // 4), side + 1)) for side in (width, height))
        left, top = int(random.integers(0, width - wide + 1)), int(random.integers(0, height - high + 1))
        found.append(Part(left, top, wide, high, (max(1, int(high / shrink)), max(1, int(wide / shrink)))))
    return found


def format_of(data: bytes) -> str:
    """Pillow's name for the format; "" where it knows none."""
    try:
        with _opened(data) as image:
            return image.format or ""
    except Exception:  # noqa: BLE001 - whatever Pillow raises, it does not know
        return ""


def whole(data: bytes) -> Pixels:
    """All of it, uint8 (height, width, 3); raises what Pillow raises."""
    with _opened(data) as image:
        return np.asarray(_upright(image))


def made(data: bytes, part: Part) -> Pixels:
    """A part at its size."""
    with _opened(data) as image:
        scale = _drafted(image, min(part.width // part.size[1], part.height // part.size[0]))
        upright = _upright(image)
    left, top, right, bottom = (
        side / scale for side in (part.left, part.top, part.left + part.width, part.top + part.height)
    )
    outer = (int(left), int(top), math.ceil(right), math.ceil(bottom))
    inner = (left - outer[0], top - outer[1], right - outer[0], bottom - outer[1])
    return np.asarray(upright.crop(outer).resize(part.size[::-1], Image.Resampling.BILINEAR, inner))


def _drafted(image: Image.Image, most: int) -> int:
    """By how much a JPEG will be decoded smaller; 1 for all else."""
    scale = next((each for each in (8, 4, 2) if each <= most), 1)
    if scale == 1 or not isinstance(image, JpegImageFile):
        return 1
    image.draft(None, (image.width // scale, image.height // scale))
    return scale


def _opened(data: bytes) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Pillow warns of, it reads
        return Image.open(io.BytesIO(data))


def _upright(image: Image.Image) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coding = image.tile[0][3] if isinstance(image, PngImageFile) and image.tile else ""
        image.load()
        key = _key(image, str(coding))
        for name in ("xmp", "XML:com.adobe.xmp", "Raw profile type exif"):
            image.info.pop(name, None)
        return _in_rgb(ImageOps.exif_transpose(image), key)


def _key(image: Image.Image, coding: str) -> Any:
    """The transparent colour of a picture in the units of its loaded pixels."""
    key = image.info.get("transparency")
    if coding in {"L;2", "L;4"} and isinstance(key, int):
        return key * {"L;2": 85, "L;4": 17}[coding]
    return tuple(level >> 8 for level in key) if coding == "RGB;16B" and isinstance(key, tuple) else key


def _in_rgb(image: Image.Image, key: Any) -> Image.Image:
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PPM", None}):
        values = np.asarray(image)
        grey = Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
        return grey if key is None else Image.fromarray(np.where((values == key)[..., None], 255, np.asarray(grey)))
    if key is not None:
        image.info["transparency"] = key
    if not image.has_transparency_data:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(clear, mask=clear.getchannel("A"))
    return white

"""Colour profiles: pixels to sRGB, when asked for.

A profile that is damaged, absurdly large or made for other pixels is ignored, since the picture itself is whole: the
caller counts it. Building a transform costs milliseconds and cameras share profiles, so the last few are kept.
"""

from __future__ import annotations

import functools
import io
import zlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from wds_tools.pictures import headers, jpeg
from wds_tools.pictures.facts import Facts
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image, ImageCms

__all__ = ["embedded_profile", "in_srgb", "moves_colours", "to_srgb"]

_MAX_PROFILE = 4 << 20  # the largest in common use, of a printing press, has about 2 MiB
_SPACES = {"RGB": "RGB ", "RGBX": "RGB ", "RGBA": "RGB ", "L": "GRAY", "CMYK": "CMYK"}


def embedded_profile(data: BytesLike, facts: Facts, image: Image.Image | None = None) -> bytes:
    """The profile inside the file; empty where there is none, or none that could be unpacked within the size limit."""
    if facts.format == "jpeg":
        return jpeg.icc_profile(data, facts.scan)
    if facts.format == "png":
        return _inflated(headers.png_chunk(data, b"iCCP"))
    profile = image.info.get("icc_profile") if image else None
    return profile if isinstance(profile, bytes) else b""


def _inflated(chunk: bytes) -> bytes:
    # name, zero byte, method byte, then a zlib stream
    try:
        inflater = zlib.decompressobj()
        profile = inflater.decompress(chunk[chunk.index(b"\0") + 2 :], _MAX_PROFILE)
    except (ValueError, zlib.error):
        return b""
    return b"" if inflater.unconsumed_tail else profile


def to_srgb(image: Image.Image, profile: bytes) -> Image.Image | None:
    """The image in sRGB, mode RGB; None where the profile cannot be used for it.

    Args:
        image: mode L, RGB, RGBX or CMYK.
        profile: as embedded.
    """
    from PIL import ImageCms

    if not profile or len(profile) > _MAX_PROFILE or image.mode not in _SPACES:
        return None
    mode = "RGB" if image.mode == "RGBX" else image.mode
    try:
        transform = _transform(profile, mode)
        return None if transform is None else ImageCms.applyTransform(image.convert(mode), transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None


@functools.lru_cache(maxsize=64)
def moves_colours(profile: bytes, mode: str) -> bool:
    """Whether converting from a profile to sRGB changes what is seen: some colour by more than two levels.

    Cameras and editors embed sRGB itself, in dozens of versions, so it is known by what it does: converting would cost
    a generation of loss for nothing. A profile that cannot be used moves nothing.

    Args:
        profile: as embedded.
        mode: of the pixels: "L", "RGB" or "CMYK", which always moves.
    """
    from PIL import Image

    if mode == "CMYK":
        return to_srgb(Image.new("CMYK", (1, 1)), profile) is not None
    steps = np.linspace(0, 255, 9).astype(np.uint8)
    grey = np.arange(256, dtype=np.uint8)[None]
    pixels = grey if mode == "L" else np.stack(np.meshgrid(steps, steps, steps), -1).reshape(1, -1, 3)
    converted = to_srgb(Image.fromarray(pixels), profile)
    if converted is None:
        return False
    before = pixels[:, :, None] if mode == "L" else pixels
    return bool(np.abs(np.asarray(converted).astype(int) - before).max() > 2)


@functools.lru_cache(maxsize=16)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    from PIL import ImageCms

    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    if source.profile.xcolor_space != _SPACES[mode]:
        return None
    target = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    return ImageCms.buildTransform(source, target, mode, "RGB")


def in_srgb(image: Image.Image, profile: bytes, notes: Counter[str]) -> Image.Image:
    """The image in sRGB where its profile can be used, else as it is, which is noted."""
    converted = to_srgb(image, profile)
    if converted is None:
        notes["icc profile ignored"] += 1
        return image
    return converted

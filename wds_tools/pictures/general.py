"""Pictures of every format through Pillow, at the same scale and by the same resampler as the fast way for JPEG.

Order: pixels of the part, colour profile, then grey or RGB on the background, then resize. So the hidden
colours of transparent pixels never bleed into their neighbours. Animated pictures give their first frame.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wds_tools.errors import PictureError, TruncatedPictureError, UnsupportedPictureError
from wds_tools.pictures import plugins
from wds_tools.pictures.facts import Facts
from wds_tools.pictures.icc import embedded_profile, in_srgb
from wds_tools.pictures.modes import scaled_key, to_grey_or_rgb
from wds_tools.pictures.options import Pictures
from wds_tools.pictures.orientation import Box, unturned
from wds_tools.pictures.resize import View, hull, nearest, scale_for
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["cut_by_pillow", "loaded"]


def loaded(facts: Facts, data: BytesLike, scale: int = 1) -> Image.Image:
    """The first frame, its pixels loaded, as it lies in the file.

    Args:
        facts: its facts.
        data: the picture's bytes.
        scale: 1, 2, 4 or 8, by which a JPEG is reduced while it is decoded.

    Raises:
        PictureError: the bytes do not decode.
    """
    if facts.format == "jpeg":
        _check_jpeg(facts)
    picture = plugins.opened(facts.format, data)
    if picture.stored != (facts.width, facts.height):  # the size that was compared with the limit is another one
        raise PictureError(f"{facts.format.upper()} picture whose header and content disagree about its size")
    image = picture.image
    if facts.format == "tiff":
        _check_tiles(image, facts)
    if scale > 1:
        image.draft(None, (facts.width // scale, facts.height // scale))
    image.load()
    if "transparency" in image.info:
        image.info["transparency"] = scaled_key(image.info["transparency"], image.mode, facts.bits)
    return unturned(image, picture.orientation) if picture.upright else image


def _check_tiles(image: Image.Image, facts: Facts) -> None:
    """Refuse a TIFF whose strips or tiles do not reach its last row or column: Pillow leaves the rest black."""
    extents = [tile[1] for tile in getattr(image, "tile", ())]
    if extents and (max(e[2] for e in extents) < facts.width or max(e[3] for e in extents) < facts.height):
        raise TruncatedPictureError("TIFF picture whose data end before its last row")


def _check_jpeg(facts: Facts) -> None:
    if not facts.mode:
        raise UnsupportedPictureError("JPEG picture with a number of colour channels that no picture has")
    if facts.bits != 8 or facts.coding in {"hierarchical", "lossless arithmetic"}:
        raise UnsupportedPictureError(f"{facts.coding} JPEG picture of {facts.bits} bits, which no decoder here reads")


def cut_by_pillow(
    data: BytesLike, facts: Facts, part: Box, target: tuple[int, int], *, options: Pictures, notes: Counter[str]
) -> View:
    """A part of a picture, as it lies in the file, not resized yet; mode L, RGB or RGBX.

    Args:
        data: the picture's bytes.
        facts: its facts.
        part: in stored coordinates.
        target: width and height that the part will be resized to; a JPEG may be reduced as far as it is still covered.
        options: background and profile.
        notes: where oddities are counted.

    Raises:
        PictureError: the bytes do not decode.
    """
    scale = scale_for(part, target) if facts.format == "jpeg" else 1
    part = Box(*(side / scale for side in part))
    image = loaded(facts, data, scale)
    left, top, right, bottom = hull(part, *image.size)
    cut = nearest(image, (right - left, bottom - top), (left, top, right, bottom))
    if options.icc == "srgb" and facts.icc:
        cut = in_srgb(cut, embedded_profile(data, facts, image), notes)
    cut = to_grey_or_rgb(cut, options.background, wide=facts.format == "ppm")
    ends = (part.left - left, part.top - top, part.left + part.width - left, part.top + part.height - top)
    return View(cut, ends)

"""Pictures with their transparency kept: for formats that hold it, where nobody asked for a background.

As everywhere the colours are converted first and then resized, with their alpha as weight, so that the hidden colours
of transparent pixels never bleed into their neighbours.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wds_tools.pictures.facts import Facts
from wds_tools.pictures.general import loaded
from wds_tools.pictures.icc import embedded_profile, in_srgb
from wds_tools.pictures.orientation import swaps, turned
from wds_tools.pictures.plugins import translated
from wds_tools.pictures.resize import resized
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["decode_clear"]


def decode_clear(
    data: BytesLike, facts: Facts, size: tuple[int, int], *, srgb: bool, notes: Counter[str]
) -> Image.Image | None:
    """Decode a picture with alpha at a size, upright.

    Args:
        data: a whole picture, its size compared with the limit.
        facts: its facts.
        size: width and height of the upright result.
        srgb: whether to convert from its colour profile.
        notes: where oddities are counted.

    Returns:
        An image of mode LA or RGBA; None where every pixel is opaque.

    Raises:
        PictureError: the bytes do not decode.
    """
    with translated(facts.format):
        image = loaded(facts, data)
        if not image.has_transparency_data:
            return None
        if image.mode.startswith(("I", "F")):
            return None  # a key colour of 16-bit grey, which Pillow does not turn into alpha
        clear = image if image.mode == "LA" else image.convert("RGBA")
        if clear.getchannel("A").getextrema() == (255, 255):
            return None
        if srgb:
            clear = _in_srgb(clear, embedded_profile(data, facts, image), notes)
        small = resized(clear, size[::-1] if swaps(facts.orientation) else size)
        return turned(small, facts.orientation)


def _in_srgb(image: Image.Image, profile: bytes, notes: Counter[str]) -> Image.Image:
    colours = in_srgb(image.convert(image.mode[:-1]), profile, notes).convert("RGB")
    colours.putalpha(image.getchannel("A"))
    return colours

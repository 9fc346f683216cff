"""From every kind of pixels that Pillow knows to grey or RGB with eight bits.

| pixels | become |
| --- | --- |
| grey | grey; three equal channels when handed out |
| transparent ones (alpha, palette entries, a key colour) | blended on the background |
| CMYK, YCbCr, palette, HSV, LAB | RGB as `convert("RGB")` gives it |
| 16 bits | the high byte: exact for eight-bit values scaled by 257, never clipped |
| 32-bit whole numbers, floating point | refused: no one says which value is white |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wds_tools.errors import UnsupportedPictureError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["scaled_key", "to_grey_or_rgb"]


def to_grey_or_rgb(image: Image.Image, background: tuple[int, int, int], *, wide: bool = False) -> Image.Image:
    """The same pixels in mode L or RGB.

    Args:
        image: with its pixels loaded.
        background: red, green, blue under what is transparent.
        wide: whether Pillow's mode I stands for 16-bit grey here, as it does for PGM files.

    Raises:
        UnsupportedPictureError: pixels without a known white.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and wide):
        return _from_16_bits(image, background)
    if image.has_transparency_data:
        return _blended(image.convert("RGBA"), background)
    if image.mode in {"L", "RGB", "RGBX"}:
        return image
    if image.mode in {"I", "F"}:
        kind = "32-bit whole numbers" if image.mode == "I" else "floating point"
        raise UnsupportedPictureError(
            f"picture of {kind}: it does not say which value is white", cure="Store it as npy."
        )
    return image.convert("L" if image.mode == "1" else "RGB")


def _from_16_bits(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    from PIL import Image

    values = np.asarray(image)
    grey = Image.fromarray((values >> 8).astype(np.uint8))
    key = image.info.get("transparency")
    if key is None:
        return grey
    grey.putalpha(Image.fromarray(np.where(values == key, np.uint8(0), np.uint8(255))))
    return _blended(grey.convert("RGBA"), background)


def _blended(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    from PIL import Image

    below = Image.new("RGB", image.size, background)
    below.paste(image, mask=image.getchannel("A"))
    return below


def scaled_key(key: object, mode: str, bits: int) -> object:
    """A PNG's transparent colour in the units of the decoded pixels.

    The file states it in units of the stored depth, and Pillow hands it on so, although it has scaled the pixels:
    two-bit grey to eight bits, and sixteen-bit RGB down to its high bytes (so near-equal colours may go with the key).
    """
    if mode == "L" and isinstance(key, int) and bits < 8:
        return key * 255 // ((1 << bits) - 1)
    if mode == "RGB" and isinstance(key, tuple) and bits == 16:
        return tuple(level >> 8 for level in key)
    return key

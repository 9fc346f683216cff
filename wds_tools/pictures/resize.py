"""The one resampler: Pillow's bilinear filter, antialiased, so that one seed gives one picture whoever made it.

Pixels outside the box never count, as if the part had been cut out first (which is also what torchvision does). No
reducing step before it (`reducing_gap`), whose result depends on the amount of reduction. Pillow lets go of the GIL.
Masks are resized with the nearest neighbour, which invents no values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import Image

    from wds_tools.pictures.orientation import Box

__all__ = ["View", "hull", "nearest", "resized", "scale_for"]


class View(NamedTuple):
    """The pixels around a box, as an image or as they were decoded, and the box in them: left, top, right, bottom."""

    pixels: Image.Image | npt.NDArray[np.uint8]
    box: tuple[float, float, float, float]


def scale_for(part: Box, target: tuple[int, int]) -> int:
    """The largest of 8, 4, 2, 1 by which the part can be divided and still cover the target (width, height)."""
    return next(
        (scale for scale in (8, 4, 2) if part.width >= target[0] * scale and part.height >= target[1] * scale), 1
    )


def hull(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """The whole pixels that a box touches: left, top, right, bottom, inside a picture of that size."""
    left, top = math.floor(box.left + 1e-6), math.floor(box.top + 1e-6)
    right, bottom = math.ceil(box.left + box.width - 1e-6), math.ceil(box.top + box.height - 1e-6)
    return max(0, left), max(0, top), min(width, right), min(height, bottom)


def resized(
    image: Image.Image, size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> Image.Image:
    """The picture, or the part in the box, at that size (width, height); antialiased bilinear."""
    from PIL import Image

    if image.size == size and box in {None, (0, 0, *size)}:
        return image
    return image.resize(size, Image.Resampling.BILINEAR, box)


def nearest(
    image: Image.Image, size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> Image.Image:
    """The same without inventing values: each pixel is one of the picture's own.

    With a box of whole pixels and its own size this cuts out, as fast as `crop` and without Pillow's limit on pixels.
    """
    from PIL import Image

    if image.size == size and box in {None, (0, 0, *size)}:
        return image
    return image.resize(size, Image.Resampling.NEAREST, box)

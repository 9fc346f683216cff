"""A picture at the size at which it is kept, and where a crop that was drawn on the original lies in it. Pure."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from wds_tools.pictures.orientation import Box

__all__ = ["KeptSize", "Small", "mapped", "small_shape"]

KeptSize: TypeAlias = int | tuple[int, int]
"""The shorter side, or (height, width)."""


class Small(NamedTuple):
    """What a raw sample has in place of a picture's bytes.

    Attributes:
        width: of the original, upright.
        height: of the original, upright.
        pixels: uint8 (h, w, 3), the whole picture at the size that is kept.
    """

    width: int
    height: int
    pixels: npt.NDArray[np.uint8]


def small_shape(width: int, height: int, size: KeptSize) -> tuple[int, int]:
    """Height and width at which a picture of this width and height is kept. By a shorter side it is never enlarged."""
    if isinstance(size, tuple):
        return size
    shorter = min(width, height)
    if shorter <= size:
        return height, width
    return max(size, round(height * size / shorter)), max(size, round(width * size / shorter))


def mapped(box: Box | None, picture: Small) -> Box | None:
    """The part of the small picture that shows the box of the original."""
    height, width = picture.pixels.shape[:2]
    if box is None or (width, height) == (picture.width, picture.height):
        return box
    across, down = width / picture.width, height / picture.height
    return Box(box.left * across, box.top * down, box.width * across, box.height * down)

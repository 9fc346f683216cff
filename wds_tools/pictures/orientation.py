"""Turning: the eight ways a picture can lie, and where a box of the upright picture lies in the stored one.

Boxes are turned, not pictures: a crop is decoded and resized as it is stored, and only the small result is turned. A
mirror after turning is an orientation too, so crop, orientation and flip cost one transposition at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Box", "mirrored", "stored_box", "swaps", "turned", "unturned"]


class Box(NamedTuple):
    """A part of a picture, in the coordinates of the picture as the user sees it. Pixels; fractions are allowed."""

    left: float
    top: float
    width: float
    height: float


# Pillow's Transpose: 0 left-right, 1 top-bottom, 2 rotate 90 (counterclockwise), 3 rotate 180, 4 rotate 270,
# 5 transpose, 6 transverse
_TURN = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
_UNTURN = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}


def swaps(orientation: int) -> bool:
    """Whether width and height change places."""
    return orientation >= 5


def mirrored(orientation: int) -> int:
    """The orientation that turns as the given one does and then mirrors: (1, 2), (3, 4), (5, 6), (7, 8) are pairs."""
    return ((orientation - 1) ^ 1) + 1


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """A stored picture made upright."""
    return image if orientation == 1 else image.transpose(_transposition(_TURN[orientation]))


def unturned(image: Image.Image, orientation: int) -> Image.Image:
    """An upright picture laid as it was stored."""
    return image if orientation == 1 else image.transpose(_transposition(_UNTURN[orientation]))


def _transposition(number: int) -> Image.Transpose:
    from PIL import Image

    return Image.Transpose(number)


def stored_box(box: Box, width: int, height: int, orientation: int) -> Box:
    """Where a box of the upright picture lies in the stored picture.

    Args:
        box: in upright coordinates.
        width: of the stored picture.
        height: of the stored picture.
        orientation: 1 to 8.
    """
    if orientation == 1:
        return box
    left, top, wide, high = box
    if orientation >= 5:
        left, top, wide, high = top, left, high, wide
    if orientation in {2, 3, 7, 8}:
        left = width - left - wide
    if orientation in {3, 4, 6, 7}:
        top = height - top - high
    return Box(left, top, wide, high)

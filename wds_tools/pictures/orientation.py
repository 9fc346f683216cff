"""Turning: the eight ways a picture can lie, and where a box of the upright picture lies in the stored one.

Boxes are turned, not pictures: a crop is decoded and resized as it is stored, and only the small result is turned. A
mirror after turning is an orientation too, so crop, orientation and flip cost one transposition at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wds_tools.errors import UsageError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Box", "inside", "mirrored", "stored_box", "swaps", "turned", "unturned"]


class Box(NamedTuple):
    """A part of a picture, in the coordinates of the picture as the user sees it. Pixels; fractions are allowed."""

    left: float
    top: float
    width: float
    height: float


_SLACK = 1e-3  # boxes come from floating point

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


def inside(box: Box, width: int, height: int) -> Box:
    """The box, rounding errors cut off.

    Raises:
        UsageError: it does not lie inside a picture of that size.
    """
    if box[0] >= 0 <= box[1] and box[2] > 0 < box[3] and box[0] + box[2] <= width and box[1] + box[3] <= height:
        return Box(*box)
    box = Box(*box)
    left, top = max(0.0, box.left), max(0.0, box.top)
    right, bottom = min(width, box.left + box.width), min(height, box.top + box.height)
    lost = max(left - box.left, top - box.top, box.left + box.width - right, box.top + box.height - bottom)
    if not (lost < _SLACK and right > left and bottom > top):
        raise UsageError(f"{box} does not lie inside a picture of {width} x {height} pixels")
    return Box(left, top, right - left, bottom - top)

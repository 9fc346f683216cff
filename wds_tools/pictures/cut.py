"""Pixels to pixels: a part of a picture that lies decoded in memory, at a size, flipped or not.

The same boxes and the same filter as for encoded pictures (`resize`), so an array gives what a lossless picture of the
same pixels gives. A part that keeps its size is copied, not a pixel changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wds_tools.pictures.kernel import Kernel
from wds_tools.pictures.orientation import Box, inside, mirrored, turned
from wds_tools.pictures.resize import hull, resized

__all__ = ["cut_mask", "cut_pixels"]

Pixels = npt.NDArray[np.uint8]


def cut_pixels(pixels: Pixels, box: Box, out: Pixels, *, flip: bool, kernel: Kernel | None) -> None:
    """Fill `out` with a part of a picture.

    Args:
        pixels: uint8 (height, width), or with 1 (grey) or 3 channels; any strides.
        box: inside the picture.
        out: uint8 (height, width, 3).
        flip: mirror left and right.
        kernel: of the calling thread; without one Pillow does it.
    """
    pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
    left, top, right, bottom = hull(box, pixels.shape[1], pixels.shape[0])
    part = pixels[top:bottom, left:right]
    whole = (left, top, right - left, bottom - top) == tuple(box)
    if whole and not flip and part.shape[:2] == out.shape[:2]:
        np.copyto(out, part)  # without the interpreter's lock
        return
    within = Box(box.left - left, box.top - top, box.width, box.height)
    if kernel is not None:
        kernel.resize(part, within, out, _turn(flip=flip))
    else:
        _by_pillow(part, within, out, flip=flip)


def _turn(*, flip: bool) -> int:
    return mirrored(1) if flip else 1


def _by_pillow(part: Pixels, box: Box, out: Pixels, *, flip: bool) -> None:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(part[:, :, 0] if part.shape[2] == 1 else part))
    ends = (box.left, box.top, box.left + box.width, box.top + box.height)
    small = resized(image, (out.shape[1], out.shape[0]), ends)
    values = np.asarray(turned(small, _turn(flip=flip)))
    np.copyto(out, values if values.ndim == 3 else values[:, :, None])


def cut_mask(
    values: npt.NDArray[Any], *, box: Box | None = None, size: tuple[int, int], flip: bool = False
) -> npt.NDArray[Any]:
    """A part of an array whose values are labels, at a size: to the nearest value, none invented.

    Args:
        values: (height, width) or (height, width, channels) of any dtype.
        box: default all of it.
        size: height and width of the result.
        flip: mirror left and right.

    Returns:
        (height, width) or (height, width, channels), of the same dtype, memory of its own.

    Raises:
        UsageError: a box outside the array.
    """
    height, width = values.shape[:2]
    box = Box(0, 0, width, height) if box is None else inside(box, width, height)
    rows = _nearest(box.top, box.height, size[0], height)
    columns = _nearest(box.left, box.width, size[1], width)
    cut: npt.NDArray[Any] = values[rows[:, None], (columns[::-1] if flip else columns)[None, :]]
    return cut


def _nearest(begin: float, length: float, count: int, limit: int) -> npt.NDArray[np.int64]:
    places: npt.NDArray[np.int64] = np.floor(begin + (np.arange(count) + 0.5) * (length / count)).astype(np.int64)
    return places.clip(0, limit - 1)

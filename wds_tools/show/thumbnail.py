"""Small pictures for people: of encoded pictures, of arrays, and of masks, whose values get colours.

A picture is decoded as for training (upright, transparency on white), no larger than asked for, and never enlarged. A
photograph becomes a JPEG; what is small or has few colours a PNG, which is then exact.

A grey picture of few values in a format without loss is taken for a mask: its values, 0 to 20 say, would all be black.
Each value gets a colour of its own, 0 black, and the same one in every picture.
"""

from __future__ import annotations

import base64
import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wds_tools.errors import UsageError
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import Facts, read_facts
from wds_tools.sample import BytesLike

__all__ = ["Thumbnail", "of_array", "of_picture"]

_QUALITY = 82  # at 192 pixels some 8 KB, so that a page of 100 stays below a MB
_EXACT = 64  # pixels of the longer side up to which a PNG is no larger than a JPEG, and shows every pixel
_MOST_LABELS = 64
_LOSSLESS = frozenset({"png", "tiff", "bmp", "ppm", "gif"})
_PIXELS_LOOKED_AT = 1 << 22  # of a mask, to see whether it is one: all of a picture of 2048 x 2048

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Thumbnail:
    """A small picture, encoded.

    Attributes:
        data: the bytes.
        media: "image/jpeg" or "image/png".
        width: in pixels.
        height: in pixels.
        of: width and height of what it was made of.
        labels: the values of a mask, rising; empty for all other pictures.
    """

    data: bytes
    media: str
    width: int
    height: int
    of: tuple[int, int]
    labels: Sequence[int] = ()

    @property
    def uri(self) -> str:
        """As an address that holds the picture itself."""
        return f"data:{self.media};base64,{base64.b64encode(self.data).decode()}"

    @property
    def exact(self) -> bool:
        """Whether its pixels should be seen as pixels when it is enlarged."""
        return max(self.of) <= _EXACT or bool(self.labels)


def of_picture(data: BytesLike, *, side: int, decoder: Decoder) -> Thumbnail:
    """A thumbnail of an encoded picture.

    Args:
        data: its bytes.
        side: pixels of the longer side, at most.
        decoder: of the calling thread.

    Raises:
        PictureError: as `Decoder.decode`.
    """
    facts = read_facts(data)
    whole = decoder.size(facts)
    small = _fitting(whole, side)
    labels = _labels(data, facts, decoder)
    if labels is not None:
        return _encoded(_coloured(decoder.decode_mask(data, facts=facts, size=small)), whole, labels=labels)
    return _encoded(decoder.decode(data, facts=facts, size=small), whole)


def of_array(array: Array, *, side: int) -> Thumbnail | None:
    """A thumbnail of pixels; None for an array that is none.

    Args:
        array: (height, width), (height, width, 1 or 3) or (1 or 3, height, width), at least 2 pixels each way. uint8 in
            three channels is shown as it is, whole numbers of few values as a mask, others from the least to the
            greatest.
        side: pixels of the longer side, at most.
    """
    pixels = _pixels(array)
    if pixels is None:
        return None
    height, width = pixels.shape[:2]
    rows, columns = _fitting((width, height), side)
    # The nearest pixel, without a filter: what is shown are values.
    small = pixels[np.arange(rows) * height // rows][:, np.arange(columns) * width // columns]
    if pixels.ndim == 2 and (labels := _few(pixels)) is not None:
        return _encoded(_coloured(small), (width, height), labels=labels)
    return _encoded(_levels(small), (width, height))


def _fitting(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Height and width of what fits into a square, of a picture with this width and height."""
    if side < 1:
        raise UsageError(f"a thumbnail has a side of {side} pixels, expected at least 1")
    scale = min(1.0, side / max(size))
    return max(1, round(size[1] * scale)), max(1, round(size[0] * scale))


def _labels(data: BytesLike, facts: Facts, decoder: Decoder) -> tuple[int, ...] | None:
    """The values of a mask; None for what is none."""
    grey = facts.mode in {"1", "L", "I;16", "I"} and facts.format in _LOSSLESS
    if not grey or facts.width * facts.height > _PIXELS_LOOKED_AT:
        return None
    return _few(decoder.decode_mask(data, facts=facts))


def _few(values: Array) -> tuple[int, ...] | None:
    if values.dtype.kind not in "iub" or values.ndim != 2 or values.size > _PIXELS_LOOKED_AT:
        return None
    found = np.unique(values)
    return tuple(found.tolist()) if len(found) <= _MOST_LABELS else None


def _coloured(values: Array) -> npt.NDArray[np.uint8]:
    """uint8 (H, W, 3): each value's own colour, neighbours far apart on the wheel (by the golden angle)."""
    labels, places = np.unique(values, return_inverse=True)
    colours = np.array([_colour(int(label)) for label in labels], np.uint8)
    return colours[places.reshape(values.shape)]


def _colour(label: int) -> tuple[int, int, int]:
    if label == 0:
        return (0, 0, 0)
    hue, light = label * 0.618_034 % 1.0, 0.95 - 0.25 * (label % 3 == 2)
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.65, light)
    return round(255 * red), round(255 * green), round(255 * blue)


def _pixels(array: Array) -> Array | None:
    """(H, W) or (H, W, 3), the channels at the end."""
    if array.dtype.kind not in "iubf" or array.ndim not in (2, 3):
        return None
    if array.ndim == 3:
        if array.shape[2] not in (1, 3) and array.shape[0] in (1, 3):
            array = array.transpose(1, 2, 0)
        if array.shape[2] not in (1, 3):
            return None
        array = array[:, :, 0] if array.shape[2] == 1 else array
    return array if min(array.shape[:2]) > 1 else None


def _levels(pixels: Array) -> npt.NDArray[np.uint8]:
    """uint8 (H, W, 3), from the least to the greatest where they are no bytes."""
    if pixels.dtype != np.uint8:
        values = pixels.astype(np.float64)
        finite = np.isfinite(values)
        low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 1.0)
        pixels = np.where(finite, (values - low) * (255 / ((high - low) or 1)), 0).round().astype(np.uint8)
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def _encoded(pixels: npt.NDArray[np.uint8], of: tuple[int, int], *, labels: Sequence[int] = ()) -> Thumbnail:
    from PIL import Image

    height, width = pixels.shape[:2]
    exact = bool(labels) or max(height, width) <= _EXACT
    target = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.save(target, "PNG", optimize=True) if exact else image.save(target, "JPEG", quality=_QUALITY)
    media = "image/png" if exact else "image/jpeg"
    return Thumbnail(data=target.getvalue(), media=media, width=width, height=height, of=of, labels=labels)

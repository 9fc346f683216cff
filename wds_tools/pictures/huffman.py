"""Whether the kernel's own Huffman decoder may be used here: it must do what libjpeg's does, in libjpeg's place.

Entropy decoding is most of the work of decoding a crop, and nothing in libjpeg's interface makes it faster. The
kernel's decoder (`_pixels_huffman.c`) takes the place of a private function of libjpeg-turbo. So before it is used, it
is tried on this machine, with the library that is found at run time: that the function lies where it is looked for,
that it is called once for each coding unit, and that the pixels are the same to the last bit, of pictures with short
codes and with long ones, of parts, at all scales. It decodes nothing that it is not sure of, and leaves a picture that
is not as it should be to libjpeg, from the beginning: so damage is judged in the same way with it and without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wds_tools.pictures import _pixels

__all__ = ["BY_LIBJPEG", "BY_US", "trial"]

BY_LIBJPEG, BY_US, _WATCHED = range(3)

_WIDE, _HIGH = 83, 51
_WHOLE = (0, 0, _WIDE, _HIGH)
_QUALITIES = (100, 92, 40, 5)
_PARTS = (
    (_WHOLE, (_HIGH, _WIDE)),
    ((17, 9, 40, 30), (30, 40)),
    ((64, 33, 19, 18), (18, 19)),
    ((0, 0, 3, 51), (51, 3)),
    ((5, 3, 70, 44), (22, 35)),
    (_WHOLE, (7, 11)),
    (_WHOLE, (6, 10)),
)


def trial(kernel: _pixels.Kernel) -> str:
    """What is wrong with it; empty where nothing is."""
    for channels, unit in ((3, 16), (1, 8)):
        units = -(-_WIDE // unit) * -(-_HIGH // unit)
        for quality in _QUALITIES:
            data = kernel.encode(_pattern(channels), quality)
            if not isinstance(data, bytes):
                return data[1]
            if wrong := _is_elsewhere(kernel, data, units) or _differs(kernel, data, units):
                return wrong
            if wrong := _differs_in_damage(kernel, data):
                return wrong
    return ""


def _pattern(channels: int) -> npt.NDArray[np.uint8]:
    """Slopes on the left, noise on the right: few long runs of zeros and many, short codes and long ones."""
    y, x = np.mgrid[0:_HIGH, 0:_WIDE].astype(np.uint32)
    slopes = np.stack([x * 3, y * 5, (x + y) * 2][:channels], -1) & 255
    noise = (np.arange(_HIGH * _WIDE * channels, dtype=np.uint32) * 2654435761 >> 24).reshape(slopes.shape)
    return np.where(x[:, :, None] < _WIDE // 2, slopes, noise).astype(np.uint8)


def _decoded(kernel: _pixels.Kernel, data: bytes, part: Any, size: Any, entropy: int) -> tuple[object, bytes, int]:
    """What the kernel says, the pixels, and how many coding units went through its own decoder."""
    out = np.zeros((*size, 3), np.uint8)
    left, top, wide, high = part
    said = kernel.jpeg(data, _WIDE, _HIGH, left, top, wide, high, out, 1, entropy)
    return said, out.tobytes(), kernel.units()


def _is_elsewhere(kernel: _pixels.Kernel, data: bytes, units: int) -> str:
    plain = _decoded(kernel, data, _WHOLE, (_HIGH, _WIDE), BY_LIBJPEG)
    watched = _decoded(kernel, data, _WHOLE, (_HIGH, _WIDE), _WATCHED)
    good = plain == (None, plain[1], 0) and watched == (None, plain[1], units)
    return "" if good else "libjpeg's decoder is not where it was expected"


def _differs(kernel: _pixels.Kernel, data: bytes, units: int) -> str:
    for number, (part, size) in enumerate(_PARTS):
        plain = _decoded(kernel, data, part, size, BY_LIBJPEG)
        own = _decoded(kernel, data, part, size, BY_US)
        if own[:2] != plain[:2]:
            return "pixels differ"
        if not own[2] or (number == 0 and own[2] != units):
            return "it was not called for each coding unit"
    return ""


def _differs_in_damage(kernel: _pixels.Kernel, data: bytes) -> str:
    """A picture that ends too early is left to libjpeg, which says what it says without."""
    cut = data[: len(data) * 2 // 3] + b"\xff\xd9"
    plain, own = (_decoded(kernel, cut, _WHOLE, (_HIGH, _WIDE), entropy) for entropy in (BY_LIBJPEG, BY_US))
    return "" if own == plain and own[0] is not None else "missing bytes go unnoticed"

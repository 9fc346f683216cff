"""JPEG through simplejpeg: the rows down to the end of a box, at a reduced scale, into memory that is used again.

What simplejpeg lacks, and what is done about it here:
  - it cannot stop early. The height in the frame header of a copy of the bytes is lowered (a copy of 130 KB costs 5
    microseconds), one row of coding units below the last row wanted, since the smooth upsampling of colour looks one
    row ahead;
  - it treats every warning of libjpeg as an error, or none (`strict`), and tells only the last one. A lowered height
    always ends in the warning that bytes are left over. The pixels are in the buffer all the same: so the message
    decides;
  - it would choose scales such as 5/8, for which libjpeg-turbo has no vector code: lower bounds name exactly the scale
    wanted.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from wds_tools.errors import PictureError
from wds_tools.pictures.facts import Facts
from wds_tools.pictures.orientation import Box
from wds_tools.pictures.resize import View, hull, scale_for
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Scratch", "as_image", "decoded", "knows"]

_CODINGS = frozenset({"baseline", "sequential", "progressive", "arithmetic", "arithmetic progressive"})
_DAMAGE = re.compile(r"premature end|bad huffman|bad arithmetic|instead of RST", re.IGNORECASE)
_HARMLESS = re.compile(
    r"extraneous bytes|unknown JFIF|Unknown Adobe|Inconsistent progression|Invalid SOS", re.IGNORECASE
)
_KEEP_BYTES = 16 << 20  # a picture of 4 megapixels; larger ones get memory of their own, which is given back


Memory: TypeAlias = npt.NDArray[np.uint8]


class Scratch:
    """Memory to decode into, which grows with the largest picture so far, up to a limit."""

    def __init__(self) -> None:
        self._memory: Memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Memory:
        """At least `size` bytes, which stay the caller's until the next call."""
        if size > _KEEP_BYTES:
            return np.empty(size, np.uint8)
        if self._memory.size < size:
            self._memory = np.empty(size + size // 4, np.uint8)
        return self._memory


def knows(facts: Facts) -> bool:
    """Whether simplejpeg decodes this kind of picture."""
    return facts.format == "jpeg" and facts.mode in {"L", "RGB"} and facts.bits == 8 and facts.coding in _CODINGS


def decoded(data: BytesLike, facts: Facts, part: Box, target: tuple[int, int], scratch: Scratch) -> View | None:
    """Decode what a box needs, grey or RGBX; None where simplejpeg cannot read the picture and another decoder may.

    Args:
        data: a whole JPEG that `knows` accepts.
        facts: its facts.
        part: the box, in stored coordinates.
        target: width and height that the box will be resized to.
        scratch: memory, which the view refers to until its next use.

    Raises:
        PictureError: damage inside the data.
    """
    scale = scale_for(part, target)
    part = Box(*(side / scale for side in part))
    width, height = -(-facts.width // scale), -(-facts.height // scale)
    left, top, right, bottom = hull(part, width, height)
    rows = _rows_to(min(facts.height, bottom * scale), facts)
    if rows < facts.height:
        data, height = _lowered(data, facts, rows), -(-rows // scale)
    channels = 1 if facts.mode == "L" else 4
    stride = width * channels
    memory = scratch.take((height + 1) * stride)  # one row to spare: Pillow wants whole rows behind a view
    if not _decode(data, facts, (height, width, scale), memory[: height * stride]):
        return None
    box = (part.left - left, part.top - top, part.left + part.width - left, part.top + part.height - top)
    pixels = memory[: height * stride].reshape(height, width, channels)
    return View(pixels[top:bottom, left:right], box)


def as_image(pixels: Memory) -> Image.Image:
    """What `decoded` made, as Pillow's picture of mode L or RGB.

    Of colour this is a copy, which pays: Pillow would take RGBX where it lies, and resize all four. A crop of 224 takes
    0.94 of the time.
    """
    from PIL import Image

    rows, columns, channels = pixels.shape
    stride = pixels.strides[0]
    lying = np.lib.stride_tricks.as_strided(pixels, (rows * stride,), (1,), writeable=False)
    if channels == 1:
        return Image.frombuffer("L", (columns, rows), lying, "raw", "L", stride, 1)
    return Image.frombytes("RGB", (columns, rows), lying, "raw", "RGBX", stride, 1)


def _rows_to(bottom: int, facts: Facts) -> int:
    """How many rows to decode so that those above `bottom` are exact; all where stopping early is not possible."""
    unit = facts.unit_rows
    return min(facts.height, (-(-bottom // unit) + 1) * unit) if unit else facts.height


def _lowered(data: BytesLike, facts: Facts, rows: int) -> bytearray:
    copy = bytearray(data)
    struct.pack_into(">H", copy, facts.frame + 5, rows)
    return copy


def _decode(data: BytesLike, facts: Facts, shape: tuple[int, int, int], memory: Memory) -> bool:
    """Whether the pixels are in the memory now."""
    import simplejpeg

    height, width, scale = shape
    colours = "GRAY" if facts.mode == "L" else "RGBX"
    bounds = {"min_height": height, "min_width": width, "min_factor": scale} if scale > 1 else {}
    try:
        simplejpeg.decode_jpeg(data, colours, buffer=memory, **bounds)
    except ValueError as error:
        if _DAMAGE.search(str(error)):
            raise PictureError(f"JPEG picture with damaged data: {error}") from error
        return bool(_HARMLESS.search(str(error))) and (
            _header_is_quiet(data) or _leniently(data, colours, memory, bounds)
        )
    return True


def _header_is_quiet(data: BytesLike) -> bool:
    """Whether the header alone gives no warning: then decoding went on to the end before the warning was told."""
    import simplejpeg

    try:
        simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return False
    return True


def _leniently(data: BytesLike, colours: str, memory: Memory, bounds: dict[str, int]) -> bool:
    import simplejpeg

    try:
        simplejpeg.decode_jpeg(data, colours, buffer=memory, strict=False, **bounds)
    except ValueError:
        return False
    return True

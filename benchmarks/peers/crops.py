"""Decoding and cropping as people write it in a Dataset or a `map`, for the peers that leave it to their users.

Both draw the box as torchvision's RandomResizedCrop does with its defaults, and mirror half of the pictures.
"""

from __future__ import annotations

import io
import math
import random
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.peer import SIZE

__all__ = ["Picture", "box", "cropped", "cv2_bgr_crop", "cv2_crop", "flipped", "pillow_crop", "pillow_image_crop"]

Picture = npt.NDArray[np.uint8]


def box(width: int, height: int, draw: random.Random) -> tuple[int, int, int, int]:
    """Left, top, width and height of the part."""
    for _ in range(10):
        area = width * height * draw.uniform(0.08, 1.0)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return draw.randint(0, width - w), draw.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def pillow_crop(data: bytes, draw: random.Random) -> Picture:
    """Decode all of it with Pillow, crop and resize with Pillow's antialiased bilinear, flip: what torchvision does."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as opened:
        return pillow_image_crop(opened, draw)


def pillow_image_crop(image: Any, draw: random.Random) -> Picture:
    """The same of a Pillow image, decoded or not."""
    from PIL import Image

    picture = image.convert("RGB")
    left, top, width, height = box(picture.width, picture.height, draw)
    small = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    return flipped(np.array(small), draw)


def cv2_crop(data: bytes, draw: random.Random) -> Picture:
    """Decode all of it with simplejpeg, crop, resize with cv2's bilinear, which does not antialias, flip."""
    import simplejpeg

    return cropped(simplejpeg.decode_jpeg(data, "RGB"), draw)


def cv2_bgr_crop(data: bytes, draw: random.Random) -> Picture:
    """Decode all of it with cv2, crop, resize without antialiasing, flip; the colours are put in order at the end."""
    import cv2

    picture: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    small: Picture = cv2.cvtColor(cropped(picture, draw), cv2.COLOR_BGR2RGB)
    return small


def cropped(picture: Picture, draw: random.Random) -> Picture:
    """A part of decoded pixels, resized by cv2 without antialiasing, mirrored half of the time."""
    import cv2

    cv2.setNumThreads(0)
    left, top, width, height = box(picture.shape[1], picture.shape[0], draw)
    return flipped(cv2.resize(picture[top : top + height, left : left + width], (SIZE, SIZE)), draw)


def flipped(picture: Picture, draw: random.Random) -> Picture:
    """Mirrored half of the time, contiguous, as torch wants it."""
    return np.ascontiguousarray(picture[:, ::-1]) if draw.random() < 0.5 else picture

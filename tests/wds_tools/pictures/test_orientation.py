from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from wds_tools.pictures.orientation import Box, mirrored, stored_box, swaps, turned, unturned

STORED = Image.fromarray(np.arange(35, dtype=np.uint8).reshape(5, 7))


def _upright(orientation: int) -> Image.Image:
    image = STORED.copy()
    exif = image.getexif()
    exif[274] = orientation
    turned_by_pillow = ImageOps.exif_transpose(image)
    assert isinstance(turned_by_pillow, Image.Image)
    return turned_by_pillow


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_is_what_pillow_does(orientation: int) -> None:
    upright = turned(STORED, orientation)
    assert np.array_equal(np.asarray(upright), np.asarray(_upright(orientation)))
    assert np.array_equal(np.asarray(unturned(upright, orientation)), np.asarray(STORED))
    assert (upright.size != STORED.size) == swaps(orientation)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mirror_after_turning_is_an_orientation(orientation: int) -> None:
    mirror = np.asarray(turned(STORED, orientation))[:, ::-1]
    assert np.array_equal(np.asarray(turned(STORED, mirrored(orientation))), mirror)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_covers_the_same_pixels_before_and_after(orientation: int) -> None:
    upright = turned(STORED, orientation)
    for left, top, wide, high in [(0, 0, 1, 1), (1, 2, 3, 2), (2, 0, 2, 5), (0, 1, 5, 3)]:
        box = stored_box(Box(left, top, wide, high), 7, 5, orientation)
        cut = STORED.crop((int(box.left), int(box.top), int(box.left + box.width), int(box.top + box.height)))
        wanted = upright.crop((left, top, left + wide, top + high))
        assert np.array_equal(np.asarray(turned(cut, orientation)), np.asarray(wanted))

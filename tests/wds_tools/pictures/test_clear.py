"""Transparency kept through resizing and turning."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps

from tests.wds_tools.pictures.made import exif_block, png_chunk, png_with, saved, scene
from wds_tools.errors import PictureError
from wds_tools.pictures.clear import decode_clear
from wds_tools.pictures.facts import read_facts

SCENE = scene(60, 40)


def _decoded(data: bytes, size: tuple[int, int] = (60, 40)) -> Image.Image | None:
    return decode_clear(data, read_facts(data), size, srgb=False, notes=Counter())


def _clear() -> npt.NDArray[np.uint8]:
    pixels = np.dstack([SCENE, np.full((40, 60), 255, np.uint8)])
    pixels[:, 30:] = (255, 0, 255, 0)
    return pixels


def test_pixels_and_alpha_are_those_of_the_file() -> None:
    image = _decoded(saved(_clear(), "PNG"))
    assert image is not None
    assert (image.mode, np.array_equal(np.asarray(image), _clear())) == ("RGBA", True)


def test_hidden_colours_never_bleed() -> None:
    image = _decoded(saved(_clear(), "PNG"), (15, 10))
    assert image is not None
    seen = np.asarray(image).astype(int)
    shown = seen[:, :, 3] > 0
    small = np.asarray(Image.fromarray(SCENE[:, :30]).resize((7, 10), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(seen[:, :7, :3] - small).mean() < 12
    assert seen[shown][:, 1].min() > 5  # the hidden colour has no green at all


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_upright(orientation: int) -> None:
    data = png_with(saved(_clear(), "PNG"), b"eXIf", exif_block(orientation))
    upright = Image.fromarray(_clear())
    upright.getexif()[0x0112] = orientation
    wanted = ImageOps.exif_transpose(upright)
    image = _decoded(data, wanted.size)
    assert image is not None
    assert np.array_equal(np.asarray(image), np.asarray(wanted))


def test_a_key_colour_and_palette_entries_become_alpha() -> None:
    key = png_with(saved(np.zeros((4, 4), np.uint8) + 9, "PNG"), b"tRNS", b"\0\x09")
    palette = Image.fromarray(SCENE).quantize(4)
    for data, size in ((key, (4, 4)), (saved(palette, "PNG", transparency=1), (60, 40))):
        image = _decoded(data, size)
        assert image is not None
        assert image.getchannel("A").getextrema()[0] == 0


@pytest.mark.parametrize(
    "picture", [SCENE, np.dstack([SCENE, np.full((40, 60), 255, np.uint8)]), SCENE.astype(np.uint16)[:, :, 0] * 257]
)
def test_what_is_opaque_everywhere_is_none(picture: npt.NDArray[np.uint8]) -> None:
    assert _decoded(saved(picture, "PNG")) is None


def test_damage_is_an_error() -> None:
    data = bytearray(saved(_clear(), "PNG"))
    data[60:80] = bytes(20)
    with pytest.raises(PictureError, match="PNG picture does not decode"):
        _decoded(bytes(data) + png_chunk(b"IEND", b""))

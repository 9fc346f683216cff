"""Parts of pixels that lie in memory: equal to the parts of a lossless picture, whatever makes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.wds_tools.pictures.made import saved, scene
from wds_tools.errors import UsageError
from wds_tools.pictures.cut import cut_mask
from wds_tools.pictures.decode import Box, Decoder

pytestmark = pytest.mark.usefixtures("each_backend")

WIDTH, HEIGHT = 121, 90
PIXELS = scene(WIDTH, HEIGHT)
PNG = saved(PIXELS, "PNG")
GREY_PNG = saved(PIXELS[:, :, 0], "PNG")


@st.composite
def boxes(draw: st.DrawFn, *, whole: bool = False) -> Box:
    if whole:
        width, height = draw(st.integers(1, WIDTH)), draw(st.integers(1, HEIGHT))
        return Box(draw(st.integers(0, WIDTH - width)), draw(st.integers(0, HEIGHT - height)), width, height)
    wide, high = draw(st.floats(0.5, WIDTH)), draw(st.floats(0.5, HEIGHT))
    return Box(draw(st.floats(0, WIDTH - wide)), draw(st.floats(0, HEIGHT - high)), wide, high)


@settings(max_examples=60, deadline=None)
@given(box=boxes() | boxes(whole=True), size=st.tuples(st.integers(1, 70), st.integers(1, 70)), flip=st.booleans())
def test_a_part_of_pixels_is_the_part_of_the_lossless_picture(box: Box, size: tuple[int, int], flip: bool) -> None:
    decoder = Decoder()
    expected = decoder.decode(PNG, box=box, size=size, flip=flip)
    assert np.array_equal(decoder.cut(PIXELS, box=box, size=size, flip=flip), expected)
    assert np.array_equal(decoder.cut(np.asfortranarray(PIXELS), box=box, size=size, flip=flip), expected)
    grey = decoder.decode(GREY_PNG, box=box, size=size, flip=flip)
    assert np.array_equal(decoder.cut(PIXELS[:, :, 0], box=box, size=size, flip=flip), grey)
    assert np.array_equal(decoder.cut(PIXELS[:, :, :1], box=box, size=size, flip=flip), grey)


@settings(max_examples=60, deadline=None)
@given(box=boxes(whole=True), flip=st.booleans())
def test_a_part_that_keeps_its_size_keeps_its_pixels(box: Box, flip: bool) -> None:
    left, top, width, height = map(int, box)
    part = PIXELS[top : top + height, left : left + width]
    out = np.zeros((height, 2 * width, 3), np.uint8)[:, ::2]
    assert Decoder().cut(PIXELS, box=box, flip=flip, out=out) is out
    assert np.array_equal(out, part[:, ::-1] if flip else part)


@settings(max_examples=60, deadline=None)
@given(box=boxes(), size=st.tuples(st.integers(1, 70), st.integers(1, 70)), flip=st.booleans())
def test_masks_take_the_nearest_value_as_pillow_does(box: Box, size: tuple[int, int], flip: bool) -> None:
    values = (np.arange(WIDTH * HEIGHT, dtype=np.int32) * 7).reshape(HEIGHT, WIDTH)
    found = cut_mask(values, box=box, size=size, flip=flip)
    ends = (box.left, box.top, box.left + box.width, box.top + box.height)
    expected = np.asarray(Image.fromarray(values).resize(size[::-1], Image.Resampling.NEAREST, ends))
    expected = expected[:, ::-1] if flip else expected
    assert found.dtype == np.int32
    rows, columns = (np.stack([np.divmod(each // 7, WIDTH)[axis] for each in (found, expected)]) for axis in (0, 1))
    assert np.abs(rows[0] - rows[1]).max() <= 1  # a centre that falls between two pixels is rounded either way
    assert np.abs(columns[0] - columns[1]).max() <= 1
    assert (found == expected).mean() > 0.9 or min(size) < 4


def test_masks_keep_channels_and_whole_arrays_their_values() -> None:
    assert np.array_equal(cut_mask(PIXELS, size=(HEIGHT, WIDTH)), PIXELS)
    assert np.array_equal(cut_mask(PIXELS, size=(HEIGHT, WIDTH), flip=True), PIXELS[:, ::-1])
    assert cut_mask(PIXELS[:, :, 0] > 100, size=(5, 6)).shape == (5, 6)


@pytest.mark.parametrize("box", [Box(-1, 0, 10, 10), Box(120, 0, 2, 2), Box(0, 0, 0, 5), Box(0, 80, 5, 11)])
def test_a_box_outside_is_refused(box: Box) -> None:
    with pytest.raises(UsageError, match="does not lie inside a picture of 121 x 90"):
        Decoder().cut(PIXELS, box=box)
    with pytest.raises(UsageError, match="does not lie inside"):
        cut_mask(PIXELS, box=box, size=(4, 4))


def test_an_out_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="out is uint8"):
        Decoder().cut(PIXELS, size=(4, 4), out=np.zeros((4, 5, 3), np.uint8))
    with pytest.raises(UsageError, match="cannot be made"):
        Decoder().cut(PIXELS, size=(0, 4))

"""Where pictures are cut: inside the picture, by the draws alone, and as the field's definitions say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.crops import DRAW_STEPS, CenterCrop, RandomResizedCrop, Resize
from loaders.draws import uniforms
from wds_tools.errors import UsageError

sides = st.integers(1, 5000)
rows = st.lists(st.floats(0, 1, exclude_max=True), min_size=4 * DRAW_STEPS, max_size=4 * DRAW_STEPS)


@given(width=sides, height=sides, draws=rows)
def test_a_random_crop_lies_inside_the_picture(width: int, height: int, draws: list[float]) -> None:
    box, _ = RandomResizedCrop(224).place(width, height, draws)
    assert box is not None
    assert 0 <= box.left < box.left + box.width <= width
    assert 0 <= box.top < box.top + box.height <= height


def test_random_crops_have_the_stated_areas_and_ratios() -> None:
    crop = RandomResizedCrop(64, scale=(0.2, 0.6), ratio=(0.5, 2.0))
    placed = [crop.place(500, 400, row) for row in uniforms((1, 2), np.arange(2000), DRAW_STEPS).tolist()]
    boxes = np.array([box for box, _ in placed], dtype=float)
    areas, ratios = boxes[:, 2] * boxes[:, 3] / 200_000, boxes[:, 2] / boxes[:, 3]
    assert 0.19 < areas.min() < 0.22
    assert 0.55 < areas.max() < 0.61
    assert 0.48 < ratios.min() < 0.6
    assert 1.7 < ratios.max() < 2.1
    assert abs(np.mean([flip for _, flip in placed]) - 0.5) < 0.05
    assert abs((boxes[:, 0] / (500.001 - boxes[:, 2])).mean() - 0.5) < 0.05  # anywhere alike


def test_a_picture_too_narrow_for_every_try_gives_its_middle() -> None:
    box, _ = RandomResizedCrop(64, scale=(1.0, 1.0)).place(1000, 10, [0.5] * (4 * DRAW_STEPS))
    assert box == (493, 0, 13, 10)


def test_flips_follow_their_probability() -> None:
    draws = [0.0] * (4 * DRAW_STEPS)
    assert RandomResizedCrop(64, flip=1.0).place(100, 100, draws).flip
    assert not RandomResizedCrop(64, flip=0.0).place(100, 100, draws).flip


@given(width=sides, height=sides, size=st.integers(1, 400), more=st.integers(0, 100))
def test_a_centre_crop_keeps_scale_and_centre(width: int, height: int, size: int, more: int) -> None:
    box, flip = CenterCrop(size, resize=size + more).place(width, height, ())
    assert box is not None
    assert not flip
    assert math.isclose(box.width, size * min(width, height) / (size + more))
    assert math.isclose(box.left + box.width / 2, width / 2)
    assert math.isclose(box.top + box.height / 2, height / 2)
    assert box.left >= -1e-9
    assert box.top >= -1e-9


def test_a_centre_crop_resizes_as_imagenet_is_evaluated() -> None:
    box, _ = CenterCrop(224).place(512, 256, ())
    assert box == (144, 16, 224, 224)


def test_resize_takes_the_whole_picture() -> None:
    assert Resize((10, 20)).place(30, 40, ()) == (None, False)
    assert Resize((10, 20)).shape == (10, 20)
    assert Resize(10).shape == (10, 10)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RandomResizedCrop, {"size": 0}),
        (RandomResizedCrop, {"size": 10, "scale": (0.5, 1.5)}),
        (RandomResizedCrop, {"size": 10, "scale": (0.5, 0.2)}),
        (RandomResizedCrop, {"size": 10, "ratio": (0.0, 1.0)}),
        (RandomResizedCrop, {"size": 10, "flip": 2}),
        (CenterCrop, {"size": 10, "resize": 5}),
        (CenterCrop, {"size": 10, "resize": "20"}),
        (RandomResizedCrop, {"size": 10, "scale": 0.5}),
        (RandomResizedCrop, {"size": 10, "flip": "no"}),
        (Resize, {"size": (0, 5)}),
    ],
)
def test_options_that_cannot_be_are_refused(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        kind(**options)


@pytest.mark.parametrize("size", ["96", 96.0, None, True, (96,), (96, 96, 3), ("96", "96"), (96, 9.6), {96: 96}])
@pytest.mark.parametrize("kind", [RandomResizedCrop, CenterCrop, Resize])
def test_a_size_that_is_none_is_named(kind: Any, size: Any) -> None:
    with pytest.raises(UsageError, match=r"size is .*, expected pixels.*\(height, width\)"):
        kind(size)


def test_sizes_may_be_numpys_and_lists() -> None:
    assert Resize(np.int64(10)).shape == (10, 10)  # type: ignore[arg-type]
    assert Resize([10, 20]).shape == (10, 20)  # type: ignore[arg-type]

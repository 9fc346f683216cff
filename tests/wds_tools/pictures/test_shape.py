"""The short way to a picture's size says what the long way says, and refuses what that refuses, in the same words."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.pictures.made import ARITHMETIC, exif_block, jpeg, saved, scene, with_orientation, with_segment
from wds_tools.errors import PictureError, PictureTooLargeError
from wds_tools.pictures import shape as module
from wds_tools.pictures.facts import Shape, check_size, check_whole, read_facts
from wds_tools.pictures.kernel import Capability
from wds_tools.pictures.shape import shape_reader
from wds_tools.sample import BytesLike

MOST = 60 * 50
PLAIN = jpeg(61, 47)
PICTURES = [
    PLAIN,
    jpeg(33, 9, progressive=True),
    with_orientation(PLAIN, 6),
    with_segment(PLAIN, 0xE1, b"Exif\0\0" + exif_block(6, count=2)),
    saved(scene(20, 20)[:, :, 0], "JPEG"),
    ARITHMETIC,
    *(saved(scene(20, 30), kind) for kind in ("PNG", "WEBP", "GIF", "BMP", "TIFF")),
    jpeg(60, 51),
    saved(scene(60, 51), "PNG"),
]


def the_long_way(data: BytesLike) -> Shape:
    facts = read_facts(data)
    check_size(facts, MOST)
    check_whole(data, facts)
    return Shape(facts.format, facts.width, facts.height)


def outcome(read: Callable[[BytesLike], Shape], data: bytes) -> Shape | tuple[type, str]:
    try:
        return read(memoryview(data))
    except PictureError as error:
        return type(error), str(error)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(PICTURES), st.data())
def test_changed_pictures_are_seen_alike(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(0, 3))):
        changed[draw.draw(st.integers(0, min(len(changed), 800) - 1))] = draw.draw(st.integers(0, 255))
    cut = bytes(changed[: draw.draw(st.sampled_from([None, None, -1, -2, 700, 300, 20]))])
    assert outcome(shape_reader(MOST), cut) == outcome(the_long_way, cut)


@pytest.mark.parametrize("data", PICTURES)
def test_it_is_the_same_without_the_kernel(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = shape_reader(MOST)
    monkeypatch.setattr(module, "capability", lambda: Capability(False, False, "", "not built"))
    assert outcome(with_it, data) == outcome(shape_reader(MOST), data) == outcome(the_long_way, data)


def test_too_many_pixels_are_named() -> None:
    with pytest.raises(PictureTooLargeError, match=re.escape("60 x 51 = 3,060 pixels, more than the limit of 3,000")):
        shape_reader(MOST)(jpeg(60, 51))
    assert shape_reader(60 * 51)(jpeg(60, 51)) == ("jpeg", 60, 51)

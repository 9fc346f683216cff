"""JPEGs that the kernel writes: from pixels as Pillow does, from coefficients without changing a pixel."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.wds_tools.pictures.made import ARITHMETIC, jpeg, saved, scene, with_orientation, with_segment
from wds_tools.errors import PictureError, UnsupportedPictureError
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.kernel import Kernel, capability

pytestmark = pytest.mark.skipif(not capability().jpeg, reason=capability().missing)


def _pixels(data: bytes) -> Any:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def _baseline(data: bytes) -> bytes:
    return Kernel().baseline(data, read_facts(data))


KINDS = {
    "progressive 4:2:0": jpeg(101, 77, progressive=True),
    "progressive 4:4:4": jpeg(101, 77, progressive=True, subsampling="4:4:4"),
    "progressive restarts": jpeg(64, 50, progressive=True, restart_marker_rows=1),
    "progressive grey": saved(scene(50, 38)[:, :, 0], "JPEG", progressive=True),
    "progressive cmyk": saved(Image.fromarray(scene(40, 30)).convert("CMYK"), "JPEG", progressive=True),
    "progressive rgb": saved(Image.fromarray(scene(40, 30)), "JPEG", keep_rgb=True, progressive=True),
    "coarse tables": jpeg(40, 30, progressive=True, quality=1),
    "baseline": jpeg(33, 20),
    "one pixel": jpeg(1, 1, progressive=True),
}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 70), st.integers(1, 100), st.sampled_from([1, 3]))
def test_encoded_pixels_are_what_pillow_writes(width: int, height: int, quality: int, channels: int) -> None:
    pixels = scene(width, height, width)[:, :, :channels]
    mine = Kernel().encode(pixels, quality)
    theirs = saved(pixels if channels == 3 else pixels[:, :, 0], "JPEG", quality=quality, subsampling="4:2:0")
    assert np.array_equal(_pixels(mine), _pixels(theirs))
    assert read_facts(mine).coding == "baseline"


def test_pixels_of_any_strides_are_encoded() -> None:
    pixels = scene(40, 30)
    wanted = Kernel().encode(pixels, 80)
    wide = np.zeros((30, 60, 3), np.uint8)
    wide[:, 10:50] = pixels
    for same in (
        wide[:, 10:50],
        np.asfortranarray(pixels),
        pixels[::-1].copy()[::-1],
        pixels[:, :, ::-1].copy()[:, :, ::-1],
    ):
        assert Kernel().encode(same, 80) == wanted


@pytest.mark.parametrize(
    ("pixels", "quality", "words"),
    [
        (np.zeros((2, 2, 4), np.uint8), 90, "4 channels"),
        (np.zeros((2, 2, 3), np.uint8), 0, "1 to 100"),
        (np.zeros((2, 2, 3), np.uint8), 101, "1 to 100"),
        (np.zeros((2, 2, 3), np.float32), 90, "uint8"),
    ],
)
def test_what_is_no_picture_is_not_encoded(pixels: Any, quality: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Kernel().encode(pixels, quality)


def test_a_side_that_jpeg_cannot_state_is_refused() -> None:
    with pytest.raises(PictureError, match=r"70000 x 1 pixels.*65500"):
        Kernel().encode(np.zeros((1, 70_000, 3), np.uint8), 90)


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_made_baseline_keeps_every_pixel(name: str) -> None:
    data = KINDS[name]
    moved = _baseline(data)
    assert read_facts(moved).coding in {"baseline", "sequential"}
    assert np.array_equal(_pixels(moved), _pixels(data))
    assert _baseline(moved) == moved


def test_arithmetic_coding_becomes_huffman_coding() -> None:
    moved = _baseline(ARITHMETIC)
    assert (read_facts(ARITHMETIC).coding, read_facts(moved).coding) == ("arithmetic", "baseline")
    assert np.array_equal(_pixels(moved), _pixels(ARITHMETIC))


def test_only_the_picture_is_moved() -> None:
    plain = jpeg(40, 30, progressive=True)
    around = with_segment(with_orientation(plain, 6), 0xFE, b"a comment") + b"a film behind the picture"
    assert _baseline(around) == _baseline(plain)


@pytest.mark.parametrize("name", ["progressive 4:2:0", "progressive grey", "baseline"])
def test_damage_is_never_moved(name: str) -> None:
    data = KINDS[name]
    facts = read_facts(data)
    decoded = 0
    for end in range(facts.scan, len(data) - 2, 37):
        cut = data[:end] + b"\xff\xd9"
        try:
            Kernel().baseline(cut, facts)
        except PictureError:
            continue
        Decoder(backend="kernel").decode(cut)  # it ends at the end of a scan: a whole picture, of less detail
        decoded += 1
    assert decoded <= 1


def test_a_size_other_than_the_one_that_was_checked_is_refused() -> None:
    data = KINDS["baseline"]
    with pytest.raises(UnsupportedPictureError, match="another size"):
        Kernel().baseline(data, read_facts(data)._replace(width=32))


def test_threads_write_the_same_bytes_at_once() -> None:
    pixels, data = scene(300, 200), KINDS["progressive 4:2:0"]

    def write(kernel: Kernel) -> tuple[bytes, bytes]:
        return kernel.encode(pixels, 90), kernel.baseline(data, read_facts(data))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(write, [Kernel() for _ in range(8)])) == {write(Kernel())}

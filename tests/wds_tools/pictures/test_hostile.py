"""Bytes that someone changed: a picture or a PictureError, never anything else, never the pixels of another picture."""

from __future__ import annotations

import contextlib
import io
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.wds_tools.pictures.made import ARITHMETIC, exif_block, jpeg, saved, scene, with_orientation
from wds_tools.errors import PictureError
from wds_tools.pictures.decode import Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.options import Pictures

pytestmark = pytest.mark.usefixtures("each_backend")

SMALL = scene(40, 30)
CLEAR = np.dstack([SMALL, SMALL[:, :, :1]])
WHOLE = {
    "jpeg": with_orientation(jpeg(40, 30), 6),
    "grey jpeg": saved(SMALL[:, :, 0], "JPEG"),
    "progressive jpeg": jpeg(40, 30, progressive=True),
    "restarts": jpeg(40, 30, restart_marker_blocks=1),
    "arithmetic jpeg": ARITHMETIC,
    "cmyk jpeg": saved(Image.fromarray(SMALL).convert("CMYK"), "JPEG"),
    "png": saved(CLEAR, "PNG", exif=exif_block(3)),
    "palette png": saved(Image.fromarray(SMALL).quantize(9), "PNG", transparency=1),
    "webp": saved(CLEAR, "WEBP", exif=exif_block(3)),
    "lossless webp": saved(SMALL, "WEBP", lossless=True),
    "gif": saved(SMALL, "GIF", save_all=True, append_images=[Image.fromarray(255 - SMALL)]),
    "bmp": saved(SMALL, "BMP"),
    "tiff": saved(SMALL, "TIFF", compression="tiff_lzw"),
    "ppm": saved(SMALL, "PPM"),
    "avif": saved(SMALL, "AVIF"),
}
OPTIONS = Pictures(max_pixels=100_000, icc="srgb")


def _try(data: bytes) -> None:
    # Pillow warns of odd TIFF directories; what it says is not at stake here, only what is raised
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for attempt in (_whole, _part, _mask):
            with contextlib.suppress(PictureError):
                attempt(data)


def _whole(data: bytes) -> None:
    facts = read_facts(data)
    pixels = Decoder(OPTIONS).decode(data)
    width, height = Decoder().size(facts)
    assert pixels.shape == (height, width, 3)


def _part(data: bytes) -> None:
    decoder = Decoder(OPTIONS)
    facts = read_facts(data)
    width, height = decoder.size(facts)
    assert decoder.decode(data, facts=facts, box=Box(0, 0, width / 2, height / 2), size=(7, 9)).shape == (7, 9, 3)


def _mask(data: bytes) -> None:
    assert Decoder(OPTIONS).decode_mask(data, size=(5, 6)).shape[:2] == (5, 6)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_changed_bytes_give_pixels_or_a_picture_error(name: str, drawn: st.DataObject) -> None:
    data = bytearray(WHOLE[name])
    near = st.integers(0, min(len(data) - 1, 700))  # most of what matters lies in the header
    for _ in range(drawn.draw(st.integers(1, 4))):
        at = drawn.draw(near | st.integers(0, len(data) - 1))
        data[at] = drawn.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
    if drawn.draw(st.booleans()):
        begin = drawn.draw(near)
        del data[begin : begin + drawn.draw(st.integers(1, 40))]
    _try(bytes(data))


@pytest.mark.parametrize("name", WHOLE)
def test_every_single_header_byte_set_to_an_extreme(name: str) -> None:
    whole = WHOLE[name]
    for at in range(2, min(len(whole), 120)):
        for value in (0, 255):
            _try(whole[:at] + bytes([value]) + whole[at + 1 :])


@pytest.mark.parametrize("name", WHOLE)
def test_pictures_cut_at_many_points(name: str) -> None:
    whole = WHOLE[name]
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        _try(whole[:length])


MAGIC = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8X", b"GIF89a", b"BM", b"II*\0", b""]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MAGIC), st.binary(max_size=300))
def test_noise_behind_a_magic_number(magic: bytes, noise: bytes) -> None:
    _try(magic + noise)


def test_damaged_pictures_never_show_an_earlier_one() -> None:
    decoder = Decoder()
    ours = np.full((64, 64, 3), 40, np.uint8)
    data = bytearray(saved(ours, "JPEG"))
    seen = 0
    for at in range(100, len(data)):
        decoder.decode(saved(np.full((64, 64, 3), 250, np.uint8), "JPEG"))  # memory full of bright pixels
        for value in (0, 0x3F, 0xFF):
            changed = bytes(data[:at]) + bytes([value]) + bytes(data[at + 1 :])
            try:
                pixels = decoder.decode(changed)
            except PictureError:
                continue
            with Image.open(io.BytesIO(changed)) as image:
                try:
                    wanted = np.asarray(image.convert("RGB"))
                except OSError:
                    continue
            seen += 1
            assert np.abs(pixels.astype(int) - wanted).max() <= 2
    assert seen > 100

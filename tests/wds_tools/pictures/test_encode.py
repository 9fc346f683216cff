from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.wds_tools.pictures.made import exif_block, jpeg, saved, scene, with_orientation
from wds_tools.errors import FieldRefusedError, UsageError
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.encode import PICTURE_FIELDS, encode_picture
from wds_tools.pictures.facts import read_facts

SCENE = scene(40, 30)
CLEAR = np.dstack([SCENE, SCENE[:, :, :1]])
GREY = SCENE[:, :, 0]


def _mode(data: bytes) -> str:
    with Image.open(io.BytesIO(data)) as image:
        return image.mode


@pytest.mark.parametrize("field", sorted(set(PICTURE_FIELDS) - {"jxl", "pgm"}))
def test_each_format_holds_rgb(field: str) -> None:
    value = GREY if field == "gif" else SCENE
    data = encode_picture(value, field)
    assert read_facts(data).format == {"jpg": "jpeg", "tif": "tiff"}.get(field, field)
    apart = np.abs(Decoder().decode(data).astype(int) - (value if value.ndim == 3 else value[:, :, None]))
    assert apart.mean() < 4


@pytest.mark.parametrize("field", ["png", "tif", "bmp", "ppm", "pgm", "gif"])
def test_formats_without_loss_keep_every_value(field: str) -> None:
    for array in (GREY, GREY[:, :, None], np.asfortranarray(GREY), GREY[::-1, ::-1]):
        decoded = Decoder().decode(encode_picture(array, field))
        assert np.array_equal(decoded[:, :, 1], array.reshape(array.shape[:2]))


@pytest.mark.parametrize(
    ("array", "field"),
    [
        (GREY > 90, "png"),
        (GREY > 90, "tif"),
        (GREY, "png"),
        (GREY.astype(np.uint16) * 257, "png"),
        (GREY.astype(np.uint16) * 257, "tif"),
        (SCENE, "png"),
    ],
)
def test_masks_come_back_as_they_were(array: np.ndarray[Any, Any], field: str) -> None:
    mask = Decoder().decode_mask(encode_picture(array, f"seg.{field}"))
    assert np.array_equal(mask, array)


def test_sixteen_bits_of_the_other_byte_order() -> None:
    array = GREY.astype(">u2") * 257
    assert np.array_equal(Decoder().decode_mask(encode_picture(array, "png")), array)


@pytest.mark.parametrize("field", ["png", "webp", "tiff", "avif"])
def test_alpha_is_kept_where_the_format_has_it(field: str) -> None:
    assert _mode(encode_picture(CLEAR, field)) == "RGBA"


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        (CLEAR, "jpg", "not RGBA.*Blend it"),
        (CLEAR[:, :, 2:], "jpg", "not LA"),
        (CLEAR, "bmp", "not RGBA"),
        (Image.fromarray(GREY.astype(np.uint16)), "jpg", "not I;16"),
        (Image.new("F", (3, 3)), "png", "not F"),
        (Image.new("I", (3, 3)), "png", "not I"),
        (Image.new("CMYK", (3, 3)), "jpg", "not CMYK"),
        (Image.new("RGB", (0, 3)), "png", "0 x 3"),
        (SCENE, "pgm", "grey"),
        (SCENE, "gif", "not RGB"),
        (SCENE.astype(np.float32), "jpg", r"float32.*0\.\.255"),
        (GREY / 255, "png", "float64"),
        (GREY.astype(np.int64), "png", "int64"),
        (SCENE.astype(np.uint16), "png", "uint16"),
        (SCENE.transpose(2, 0, 1), "jpg", r"channels.*transpose"),
        (SCENE[:0], "png", r"\(0, 40, 3\)"),
        (np.zeros(5, np.uint8), "png", r"\(5,\)"),
        (SCENE[None], "png", r"\(1, 30, 40, 3\)"),
        ("a path", "jpg", "not str"),
        ([[1, 2]], "png", "not list"),
        (SCENE, "doc", "no picture format"),
    ],
)
def test_what_would_lose_or_needs_guessing_is_refused(value: object, field: str, words: str) -> None:
    with pytest.raises(FieldRefusedError, match=words):
        encode_picture(value, field)


def test_palettes_and_bits_become_what_jpeg_holds() -> None:
    palette = Image.fromarray(SCENE).quantize(8)
    assert _mode(encode_picture(palette, "jpg")) == "RGB"
    assert _mode(encode_picture(Image.fromarray(GREY > 90), "jpg")) == "L"
    palette.info["transparency"] = 0
    with pytest.raises(FieldRefusedError, match="P with transparency"):
        encode_picture(palette, "jpg")
    assert _mode(encode_picture(palette, "webp")) == "RGBA"


def test_quality_and_sampling_of_jpeg() -> None:
    data = encode_picture(SCENE, "jpg")
    assert data == saved(SCENE, "JPEG", quality=95, subsampling="4:2:0")
    assert read_facts(data).unit_rows == 16
    assert len(encode_picture(SCENE, "jpg", quality=50)) < len(data)
    for quality in (0, 101):
        with pytest.raises(UsageError, match="1 to 100"):
            encode_picture(SCENE, "jpg", quality=quality)


def test_the_same_value_gives_the_same_bytes() -> None:
    for field in ("jpg", "png", "webp", "tif"):
        assert encode_picture(SCENE, field) == encode_picture(SCENE.copy(), field)


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_pillow_images_are_written_upright_and_turned_once(orientation: int) -> None:
    with Image.open(io.BytesIO(with_orientation(jpeg(40, 30), orientation))) as image:
        data = encode_picture(image, "png")
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert read_facts(data).orientation == 1
    assert np.array_equal(Decoder().decode(data), upright)


def test_the_colour_profile_of_a_pillow_image_stays() -> None:
    with Image.open(io.BytesIO(jpeg(icc_profile=b"x" * 200, exif=b"Exif\0\0" + exif_block(1)))) as image:
        assert read_facts(encode_picture(image, "jpg")).icc


def test_too_large_for_the_format_is_refused() -> None:
    with pytest.raises(FieldRefusedError, match="70000 x 1"):
        encode_picture(np.zeros((1, 70_000), np.uint8), "jpg")


def test_jpeg_xl_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    with pytest.raises(FieldRefusedError, match="pip install pillow-jxl-plugin"):
        encode_picture(SCENE, "jxl")

"""Pixels into the formats of datasets."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.wds_tools.pictures.made import scene
from wds_tools.errors import PictureError, UnsupportedPictureError
from wds_tools.pictures import compress as module
from wds_tools.pictures.compress import FORMATS, check_encoder, compress
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.kernel import Kernel, capability
from wds_tools.pictures.metadata import Metadata

SCENE = scene(80, 60)
LOSSY = [form for form, format_ in FORMATS.items() if format_.quality is not None]


def _made(form: str, picture: Any = SCENE, **options: Any) -> bytes:
    if form == "jxl":
        pytest.importorskip("pillow_jxl")
    return compress(picture, form, **options)


@pytest.mark.parametrize("form", FORMATS)
def test_pixels_come_back(form: str) -> None:
    for pixels in (SCENE, SCENE[:, :, :1].copy()):
        data = _made(form, pixels)
        assert read_facts(data).format == FORMATS[form].name
        apart = np.abs(Decoder().decode(data).astype(int) - pixels)
        assert apart.mean() < (5 if form in LOSSY else 1e-9)


@pytest.mark.parametrize("form", LOSSY)
def test_a_lower_quality_takes_fewer_bytes_and_none_is_the_formats_own(form: str) -> None:
    own = FORMATS[form].quality
    assert own is not None
    assert _made(form) == _made(form, quality=own)
    assert len(_made(form, quality=30)) < len(_made(form)) < len(_made(form, quality=97))


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_pixels_give_the_same_bytes(form: str) -> None:
    assert _made(form) == _made(form, np.asfortranarray(SCENE)) == _made(form, Image.fromarray(SCENE))


@pytest.mark.skipif(not capability().jpeg, reason=capability().missing)
@pytest.mark.parametrize("pixels", [SCENE, SCENE[:, :, 1:2].copy()])
def test_the_kernel_and_pillow_write_the_same_jpeg(pixels: Any) -> None:
    pictures = []
    for kernel in (Kernel(), None):
        with Image.open(io.BytesIO(_made("jpg", pixels, kernel=kernel))) as image:
            pictures.append((image.mode, image.size, image.tobytes(), image.info["jfif"]))
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("form", FORMATS)
def test_metadata_and_profile_go_along(form: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    block = exif.tobytes().removeprefix(b"Exif\0\0")
    data = _made(form, metadata=Metadata(block, b"<x:xmpmeta/>"), profile=b"x" * 200 if form != "jxl" else b"")
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif()[0x010F] == "a camera"
        if form != "jxl":  # whose reader for Pillow tells neither
            assert (image.info["icc_profile"], image.info["xmp"]) == (b"x" * 200, b"<x:xmpmeta/>")
    assert np.abs(Decoder().decode(data).astype(int) - Decoder().decode(_made(form))).max() <= 1


def test_long_profiles_and_exif_in_a_jpeg() -> None:
    profile = bytes(range(256)) * 600  # three segments
    with Image.open(io.BytesIO(_made("jpg", profile=profile, metadata=Metadata(b"x" * 65_528)))) as image:
        assert image.info["icc_profile"] == profile
        assert "exif" not in image.info  # a segment has 64 KiB


@pytest.mark.parametrize("form", ["webp", "avif", "png", "jxl"])
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha_stays(form: str, mode: str) -> None:
    clear = Image.fromarray(SCENE).convert(mode)
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    with Image.open(io.BytesIO(_made(form, clear))) as image:
        apart = np.asarray(image.getchannel("A")).astype(int) - np.asarray(clear.getchannel("A"))
    assert np.abs(apart).max() < 12


@pytest.mark.parametrize("form", ["jpg", "webp", "avif"])
def test_what_a_format_cannot_hold_is_an_error_that_names_it(form: str) -> None:
    with pytest.raises(PictureError, match="70000 x 1"):
        _made(form, np.zeros((1, 70_000, 3), np.uint8))


def test_encoders_that_are_missing_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    with pytest.raises(UnsupportedPictureError, match="pip install pillow-jxl-plugin"):
        check_encoder("jxl")
    monkeypatch.setattr("PIL.features.check", lambda name: name != "avif")
    with pytest.raises(UnsupportedPictureError, match=r"without AVIF\. pip install"):
        check_encoder("avif")
    for form in ("jpg", "webp", "png"):
        check_encoder(form)


def test_the_table_of_the_docstring_states_the_qualities() -> None:
    for form, format_ in FORMATS.items():
        (line,) = (line for line in (module.__doc__ or "").splitlines() if line.startswith(f"| {form} |"))
        assert line.split("|")[3].strip() == ("" if format_.quality is None else str(format_.quality))

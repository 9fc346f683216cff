"""Metadata read, and left out while the picture stays."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.wds_tools.pictures.made import exif_block, jpeg, png_with, saved, scene, with_orientation, with_segment
from wds_tools.pictures.exif import read_orientation, set_upright
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.jpeg import picture_end
from wds_tools.pictures.metadata import Metadata, read_metadata, without_metadata

SCENE = scene(50, 40)
XMP = b"<x:xmpmeta/>"


def _bare(data: bytes, *, profile: bool = False) -> bytes:
    return bytes(without_metadata(data, read_facts(data), profile=profile))


def _tiff(text: bytes = b"hi\0\0") -> bytes:
    """A TIFF block with a maker's name and orientation 1."""
    entries = struct.pack("<HHI4s", 0x010F, 2, 4, text) + struct.pack("<HHIHH", 0x0112, 3, 1, 1, 0)
    return b"II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4)


# ---- reading


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_exif_and_xmp_are_read(kind: str) -> None:
    data = saved(SCENE, kind, exif=b"Exif\0\0" + _tiff(), xmp=XMP)
    found = read_metadata(data, read_facts(data))
    assert (b"hi\0\0" in found.exif, found.xmp) == (True, XMP)
    assert kind == "AVIF" or found.exif == _tiff()  # Pillow moves the orientation out of an AVIF's EXIF


def test_exif_and_xmp_of_a_png_are_read() -> None:
    text = png_with(saved(SCENE, "PNG"), b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)
    data = png_with(text, b"eXIf", _tiff())
    assert read_metadata(data, read_facts(data)) == Metadata(_tiff(), XMP)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP"])
def test_a_picture_without_says_nothing(kind: str) -> None:
    data = saved(Image.fromarray(SCENE[:, :, 0]), kind)
    assert read_metadata(data, read_facts(data)) == Metadata()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4])
def test_the_orientation_is_upright_afterwards(order: str, kind: int) -> None:
    block = exif_block(6, kind, order=order)
    assert read_orientation(block) == 6
    for given_block in (block, b"Exif\0\0" + block):
        made = set_upright(given_block)
        assert (read_orientation(made), len(made)) == (1, len(block))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([b"", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"]))
def test_blocks_of_any_bytes_are_upright_or_left_out(tail: bytes, head: bytes) -> None:
    made = set_upright(head + tail)
    assert made == b"" or (len(made) == len(head + tail) and read_orientation(made) == 1)


# ---- leaving out


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_nothing_is_left_out_where_there_is_nothing(kind: str) -> None:
    for options in ({}, {"icc_profile": b"p" * 99}):
        data = saved(SCENE, kind, **options)
        assert without_metadata(data, read_facts(data), profile=True) is data


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_profile_stays_or_goes_as_is_said(kind: str) -> None:
    data = saved(SCENE, kind, icc_profile=b"p" * 99)
    with Image.open(io.BytesIO(_bare(data))) as bare, Image.open(io.BytesIO(data)) as whole:
        assert "icc_profile" not in bare.info
        assert np.array_equal(np.asarray(bare), np.asarray(whole))


def test_what_shows_a_jpeg_as_it_is_stays() -> None:
    data = saved(Image.fromarray(SCENE).convert("CMYK"), "JPEG", dpi=(72, 72))
    loud = with_segment(with_segment(with_orientation(data, 1), 0xFE, b"comment"), 0xED, b"Photoshop 3.0\0")
    assert _bare(loud) == _bare(data)
    with Image.open(io.BytesIO(_bare(loud))) as bare:
        assert (bare.mode, bare.info["adobe"]) == ("CMYK", 100)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}])
def test_what_lies_behind_a_jpeg_is_left_out(options: dict[str, object]) -> None:
    data = jpeg(60, 40, **options)
    facts = read_facts(data)
    assert _bare(data) == data
    assert picture_end(data, facts.scan) == len(data)
    for behind in (b"a film", jpeg(20, 20), b"\xff\xd9"):
        assert _bare(data + behind) == data


def test_all_that_makes_the_pixels_of_a_png_stays() -> None:
    palette = Image.fromarray(SCENE).quantize(9)
    data = saved(palette, "PNG", transparency=3, gamma=0.5)
    loud = png_with(png_with(data, b"tEXt", b"Comment\0hi"), b"gAMA", struct.pack(">I", 45455)) + b"behind"
    bare = _bare(loud)
    assert bare == png_with(data, b"gAMA", struct.pack(">I", 45455))


def test_a_webp_stays_whole() -> None:
    clear = np.dstack([SCENE, SCENE[:, :, :1]])
    for picture in (SCENE, clear):
        data = saved(picture, "WEBP", exif=b"Exif\0\0" + _tiff(), xmp=XMP + b" ", lossless=True)
        for ending in (b"", b"behind"):
            bare = _bare(data + ending)
            facts = read_facts(bare)
            assert facts.end == len(bare)
            with Image.open(io.BytesIO(bare)) as image, Image.open(io.BytesIO(data)) as whole:
                assert np.array_equal(np.asarray(image), np.asarray(whole))
                assert not image.getexif()
            assert (b"xmpmeta" in bare, facts.alpha) == (False, picture is clear)


def test_other_formats_are_left_alone() -> None:
    data = saved(SCENE, "AVIF", exif=b"Exif\0\0" + _tiff())
    assert without_metadata(data, read_facts(data), profile=False) is data

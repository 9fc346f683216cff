from __future__ import annotations

import gzip
import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.wds_tools.pictures.made import (
    ARITHMETIC,
    exif_block,
    jpeg,
    png_with,
    saved,
    scene,
    with_orientation,
    with_segment,
)
from wds_tools.errors import PictureError, PictureTooLargeError, TruncatedPictureError, UnsupportedPictureError
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.exif import read_orientation
from wds_tools.pictures.facts import Facts, check_size, check_whole, read_facts

SCENE = scene(61, 47)


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("JPEG", {}, "jpeg"),
        ("JPEG", {"progressive": True}, "jpeg"),
        ("PNG", {}, "png"),
        ("WEBP", {}, "webp"),
        ("WEBP", {"lossless": True}, "webp"),
        ("WEBP", {"exif": exif_block(1)}, "webp"),
        ("GIF", {}, "gif"),
        ("BMP", {}, "bmp"),
        ("TIFF", {}, "tiff"),
        ("AVIF", {}, "avif"),
        ("PPM", {}, "ppm"),
        ("JPEG2000", {}, "jpeg2000"),
    ],
)
def test_format_and_size_of_each_format(kind: str, options: dict[str, Any], name: str) -> None:
    facts = read_facts(saved(SCENE, kind, **options))
    assert (facts.format, facts.width, facts.height, facts.orientation) == (name, 61, 47, 1)


def test_facts_are_read_from_any_bytes_like() -> None:
    data = jpeg()
    inside = memoryview(b"..." + data + b"...")[3:-3]
    assert read_facts(data) == read_facts(bytearray(data)) == read_facts(inside)
    assert read_facts(memoryview(data).cast("b")) == read_facts(data)


def test_what_a_jpeg_header_says() -> None:
    grey = read_facts(saved(SCENE[:, :, 0], "JPEG"))
    assert (grey.mode, grey.coding, grey.progressive, grey.bits) == ("L", "baseline", False, 8)
    assert read_facts(jpeg(progressive=True)).progressive
    assert read_facts(saved(Image.fromarray(SCENE).convert("CMYK"), "JPEG")).mode == "CMYK"
    assert read_facts(ARITHMETIC).coding == "arithmetic"
    assert read_facts(jpeg(icc_profile=b"x" * 200)).icc
    assert [read_facts(jpeg(subsampling=kind)).unit_rows for kind in ("4:4:4", "4:2:2", "4:2:0")] == [8, 8, 16]
    assert read_facts(jpeg(progressive=True)).unit_rows == 0


def test_junk_and_fill_bytes_between_segments_are_skipped() -> None:
    data = jpeg()
    whole = read_facts(data)
    for odd in (with_segment(data, 0xFE, b"note", after=b"\xff\xff"), with_segment(data, 0xFE, b"note", after=b"junk")):
        facts = read_facts(odd)
        assert (facts.width, facts.height, facts.unit_rows) == (whole.width, whole.height, whole.unit_rows)


def test_transparency_animation_and_profile_are_seen() -> None:
    clear = np.dstack([SCENE, SCENE[:, :, :1]])
    assert read_facts(saved(clear, "PNG")).alpha
    assert read_facts(saved(clear, "WEBP", lossless=True)).alpha
    assert not read_facts(saved(SCENE, "PNG")).alpha
    assert read_facts(saved(Image.fromarray(SCENE).quantize(8), "PNG", transparency=0)).alpha
    frames = {"save_all": True, "append_images": [Image.fromarray(255 - SCENE)]}
    assert read_facts(saved(SCENE, "PNG", **frames)).animated
    assert read_facts(saved(SCENE, "WEBP", **frames)).animated
    assert read_facts(saved(SCENE, "PNG", icc_profile=b"x" * 200)).icc


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("value", range(1, 9))
def test_orientation_of_each_format_that_holds_it(value: int, order: str) -> None:
    block = exif_block(value, order=order)
    assert read_facts(with_orientation(jpeg(), value, order=order)).orientation == value
    for kind in ("PNG", "WEBP", "AVIF"):
        assert read_facts(saved(SCENE, kind, exif=block)).orientation == value, kind
    facts = read_facts(saved(SCENE, "TIFF", tiffinfo={274: value}))
    assert (facts.orientation, facts.width, facts.height) == (value, 61, 47)


@pytest.mark.parametrize(
    ("block", "orientation"),
    [
        (exif_block(6), 6),
        (exif_block(6, 4), 6),  # LONG, as some cameras write it; Pillow turns it too
        (exif_block(6, 1), 6),
        (b"Exif\0\0" + exif_block(6), 6),
        (exif_block(0), 1),
        (exif_block(9), 1),
        (exif_block(0, 2, raw=b"6"), 1),  # text
        (exif_block(6, count=2), 1),
        (exif_block(0, 5, raw=b"\x06\0\0\0"), 1),  # a fraction
        (exif_block(6)[:12], 1),
        (exif_block(6)[:3], 1),
        (b"XX" + exif_block(6)[2:], 1),
        (exif_block(6).replace(b"\x2a\0", b"\x2b\0", 1), 1),
        (b"", 1),
        (struct.pack("<2sHIH", b"II", 42, 8, 65535), 1),
        (struct.pack("<2sHI", b"II", 42, 0xFFFFFFFF), 1),
    ],
)
def test_orientation_that_makes_no_sense_means_leave_it(block: bytes, orientation: int) -> None:
    assert read_orientation(block) == orientation
    assert read_orientation(memoryview(block)) == orientation
    if len(block) < 60_000:
        assert read_facts(with_segment(jpeg(), 0xE1, b"Exif\0\0" + block)).orientation in {orientation, 1}


def test_orientation_in_xmp_only_is_left_alone() -> None:
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x:xmpmeta tiff:Orientation="6"/>'
    assert read_facts(with_segment(jpeg(), 0xE1, xmp)).orientation == 1


@pytest.mark.parametrize("kind", ["TIFF", "AVIF", "WEBP"])
def test_orientation_in_xmp_only_is_left_alone_where_pillow_would_turn_by_it(kind: str) -> None:
    about = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    )
    options = {"tiffinfo": {700: about}} if kind == "TIFF" else {"xmp": about}
    data = saved(scene(40, 30), kind, **options)
    with Image.open(io.BytesIO(data)) as image:
        assert ImageOps.exif_transpose(image).size == (30, 40)
    facts = read_facts(data)
    assert (facts.width, facts.height, facts.orientation) == (40, 30, 1)
    pixels = Decoder().decode(data, facts=facts)
    assert np.abs(pixels.astype(int) - scene(40, 30)).mean() < 10


@pytest.mark.parametrize("value", range(1, 9))
def test_orientation_is_the_one_that_pillow_applies(value: int) -> None:
    data = with_orientation(jpeg(), value)
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif()[274] == value
        upright = ImageOps.exif_transpose(image)
        facts = read_facts(data)
        assert upright.size == ((facts.height, facts.width) if value > 4 else (facts.width, facts.height))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<!DOCTYPE html><html></html>", "an HTML page"),
        (b"\n <HTML><body>", "an HTML page"),
        (gzip.compress(jpeg()), "gzip data"),
        (b"%PDF-1.7", "a PDF document"),
        (b'<?xml version="1.0"?><svg/>', "XML or SVG"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"0123456789" + jpeg(), "bytes that begin with b'0123456789"),
        (b"\0", "bytes that begin with"),
        (b"P7\nWIDTH 4\n", "bytes that begin with"),
    ],
)
def test_what_is_no_picture_is_named(data: bytes, words: str) -> None:
    with pytest.raises(UnsupportedPictureError, match=words):
        read_facts(data)


def test_an_avif_file_may_name_its_brand_second() -> None:
    data = saved(SCENE, "AVIF")
    size = int.from_bytes(data[:4], "big")
    renamed = data[:8] + b"mif1" + data[12:16] + data[16:size].replace(b"mif1", b"avif", 1) + data[size:]
    assert read_facts(renamed).format == "avif"


def test_no_bytes_are_a_truncated_picture() -> None:
    with pytest.raises(TruncatedPictureError, match="0 bytes"):
        read_facts(b"")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_cut_anywhere_is_truncated(kind: str) -> None:
    data = saved(scene(64, 64), kind)
    for length in sorted({*range(12), *range(12, len(data), 37), len(data) - 60, len(data) - 2, len(data) - 1}):
        with pytest.raises((TruncatedPictureError, UnsupportedPictureError)):
            check_whole(data[:length], read_facts(data[:length]))
    check_whole(data, read_facts(data))


def test_bytes_behind_a_whole_picture_do_not_matter() -> None:
    for kind in ("JPEG", "PNG", "WEBP"):
        data = saved(SCENE, kind)
        for extra in (b"\0", b"trailing text " * 1000, data[: len(data) // 2]):
            check_whole(data + extra, read_facts(data + extra))


def test_the_end_marker_of_an_embedded_preview_does_not_count() -> None:
    preview = jpeg(16, 16)
    data = with_segment(jpeg(), 0xE1, b"Exif\0\0" + exif_block(1) + preview)
    facts = read_facts(data)
    check_whole(data, facts)
    for length in (facts.scan + 1, facts.scan + 500, len(data) - 2):
        with pytest.raises(TruncatedPictureError):
            check_whole(data[:length], facts)


def test_a_progressive_picture_cut_between_its_scans_is_truncated() -> None:
    data = jpeg(progressive=True)
    second = data.rfind(b"\xff\xda")
    with pytest.raises(TruncatedPictureError, match="no end-of-image marker"):
        check_whole(data[:second], read_facts(data))


def test_a_png_with_orientation_behind_its_pixels() -> None:
    from tests.wds_tools.pictures.made import png_chunk

    data = saved(SCENE, "PNG")
    late = data[:-12] + png_chunk(b"eXIf", exif_block(6)) + data[-12:]
    assert read_facts(late).orientation == 6


def test_a_gif_frame_larger_than_its_canvas_counts() -> None:
    data = bytearray(saved(SCENE, "GIF"))
    data[6:10] = struct.pack("<HH", 1, 1)
    assert read_facts(data)[1:3] == (61, 47)
    data[6:10] = struct.pack("<HH", 60000, 60000)
    with pytest.raises(PictureTooLargeError, match="60000 x 60000"):
        check_size(read_facts(data), 178_956_970)


def test_the_limit_on_pixels_names_size_and_cure() -> None:
    facts = Facts("png", 20_000, 20_000)
    check_size(facts, 400_000_000)
    with pytest.raises(PictureTooLargeError, match=r"400,000,000 pixels.*limit of 399,999,999.*max_pixels"):
        check_size(facts, 399_999_999)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"BM" + bytes(40),
        b"RIFF\x40\0\0\0WEBPVP8?" + bytes(40),
        b"\xff\xd8\xff\xd9" + bytes(40),
        b"\xff\xd8\xff\xe0\x00\x01" + bytes(40),
        b"GIF89a" + bytes(7) + b";",
        png_with(saved(SCENE, "PNG"), b"acTL", b"")[:16] + bytes(8) + saved(SCENE, "PNG")[24:],
    ],
)
def test_headers_without_sense_are_picture_errors(data: bytes) -> None:
    with pytest.raises(PictureError):
        read_facts(data)


def test_a_height_that_comes_later_is_refused() -> None:
    data = bytearray(jpeg())
    at = read_facts(data).frame + 5
    data[at : at + 2] = b"\0\0"
    with pytest.raises(UnsupportedPictureError, match="DNL"):
        read_facts(data)


@pytest.mark.parametrize("junk", [b"\xff\xfe\0\x02", b"\xff\0", b"\0", b"\xff\xd0", b"\xff"])
def test_a_megabyte_of_junk_before_the_picture_takes_no_time(junk: bytes) -> None:
    # The time limit of the test run is the assertion: anything quadratic would take hours.
    data = jpeg()
    odd = with_segment(data, 0xFE, b"", after=junk * (1_000_000 // len(junk)))
    assert read_facts(memoryview(odd)).width == 120

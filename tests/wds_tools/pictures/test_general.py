"""What each kind of picture must become in RGB, whatever its format."""

from __future__ import annotations

import io
import struct
import sys
import tracemalloc
import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from tests.wds_tools.pictures.made import by_pillow, jpeg, png_chunk, png_with, saved, scene, with_segment
from wds_tools.errors import PictureError, TruncatedPictureError, UnsupportedPictureError
from wds_tools.pictures.decode import Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.options import Pictures

pytestmark = pytest.mark.usefixtures("each_backend")

SCENE = scene(48, 36)
WHITE = (255, 255, 255)


def _png(colour: int, bits: int, rows: bytes, *chunks: tuple[bytes, bytes], width: int, height: int) -> bytes:
    """A PNG of raw rows: Pillow does not write all kinds."""
    size = len(rows) // height
    raw = b"".join(b"\0" + rows[row * size : (row + 1) * size] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_formats_without_loss_come_back_as_they_were(kind: str) -> None:
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    assert np.array_equal(Decoder().decode(saved(SCENE, kind, **options)), SCENE)


@pytest.mark.parametrize("kind", ["WEBP", "AVIF", "GIF"])
def test_formats_with_loss_are_what_pillow_reads(kind: str) -> None:
    data = saved(SCENE, kind)
    assert np.array_equal(Decoder().decode(data), by_pillow(data))


def test_one_shape_whatever_the_mode() -> None:
    image = Image.fromarray(SCENE)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        pixels = image.convert("L").convert(mode) if mode == "I;16" else image.convert(mode)
        decoded = Decoder().decode(saved(pixels, "PNG"), size=(18, 24))
        assert decoded.shape == (18, 24, 3), mode
        assert decoded.dtype == np.dtype(np.uint8), mode


def test_grey_becomes_three_equal_channels() -> None:
    grey = SCENE[:, :, 0]
    decoded = Decoder().decode(saved(grey, "PNG"))
    assert np.array_equal(decoded, np.repeat(grey[:, :, None], 3, axis=2))


def test_one_bit_becomes_black_and_white() -> None:
    bits = SCENE[:, :, 0] > 120
    assert np.array_equal(Decoder().decode(saved(bits, "PNG"))[:, :, 1], np.where(bits, 255, 0))


@pytest.mark.parametrize("order", ["I;16", "I;16B"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped(order: str) -> None:
    levels = np.arange(256, dtype=np.uint16).reshape(16, 16) * 257
    png = saved(levels, "PNG")
    tiff = saved(
        Image.frombytes(order, (16, 16), levels.astype(">u2" if order == "I;16B" else "<u2").tobytes()), "TIFF"
    )
    pgm = b"P5 16 16 65535\n" + levels.astype(">u2").tobytes()
    for data in (png, tiff, pgm):
        assert np.array_equal(Decoder().decode(data)[:, :, 0], levels // 257)


def test_sixteen_bit_rgb_is_scaled() -> None:
    levels = np.stack([np.arange(256, dtype=np.uint16).reshape(16, 16) * 257] * 3, -1)
    data = _png(2, 16, levels.astype(">u2").tobytes(), width=16, height=16)
    assert np.array_equal(Decoder().decode(data), levels // 257)


@pytest.mark.parametrize("background", [WHITE, (10, 200, 30)])
def test_transparent_pixels_show_the_background(background: tuple[int, int, int]) -> None:
    decoder = Decoder(Pictures(background=background))
    hidden = np.zeros((8, 8, 4), np.uint8)
    hidden[:, :, :3] = (255, 0, 255)
    hidden[4:, :, 3] = 255
    palette = Image.fromarray(hidden[:, :, :3]).quantize(2)
    datas = {
        "RGBA": saved(hidden, "PNG"),
        "WebP": saved(hidden, "WEBP", lossless=True),
        "LA": saved(hidden[:, :, 2:], "PNG"),
        "palette": saved(palette, "PNG", transparency=bytes([0] * 256)),
        "key in RGB": saved(hidden[:, :, :3], "PNG", transparency=(255, 0, 255)),
        "key in grey": saved(hidden[:, :, 2], "PNG", transparency=255),
        "GIF": saved(palette, "GIF", transparency=palette.getpixel((0, 0))),
        "key in 16-bit grey": _png(0, 16, b"\x12\x34" * 64, (b"tRNS", b"\x12\x34"), width=8, height=8),
        "key in 2-bit grey": _png(0, 2, b"\xaa" * 16, (b"tRNS", b"\0\x02"), width=8, height=8),
        "key in 1-bit grey": _png(0, 1, b"\xff" * 8, (b"tRNS", b"\0\x01"), width=8, height=8),
    }
    for name, data in datas.items():
        decoded = decoder.decode(data)
        assert (decoded[:4] == background).all(), name
    for name in ("RGBA", "WebP"):
        assert (decoder.decode(datas[name])[4:] == (255, 0, 255)).all()


def test_half_transparent_pixels_are_blended() -> None:
    half = np.full((4, 4, 4), (100, 0, 0, 128), np.uint8)
    decoded = Decoder(Pictures(background=(0, 0, 200))).decode(saved(half, "PNG"))
    assert np.abs(decoded.astype(int) - (50, 0, 100)).max() <= 1


def test_hidden_colours_do_not_bleed_when_resized() -> None:
    pixels = np.full((32, 32, 4), (255, 255, 255, 255), np.uint8)
    pixels[::2] = (255, 0, 0, 0)
    assert (Decoder().decode(saved(pixels, "PNG"), size=(11, 11)) == 255).all()


def _without_adobe(data: bytes) -> bytes:
    at = data.index(b"\xff\xee")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]


@pytest.mark.parametrize("colour", [(0, 255, 255, 0), (255, 0, 0, 30), (0, 0, 0, 255), (0, 0, 0, 0)])
def test_cmyk_is_what_pillow_makes_of_it(colour: tuple[int, int, int, int]) -> None:
    data = saved(Image.new("CMYK", (16, 16), colour), "JPEG")
    for one in (data, _without_adobe(data), data.replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\x02")):
        decoded = Decoder().decode(one, box=Box(2, 2, 12, 12))
        assert np.abs(decoded.astype(int) - by_pillow(one)[2:14, 2:14]).max() <= 3
    assert np.abs(Decoder().decode(data).astype(int) - by_pillow(data)).max() <= 3


def test_cmyk_tiff() -> None:
    data = saved(Image.fromarray(SCENE).convert("CMYK"), "TIFF")
    assert np.array_equal(Decoder().decode(data), by_pillow(data))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_animated_pictures_give_their_first_frame(kind: str) -> None:
    first, second = Image.fromarray(SCENE).quantize(16), Image.fromarray(255 - SCENE)
    frames = [first.convert("RGB"), second]
    data = saved(
        frames[0], kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    decoded = Decoder().decode(data)
    assert decoded.shape == SCENE.shape
    assert np.abs(decoded.astype(int) - np.asarray(first.convert("RGB"))).mean() < 2


@pytest.mark.parametrize(
    ("image", "words"),
    [(Image.new("F", (4, 4)), "floating point"), (Image.new("I", (4, 4)), "32-bit whole numbers")],
)
def test_pixels_without_a_known_white_are_refused(image: Image.Image, words: str) -> None:
    with pytest.raises(UnsupportedPictureError, match=words):
        Decoder().decode(saved(image, "TIFF"))


@pytest.mark.parametrize(("bits", "marker"), [(12, 0xC1), (8, 0xC5), (8, 0xCB)])
def test_jpegs_that_nothing_reads_are_refused_by_name(bits: int, marker: int) -> None:
    data = bytearray(jpeg())
    frame = read_facts(data).frame
    data[frame + 1], data[frame + 4] = marker, bits
    with pytest.raises(UnsupportedPictureError, match=rf"JPEG picture of {bits} bits"):
        Decoder().decode(data)


def test_lossless_jpegs_and_odd_channel_numbers_are_picture_errors() -> None:
    data = bytearray(jpeg())
    frame = read_facts(data).frame
    data[frame + 1] = 0xC3
    with pytest.raises(PictureError, match="JPEG"):
        Decoder().decode(data)
    data[frame + 1], data[frame + 9] = 0xC0, 2
    with pytest.raises(PictureError, match="JPEG"):
        Decoder().decode(data)


@pytest.mark.parametrize(
    ("module", "data", "words"),
    [
        ("pillow_heif", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC.*pip install pillow-heif"),
        ("pillow_jxl", b"\xff\x0a" + bytes(20), "JXL.*pip install pillow-jxl-plugin"),
    ],
)
def test_a_format_without_reader_names_its_package(
    module: str, data: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wds_tools.pictures import plugins

    for loaded in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    plugins._plugin.cache_clear()
    with pytest.raises(UnsupportedPictureError, match=words):
        Decoder().decode(data)


def test_text_that_inflates_to_gigabytes_is_never_inflated() -> None:
    bomb = b"Comment\0\0" + zlib.compress(bytes(80 << 20), 9)
    profile = b"icc\0\0" + zlib.compress(bytes(50 << 20), 9)
    plain = saved(SCENE, "PNG")
    data = png_with(png_with(plain, b"zTXt", bomb), b"iCCP", profile)
    decoder = Decoder(Pictures(icc="srgb"))
    decoder.decode(plain)
    tracemalloc.start()
    assert np.array_equal(decoder.decode(data), SCENE)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert decoder.notes == {"icc profile ignored": 1}


def test_a_limit_above_pillows_neither_warns_nor_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    decoder = Decoder(Pictures(max_pixels=48 * 36))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("JPEG", "PNG", "BMP", "TIFF", "AVIF", "PPM", "GIF", "JPEG2000"):
            data = saved(SCENE, kind)
            assert decoder.decode(data, box=Box(1, 1, 40, 30)).shape == (30, 40, 3), kind
            assert decoder.decode_mask(data).shape[:2] == (36, 48)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000"])
def test_other_formats_cut_in_half_are_picture_errors(kind: str) -> None:
    data = saved(scene(200, 150), kind)
    with pytest.raises(PictureError, match=kind if kind != "JPEG2000" else "JPEG"):
        Decoder().decode(data[: len(data) // 2])


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_png_and_webp_cut_below_the_crop_are_truncated(kind: str) -> None:
    data = saved(scene(200, 150), kind)
    for length in (len(data) // 2, len(data) - 60, len(data) - 2):
        with pytest.raises(TruncatedPictureError, match="cut off"):
            Decoder().decode(data[:length], box=Box(0, 0, 10, 10))


def test_masks_keep_their_values() -> None:
    decoder = Decoder()
    labels = np.random.default_rng(0).integers(0, 21, (30, 40)).astype(np.uint8)
    palette = Image.fromarray(labels)
    palette.putpalette(np.random.default_rng(1).integers(0, 256, 768).astype(np.uint8).tobytes())
    wide = labels.astype(np.uint16) * 3000
    for picture, wanted in (
        (Image.fromarray(labels), labels),
        (palette, labels),
        (Image.fromarray(wide), wide),
        (Image.fromarray(labels > 9), (labels > 9).astype(np.uint8)),
        (Image.fromarray(np.dstack([labels] * 3)), np.dstack([labels] * 3)),
    ):
        data = saved(picture, "PNG")
        mask = decoder.decode_mask(data)
        assert mask.dtype == wanted.dtype
        assert np.array_equal(mask, wanted)
        assert np.array_equal(decoder.decode_mask(data, box=Box(5, 6, 20, 10), flip=True), wanted[6:16, 5:25][:, ::-1])
        small = decoder.decode_mask(data, box=Box(5, 6, 20, 10), size=(5, 10))
        assert np.array_equal(small, wanted[7:16:2, 6:25:2])
    transparent = decoder.decode_mask(saved(palette, "PNG", transparency=3))
    assert np.array_equal(transparent, labels)


def test_masks_are_turned_like_pictures() -> None:
    from tests.wds_tools.pictures.made import exif_block

    labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    data = saved(labels, "PNG", exif=exif_block(6))
    assert np.array_equal(Decoder().decode_mask(data), np.rot90(labels, -1))
    assert np.array_equal(Decoder(Pictures(orient=False)).decode_mask(data), labels)


def test_sixteen_bit_tiff_masks_of_either_byte_order() -> None:
    labels = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000
    data = saved(Image.frombytes("I;16B", (4, 3), labels.astype(">u2").tobytes()), "TIFF")
    mask = Decoder().decode_mask(data)
    assert mask.dtype == np.dtype(np.uint16)
    assert mask.dtype.isnative
    assert np.array_equal(mask, labels)


def _profile(space: str) -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()  # type: ignore[arg-type]


def _swapped() -> bytes:
    """An sRGB profile whose red and blue primaries have changed places: wide gamut, as far as tests can see."""
    profile = _profile("sRGB")
    count = struct.unpack_from(">I", profile, 128)[0]
    entries = [profile[132 + 12 * place : 144 + 12 * place] for place in range(count)]
    names = {b"rXYZ": b"bXYZ", b"bXYZ": b"rXYZ"}
    table = b"".join(names.get(entry[:4], entry[:4]) + entry[4:] for entry in entries)
    return profile[:132] + table + profile[132 + 12 * count :]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_profiles_are_applied_only_when_asked(kind: str) -> None:
    red = np.full((16, 16, 3), (250, 10, 10), np.uint8)
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {"quality": 95} if kind == "JPEG" else {}
    data = saved(red, kind, icc_profile=_swapped(), **options)
    assert read_facts(data).icc
    ignored = Decoder().decode(data).mean(axis=(0, 1))
    converted = Decoder(Pictures(icc="srgb")).decode(data).mean(axis=(0, 1))
    assert np.abs(ignored - (250, 10, 10)).max() < 3
    assert np.abs(converted - (10, 10, 250)).max() < 8


def test_an_srgb_profile_changes_nothing() -> None:
    data = jpeg(icc_profile=_profile("sRGB"))
    converted = Decoder(Pictures(icc="srgb")).decode(data)
    assert np.abs(converted.astype(int) - Decoder().decode(data)).max() <= 2


@pytest.mark.parametrize(
    "profile",
    [_profile("sRGB")[:200], b"nonsense" * 30, _profile("LAB"), bytes(5 << 20)],
    ids=["cut", "junk", "lab", "huge"],
)
def test_profiles_that_cannot_be_used_are_ignored_and_noted(profile: bytes) -> None:
    decoder = Decoder(Pictures(icc="srgb"))
    data = jpeg(icc_profile=profile) if len(profile) < 1 << 20 else saved(SCENE, "PNG", icc_profile=profile)
    assert np.array_equal(decoder.decode(data), Decoder().decode(data))
    assert decoder.notes["icc profile ignored"] == 1


def test_a_profile_in_parts_is_put_together_in_order() -> None:
    profile = _swapped()
    parts = [profile[:300], profile[300:]]
    data = saved(np.full((16, 16, 3), (250, 10, 10), np.uint8), "JPEG", quality=95)
    for number, part in enumerate(parts, start=1):  # the last one written comes first in the file
        data = with_segment(data, 0xE2, b"ICC_PROFILE\0" + bytes([number, 2]) + part)
    converted = Decoder(Pictures(icc="srgb")).decode(data).mean(axis=(0, 1))
    assert np.abs(converted - (10, 10, 250)).max() < 8


def test_grey_profiles_fit_grey_pictures_only() -> None:
    decoder = Decoder(Pictures(icc="srgb"))
    decoder.decode(saved(SCENE[:, :, 0], "JPEG", icc_profile=_profile("sRGB")))
    assert decoder.notes["icc profile ignored"] == 1


def test_pictures_from_a_stream_of_any_format_share_one_decoder() -> None:
    decoder = Decoder()
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        target = io.BytesIO()
        Image.fromarray(SCENE).save(target, kind)
        assert decoder.decode(target.getbuffer(), size=(9, 12)).shape == (9, 12, 3)


def test_a_tiff_that_claims_more_rows_than_it_has_is_truncated() -> None:
    stream = io.BytesIO()
    Image.fromarray(np.full((64, 64, 3), 200, np.uint8)).save(stream, "TIFF")
    content = bytearray(stream.getvalue())
    (directory,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, directory)
    for at in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from("<H", content, at) == (257,):  # ImageLength
            struct.pack_into("<I", content, at + 8, 500)
    with pytest.raises(TruncatedPictureError, match="before its last row"):
        Decoder().decode(bytes(content))
    assert Decoder().decode(stream.getvalue()).shape == (64, 64, 3)

"""Samples through a Transcoder: what changes, what must not, and what is refused."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageCms, ImageOps, PngImagePlugin

from shardwriter import recode, transcoder
from shardwriter.transcode import Transcode
from shardwriter.transcoder import Transcoder
from tests.wds_tools.pictures.made import exif_block, jpeg, png_with, saved, scene, with_orientation, with_segment
from wds_tools.codec import decode_field
from wds_tools.errors import (
    FieldError,
    FieldRefusedError,
    PictureTooLargeError,
    SampleError,
    TruncatedPictureError,
    UnsupportedPictureError,
    UsageError,
)
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.kernel import Capability, capability
from wds_tools.pictures.metadata import read_metadata

SCENE = scene(96, 64)
GREY = SCENE[:, :, 1]
FORMATS = ("jpg", "webp", "avif", "png", "jxl", "npy")
KINDS = {"jpg": "JPEG", "webp": "WEBP", "avif": "AVIF", "png": "PNG", "jxl": "JXL"}
SOURCES: dict[str, Callable[[], bytes]] = {
    "jpg": lambda: jpeg(96, 64, quality=97),
    "progressive": lambda: jpeg(96, 64, quality=97, progressive=True),
    "png": lambda: saved(SCENE, "PNG"),
    "webp": lambda: saved(SCENE, "WEBP", quality=97),
    "avif": lambda: saved(SCENE, "AVIF", quality=95),
    "jxl": lambda: _jxl(SCENE),
    "gif": lambda: saved(Image.fromarray(SCENE).quantize(250), "GIF"),
    "bmp": lambda: saved(SCENE, "BMP"),
    "tiff": lambda: saved(SCENE, "TIFF"),
    "ppm": lambda: saved(SCENE, "PPM"),
}
needs_kernel = pytest.mark.skipif(not capability().jpeg, reason=capability().missing)


def _jxl(pixels: npt.NDArray[Any], **options: Any) -> bytes:
    pytest.importorskip("pillow_jxl")
    return saved(pixels, "JXL", num_threads=0, **{"quality": 97, **options})


def _one(data: object, field: str = "jpg", **options: Any) -> tuple[str, bytes]:
    """The name and the bytes that a single picture gets."""
    if options.get("to") == "jxl":
        pytest.importorskip("pillow_jxl")
    made = Transcoder(Transcode(**options)).prepare({"__key__": "a", field: data})
    assert made.pop("__key__") == "a"
    ((name, value),) = made.items()
    assert type(value) is bytes
    return name, value


def _seen(name: str, data: bytes) -> npt.NDArray[np.uint8]:
    decoded = decode_field(name, data)
    assert isinstance(decoded, np.ndarray)
    assert (decoded.dtype, decoded.shape[2]) == (np.dtype(np.uint8), 3)
    return decoded


def _psnr(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    assert one.shape == other.shape
    error = np.mean((one.astype(float) - other) ** 2)
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))


def _array(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(_image(data))


def _image(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def _wide_gamut() -> bytes:
    """A profile whose colours are not sRGB's: LAB-free, three swapped primaries are enough to be seen."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    count = struct.unpack_from(">I", profile, 128)[0]
    tags = {profile[132 + 12 * n : 136 + 12 * n].decode(): 132 + 12 * n for n in range(count)}
    red, green = tags["rXYZ"], tags["gXYZ"]
    profile[red + 4 : red + 12], profile[green + 4 : green + 12] = (
        profile[green + 4 : green + 12],
        profile[red + 4 : red + 12],
    )
    return bytes(profile)


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
SWAPPED = _wide_gamut()


# ---- formats


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
def test_each_format_becomes_each_other_and_shows_the_same_picture(source: str, to: Any) -> None:
    data = SOURCES[source]()
    name, made = _one(data, "png" if source == "progressive" else source, to=to)
    assert name == to
    if to != "npy":
        assert read_facts(made).format == {"jpg": "jpeg"}.get(to, to)
    assert _psnr(_seen(name, made), Decoder().decode(data)) > 30


@pytest.mark.parametrize("source", SOURCES)
def test_without_a_format_only_those_that_nobody_trains_on_change(source: str) -> None:
    data = SOURCES[source]()
    name, made = _one(data, source if source != "progressive" else "jpg", resize=32)
    wanted = {"progressive": "jpg", "gif": "png", "bmp": "png", "tiff": "png", "ppm": "png"}.get(source, source)
    assert name == wanted
    assert read_facts(made).format == {"jpg": "jpeg"}.get(wanted, wanted)
    assert _seen(name, made).shape == (32, 48, 3)


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "progressive"])
def test_bytes_are_unchanged_where_nothing_is_to_be_done(source: str) -> None:
    data = SOURCES[source]()
    assert _one(data, source) == (source, data)
    assert _one(data, source, resize=64) == (source, data)
    assert _one(data, source, resize=1000) == (source, data)
    if source in FORMATS:
        assert _one(data, source, to=source, quality=None if source == "png" else 50) == (source, data)


def test_a_field_is_named_by_the_format_and_not_by_what_it_was_called() -> None:
    data = jpeg()
    assert _one(data, "jpeg", to="jpg") == ("jpg", data)
    assert _one(data, "png", to="jpg") == ("jpg", data)
    assert _one(data, "jpeg") == ("jpeg", data)
    assert _one(data, "jpeg", resize=30)[0] == "jpeg"
    assert _one(memoryview(data), "jpg") == ("jpg", data)


def test_jpegs_are_baseline_of_quality_90_and_sampled_two_by_two() -> None:
    _, made = _one(SOURCES["png"](), to="jpg")
    assert made == saved(SCENE, "JPEG", quality=90, subsampling="4:2:0")
    _, coarse = _one(SOURCES["png"](), to="jpg", quality=20)
    assert len(coarse) < len(made) / 2


def test_without_the_kernel_the_same_pixels_come_from_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SOURCES["png"]()
    _, mine = _one(data, to="jpg")
    monkeypatch.setattr(recode, "capability", lambda: Capability(False, False, "", "not built"))
    _, theirs = _one(data, to="jpg")
    assert np.array_equal(_array(mine), _array(theirs))


def test_npy_is_three_channels_behind_a_header_of_one_size() -> None:
    for data in (jpeg(96, 64), saved(GREY, "PNG"), saved(np.dstack([SCENE, GREY]), "PNG"), jpeg(1000, 7)):
        name, made = _one(data, to="npy")
        pixels = np.load(io.BytesIO(made), allow_pickle=False)
        assert (name, len(made)) == ("npy", 128 + pixels.size)
        assert pixels.flags.c_contiguous
        assert np.array_equal(pixels, Decoder().decode(data))


# ---- sizes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 150), st.integers(1, 150), st.integers(1, 120), st.booleans())
def test_the_shorter_side_is_what_was_asked_for_and_never_more(width: int, height: int, resize: int, up: bool) -> None:
    data = saved(scene(width, height), "PPM")
    _, made = _one(data, "ppm", to="png", resize=resize, enlarge=up)
    facts, short = read_facts(made), min(width, height)
    assert min(facts.width, facts.height) == (resize if up else min(short, resize))
    assert max(facts.width, facts.height) == max(1, round(max(width, height) * min(facts.width, facts.height) / short))


@pytest.mark.parametrize("to", ["jpg", "png"])
def test_resizing_is_antialiased_as_pillow_does_it(to: Any) -> None:
    pixels = scene(300, 200)
    name, made = _one(saved(pixels, "PNG"), "png", to=to, resize=64, **({"quality": 97} if to == "jpg" else {}))
    small = Image.fromarray(pixels).resize((96, 64), Image.Resampling.BILINEAR)
    wanted = _array(saved(small, KINDS[to], **({"quality": 97} if to == "jpg" else {})))
    assert _psnr(_seen(name, made), wanted) > 45


def test_a_picture_that_enlarging_would_make_enormous_is_refused() -> None:
    data = saved(np.zeros((2, 4000), np.uint8), "PNG")
    with pytest.raises(PictureTooLargeError, match=r"4000 x 2 pixels, which would get 1024000 x 512"):
        _one(data, "png", resize=512, enlarge=True)


# ---- turning


@pytest.mark.parametrize("to", [None, "jpg", "png", "webp", "npy"])
@pytest.mark.parametrize("orientation", range(2, 9))
def test_turned_pictures_are_turned_once_and_say_so_no_more(orientation: int, to: Any) -> None:
    data = with_orientation(jpeg(96, 64, quality=97), orientation)
    upright = np.asarray(ImageOps.exif_transpose(_image(data)).convert("RGB"))
    for metadata in ("strip", "keep"):
        name, made = _one(data, to=to, metadata=metadata)
        assert name == (to or "jpg")
        assert _psnr(_seen(name, made), upright) > 30
        if to != "npy":
            assert read_facts(made).orientation == 1
            assert _psnr(np.asarray(ImageOps.exif_transpose(_image(made)).convert("RGB")), upright) > 30


@pytest.mark.parametrize("orientation", [3, 6])
def test_turned_pictures_are_measured_as_they_are_seen(orientation: int) -> None:
    _, made = _one(with_orientation(jpeg(96, 64), orientation), resize=32)
    assert _image(made).size == ((32, 48) if orientation == 6 else (48, 32))


# ---- kinds of pixels


@pytest.mark.parametrize("to", ["jpg", "png", "avif", "jxl"])
@pytest.mark.parametrize("kind", ["jpg", "png", "bits", "sixteen", "pgm"])
def test_grey_stays_grey_where_the_format_has_it(kind: str, to: Any) -> None:
    data = {
        "jpg": lambda: saved(GREY, "JPEG", quality=97),
        "png": lambda: saved(GREY, "PNG"),
        "bits": lambda: saved(Image.fromarray(GREY > 100), "PNG"),
        "sixteen": lambda: saved(GREY.astype(np.uint16) * 257, "PNG"),
        "pgm": lambda: saved(GREY, "PPM"),
    }[kind]()
    name, made = _one(data, to=to, resize=32)
    assert _image(made).mode == "L"
    assert _psnr(_seen(name, made), Decoder().decode(data, size=(32, 48))) > 30


@pytest.mark.parametrize("to", FORMATS)
def test_sixteen_bits_are_scaled_and_never_clipped(to: Any) -> None:
    data = saved(np.linspace(0, 65535, 96 * 64).astype(np.uint16).reshape(64, 96), "PNG")
    name, made = _one(data, to=to, resize=63)
    pixels = _seen(name, made)
    assert (pixels[0, 0, 0] < 12, pixels[-1, -1, 0] > 243) == (True, True)


@pytest.mark.parametrize("to", FORMATS)
def test_cmyk_becomes_rgb(to: Any) -> None:
    data = saved(Image.fromarray(SCENE).convert("CMYK"), "JPEG", quality=97)
    name, made = _one(data, to=to, resize=60)
    assert _psnr(_seen(name, made), Decoder().decode(data, size=(60, 90))) > 30
    assert to == "npy" or read_facts(made).mode in {"RGB", "RGBA"}
    assert _one(data, to="jpg") == ("jpg", data)


def _clear() -> npt.NDArray[np.uint8]:
    """Opaque on the left, clear on the right, where a glaring colour is hidden."""
    pixels = np.dstack([SCENE, np.full((64, 96), 255, np.uint8)])
    pixels[:, 48:] = (255, 0, 255, 0)
    return pixels


@pytest.mark.parametrize("resize", [None, 32])
@pytest.mark.parametrize("to", ["webp", "avif", "png", "jxl"])
def test_transparency_is_kept_where_the_format_has_it(to: Any, resize: int | None) -> None:
    _, made = _one(saved(_clear(), "TIFF"), "tiff", to=to, resize=resize)
    image = _image(made)
    alpha = np.asarray(image.getchannel("A"))
    middle = alpha.shape[1] // 2
    assert image.mode == "RGBA"
    assert (alpha[:, : middle - 2].min() > 240, alpha[:, middle + 2 :].max() < 15) == (True, True)
    assert _psnr(Decoder().decode(made), Decoder().decode(saved(_clear(), "PNG"), size=alpha.shape)) > 25


@pytest.mark.parametrize("to", FORMATS)
def test_a_background_is_blended_wherever_one_is_named_and_white_where_it_must_be(to: Any) -> None:
    data = saved(_clear(), "PNG")
    for background in [(0, 0, 200)] + [None] * (to in {"jpg", "npy"}):
        name, made = _one(data, "png", to=to, background=background)
        pixels = _seen(name, made)
        assert to == "npy" or not _image(made).has_transparency_data
        assert np.abs(pixels[:, 52:].astype(int) - (background or (255, 255, 255))).max() < 12
    assert _one(saved(SCENE, "PNG"), "png", background=(0, 0, 200))[1] == saved(SCENE, "PNG")


def test_alpha_that_is_opaque_everywhere_is_dropped() -> None:
    opaque = np.dstack([SCENE, np.full((64, 96), 255, np.uint8)])
    assert _image(_one(saved(opaque, "PNG"), "png", to="webp")[1]).mode == "RGB"


def test_grey_with_alpha_stays_so_in_png_and_colours_that_show_through_make_it_rgb() -> None:
    data = saved(np.dstack([GREY, GREY]), "PNG")
    assert _image(_one(data, "png", resize=32)[1]).mode == "LA"
    assert _image(_one(data, "png", to="webp")[1]).mode == "RGBA"
    assert _image(_one(data, "png", to="jpg", background=(9, 9, 9))[1]).mode in {"L", "RGB"}
    assert _image(_one(data, "png", to="jpg", background=(255, 0, 0))[1]).mode == "RGB"


# ---- colour profiles


@pytest.mark.parametrize("to", [None, "png", "webp", "npy"])
def test_colours_of_another_profile_become_srgb(to: Any) -> None:
    data = saved(SCENE, "JPEG", quality=97, icc_profile=SWAPPED)
    name, made = _one(data, to=to)
    swapped = ImageCms.profileToProfile(_image(data), io.BytesIO(SWAPPED), ImageCms.createProfile("sRGB"))
    assert isinstance(swapped, Image.Image)
    assert _psnr(_seen(name, made), np.asarray(swapped)) > 30
    assert _psnr(_seen(name, made), SCENE) < 20
    assert to == "npy" or not read_facts(made).icc


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_profile_that_is_srgb_costs_no_generation(kind: str) -> None:
    data = saved(SCENE, kind, quality=97, icc_profile=SRGB)
    _, made = _one(data)
    assert not read_facts(made).icc
    assert np.array_equal(_array(made), _array(data))
    assert _one(data, icc="keep")[1] == data


def test_a_profile_that_cannot_be_used_is_left_alone() -> None:
    data = saved(SCENE, "JPEG", icc_profile=b"no profile at all")
    assert np.array_equal(_array(_one(data)[1]), _array(data))


@pytest.mark.parametrize("to", ["jpg", "webp", "png", "avif"])
def test_numbers_and_profile_are_kept_together_where_that_is_asked_for(to: Any) -> None:
    data = saved(SCENE, "TIFF", icc_profile=SWAPPED)
    name, made = _one(data, "tiff", to=to, icc="keep")
    assert _image(made).info["icc_profile"] == SWAPPED
    assert _psnr(_seen(name, made), SCENE) > 30


def test_the_profile_of_cmyk_is_not_said_of_rgb() -> None:
    data = saved(Image.fromarray(SCENE).convert("CMYK"), "JPEG", icc_profile=SRGB[:16] + b"CMYK" + SRGB[20:])
    assert not read_facts(_one(data, to="png", icc="keep")[1]).icc


# ---- metadata


def _exif() -> bytes:
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    exif[0x0112] = 1
    return exif.tobytes()


def _loud(kind: str) -> bytes:
    """A picture that says all it can."""
    if kind == "PNG":
        text = PngImagePlugin.PngInfo()
        text.add_text("Comment", "taken at home")
        return png_with(saved(SCENE, "PNG", pnginfo=text, exif=_exif()), b"tIME", bytes(7)) + b"more"
    options = {"subsampling": 0, "comment": b"taken at home"} if kind == "JPEG" else {}
    return saved(SCENE, kind, quality=97, exif=_exif(), xmp=b"<x:xmpmeta/>", **options) + b"more" * (kind == "JPEG")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_metadata_are_left_out_without_touching_a_pixel(kind: str) -> None:
    data = _loud(kind)
    field = {"JPEG": "jpg"}.get(kind, kind.lower())
    work = Transcoder(Transcode())
    made = work.prepare({field: data})[field]
    assert len(made) < len(data) - 40
    assert np.array_equal(_array(made), _array(data))
    assert not any(word in made for word in (b"camera", b"xmpmeta", b"at home", b"more", b"tIME"))
    assert work.counts == {"metadata left out": 1}
    assert work.prepare({field: made})[field] == made
    assert _one(data, field, metadata="keep")[1] == data


@pytest.mark.parametrize("to", ["jpg", "png", "webp", "avif", "jxl"])
@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF", "PNG"])
def test_metadata_go_along_where_that_is_asked_for(kind: str, to: Any) -> None:
    _, made = _one(_loud(kind), to=to, resize=40, metadata="keep")
    assert _image(made).getexif()[0x010F] == "a camera"
    if kind != "PNG":
        assert read_metadata(made, read_facts(made)).xmp == b"<x:xmpmeta/>" or to == "jxl"
    _, bare = _one(_loud(kind), to=to, resize=40)
    assert b"camera" not in bare


def test_the_preview_of_a_turned_picture_is_left_behind() -> None:
    directory = struct.pack("<HHHII", 1, 0x0103, 3, 1, 6)
    block = exif_block(6)[:-4]
    block += struct.pack("<I", len(block) + 4) + directory + bytes(4)
    data = with_segment(jpeg(96, 64), 0xE1, b"Exif\0\0" + block)
    assert _image(data).getexif().get_ifd(ExifTags.IFD.IFD1) == {0x0103: 6}
    kept = _image(_one(data, metadata="keep")[1]).getexif()
    assert (kept[0x0112], kept.get_ifd(ExifTags.IFD.IFD1)) == (1, {})


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_exif_of_any_bytes_harms_nothing(block: bytes) -> None:
    data = with_segment(jpeg(48, 32), 0xE1, b"Exif\0\0" + block)
    _, made = _one(data, resize=16, metadata="keep")
    assert read_facts(made).orientation == 1


# ---- baseline


@needs_kernel
@pytest.mark.parametrize("metadata", ["strip", "keep"])
@pytest.mark.parametrize("icc", ["srgb", "keep"])
def test_progressive_jpegs_become_baseline_without_loss(metadata: Any, icc: Any) -> None:
    data = jpeg(96, 64, progressive=True, exif=_exif(), icc_profile=SRGB)
    work = Transcoder(Transcode(baseline=True, metadata=metadata, icc=icc))
    made = work.prepare({"jpg": data})["jpg"]
    facts = read_facts(made)
    assert (facts.coding, work.counts) == ("baseline", {"made baseline": 1})
    assert np.array_equal(_array(made), _array(data))
    assert (b"a camera" in made) == (metadata == "keep")
    assert facts.icc == (metadata == "keep" or icc == "keep")
    baseline = jpeg(96, 64)
    assert _one(baseline, baseline=True) == ("jpg", baseline)


def test_baseline_without_the_kernel_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcoder, "capability", lambda: Capability(False, False, "", "it was not built."))
    with pytest.raises(UsageError, match=r"baseline needs the decode kernel\. it was not built"):
        Transcoder(Transcode(baseline=True))


# ---- fields


def test_only_pictures_without_a_dot_are_touched() -> None:
    sample = {
        "__key__": "a/b",
        "__url__": "x.tar",
        "png": saved(SCENE, "PNG"),
        "seg.png": saved(GREY, "PNG"),
        "jpg.gz": b"\x1f\x8b",
        "cls": 3,
        "json": {"a": 1},
        "txt": b"words",
    }
    made = Transcoder(Transcode(to="jpg", resize=20)).prepare(sample)
    assert list(made) == ["__key__", "__url__", "jpg", "seg.png", "jpg.gz", "cls", "json", "txt"]
    assert {name: made[name] for name in made if name != "jpg"} == {n: sample[n] for n in sample if n != "png"}
    assert list(sample)[2] == "png"


def test_fields_that_are_named_are_touched_and_no_others() -> None:
    sample = {"__key__": "a", "a.png": saved(SCENE, "PNG"), "b.png": saved(SCENE, "PNG"), "png": saved(SCENE, "PNG")}
    made = Transcoder(Transcode(to="webp", fields=("a.png", "c.png"))).prepare(sample)
    assert list(made) == ["__key__", "a.webp", "b.png", "png"]
    assert made["png"] is sample["png"]


@pytest.mark.parametrize(
    "values",
    [(np.arange(48) // 8).astype(np.uint8), (np.arange(48) * 1000).astype(np.uint16), np.arange(48) % 2 == 0],
)
def test_masks_are_resized_without_inventing_values(values: npt.NDArray[Any]) -> None:
    mask = np.tile(values, (32, 1))
    sample = {"jpg": jpeg(96, 64), "seg.png": saved(mask, "PNG"), "tiff": saved(mask, "TIFF")}
    made = Transcoder(Transcode(to="webp", resize=16, masks=("seg.png", "tiff"))).prepare(sample)
    assert list(made) == ["webp", "seg.png", "png"]
    for name in ("seg.png", "png"):
        small = Decoder().decode_mask(made[name])
        assert (small.shape, small.dtype) == ((16, 24), np.uint8 if mask.dtype == bool else mask.dtype)
        assert set(np.unique(small)) <= set(np.unique(mask))
    whole = Transcoder(Transcode(to="webp", resize=32, masks=("seg.png", "tiff"))).prepare(sample)
    assert (whole["seg.png"], whole["tiff"]) == (sample["seg.png"], sample["tiff"])


@pytest.mark.parametrize("names", [("jpg", "png"), ("png", "webp"), ("webp", "png")])
def test_two_fields_that_would_get_one_name_are_refused(names: tuple[str, str]) -> None:
    sample = {"__key__": "k", **{name: saved(SCENE, "WEBP" if name == "webp" else "PNG") for name in names}}
    with pytest.raises(FieldError, match=r"both be 'webp' \(key k, field \w+\).*fields="):
        Transcoder(Transcode(to="webp")).prepare(sample)
    chosen = Transcoder(Transcode(to="avif", fields=names[:1])).prepare(sample)
    assert list(chosen) == ["__key__", "avif", names[1]]


@pytest.mark.parametrize(
    "value",
    [SCENE, GREY, np.dstack([SCENE, GREY]), Image.fromarray(SCENE), Image.fromarray(SCENE).convert("P")],
    ids=["rgb", "grey", "alpha", "image", "palette"],
)
@pytest.mark.parametrize("to", [None, "png", "jpg", "npy"])
def test_pixels_are_taken_as_pictures_are(value: Any, to: Any) -> None:
    name, made = _one(value, "jpg", to=to, resize=32)
    assert name == (to or "jpg")
    assert _seen(name, made).shape == (32, 48, 3)


def test_arrays_that_are_no_picture_are_refused() -> None:
    with pytest.raises(FieldRefusedError, match="float"):
        _one(SCENE / 255, "jpg", to="webp")


# ---- failures


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (jpeg()[:-40], TruncatedPictureError, "no end-of-image"),
        (b"", TruncatedPictureError, "0 bytes"),
        (b"<html>", UnsupportedPictureError, "an HTML page"),
        (jpeg(200, 200), PictureTooLargeError, "200 x 200"),
        (b"\xff\x0a" + bytes(20), SampleError, "JXL|JPEG XL"),
    ],
)
@pytest.mark.parametrize("to", [None, "png"])
def test_what_cannot_be_decoded_names_sample_and_field(data: bytes, kind: Any, words: str, to: Any) -> None:
    with pytest.raises(kind, match=words) as caught:
        _one(data, "jpg", to=to, resize=100, max_pixels=30_000)
    assert (caught.value.key, caught.value.field) == ("a", "jpg")


def test_a_side_that_the_format_cannot_state_is_an_error_of_the_sample() -> None:
    for to in ("jpg", "webp"):
        with pytest.raises(SampleError, match="70000 x 1"):
            _one(saved(np.zeros((1, 70_000), np.uint8), "PNG"), "png", to=to)


def test_damage_inside_is_found_where_the_picture_is_decoded() -> None:
    data = bytearray(jpeg(96, 64, restart_marker_blocks=2))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff\xd0" * 20
    with pytest.raises(SampleError, match=r"\(key a, field jpg\)"):
        _one(bytes(data), resize=40)


def test_a_format_that_this_installation_cannot_write_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    with pytest.raises(UsageError, match=r"to is 'jxl'.*pip install pillow-jxl-plugin"):
        Transcoder(Transcode(to="jxl"))


# ---- threads


@pytest.mark.parametrize("to", FORMATS)
def test_the_same_bytes_come_from_any_number_of_threads(to: Any) -> None:
    if to == "jxl":
        pytest.importorskip("pillow_jxl")
    samples = [{"__key__": str(n), "jpg": jpeg(80 + n, 60, quality=97)} for n in range(12)]
    alone = [Transcoder(Transcode(to=to, resize=40)).prepare(sample) for sample in samples]
    for threads in (1, 2, 7):
        shared = Transcoder(Transcode(to=to, resize=40))
        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(shared.prepare, samples)) == alone
        assert shared.counts == {"encoded": 12}


def test_a_transcoder_goes_to_another_process() -> None:
    work = Transcoder(Transcode(to="png", resize=9))
    work.prepare({"jpg": jpeg()})
    again = pickle.loads(pickle.dumps(work))
    assert (again.options, dict(again.counts)) == (work.options, {})
    assert repr(work) == f"Transcoder({work.options!r})"

from __future__ import annotations

import io
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tests.wds_tools.pictures.made import (
    ARITHMETIC,
    FOUR_ONE_ZERO,
    ODD_SAMPLING,
    Pixels,
    by_pillow,
    jpeg,
    saved,
    scene,
    with_orientation,
    with_segment,
)
from wds_tools.errors import PictureError, PictureTooLargeError, TruncatedPictureError, UsageError
from wds_tools.pictures import decode
from wds_tools.pictures.decode import Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.options import Pictures

pytestmark = pytest.mark.usefixtures("each_backend")

PHOTO = (Path(decode.__file__).parents[1] / "photos" / "cat.jpg").read_bytes()
SAME = 2  # grey levels between two builds of libjpeg-turbo; the two that wheels bring today agree in every pixel


def _difference(one: Pixels, other: Pixels) -> tuple[float, int]:
    apart = np.abs(one.astype(int) - other.astype(int))
    return float(apart.mean()), int(apart.max())


def _oracle(data: bytes, box: Box, size: tuple[int, int], *, flip: bool = False) -> Pixels:
    with Image.open(io.BytesIO(data)) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    left, top, wide, high = (int(side) for side in box)
    part = upright.crop((left, top, left + wide, top + high)).resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(part)[:, ::-1] if flip else np.asarray(part)


@pytest.mark.parametrize(
    "data",
    [
        jpeg(subsampling="4:4:4"),
        jpeg(subsampling="4:2:2"),
        jpeg(subsampling="4:2:0"),
        jpeg(progressive=True),
        jpeg(restart_marker_blocks=2),
        jpeg(121, 93, optimize=True),
        jpeg(1, 1),
        jpeg(17, 3),
        saved(scene(50, 40)[:, :, 0], "JPEG"),
        saved(Image.fromarray(scene(50, 40)), "JPEG", keep_rgb=True),
        ARITHMETIC,
        ODD_SAMPLING,
        FOUR_ONE_ZERO,
        PHOTO,
    ],
)
def test_a_whole_jpeg_is_what_pillow_makes_of_it(data: bytes) -> None:
    assert _difference(Decoder().decode(data), by_pillow(data))[1] <= SAME


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_crop_without_resizing_is_part_of_the_whole_picture(drawn: st.DataObject) -> None:
    kind = drawn.draw(st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]))
    data = jpeg(drawn.draw(st.integers(1, 90)), drawn.draw(st.integers(1, 90)), subsampling=kind)
    decoder = Decoder()
    whole = decoder.decode(data)
    high, wide, _ = whole.shape
    left, top = drawn.draw(st.integers(0, wide - 1)), drawn.draw(st.integers(0, high - 1))
    box = Box(left, top, drawn.draw(st.integers(1, wide - left)), drawn.draw(st.integers(1, high - top)))
    part = decoder.decode(data, box=box)
    assert np.array_equal(part, whole[top : top + int(box.height), left : left + int(box.width)])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_resized_crop_is_pillows_crop_and_resize(drawn: st.DataObject) -> None:
    data = drawn.draw(st.sampled_from([PHOTO, jpeg(200, 150), saved(scene(120, 160), "PNG"), _grey()]))
    facts = read_facts(data)
    wide, high = drawn.draw(st.integers(8, facts.width)), drawn.draw(st.integers(8, facts.height))
    left, top = drawn.draw(st.integers(0, facts.width - wide)), drawn.draw(st.integers(0, facts.height - high))
    size = (drawn.draw(st.integers(high // 2 + 1, high + 9)), drawn.draw(st.integers(wide // 2 + 1, wide + 9)))
    flip = drawn.draw(st.booleans())
    box = Box(left, top, wide, high)
    part = Decoder().decode(data, facts=facts, box=box, size=size, flip=flip)
    assert _difference(part, _oracle(data, box, size, flip=flip))[1] <= SAME


def _grey() -> bytes:
    return saved(scene(150, 110)[:, :, 1], "JPEG")


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_a_reduced_decode_is_close_to_pillows_resize(scale: int) -> None:
    box = Box(40, 30, 520, 500)
    size = (500 // scale, 520 // scale)
    mean, largest = _difference(Decoder().decode(PHOTO, box=box, size=size), _oracle(PHOTO, box, size))
    # Measured on this photograph: mean 0.8 to 0.9, at most 34; on the 24 photographs: mean 2.1 to 2.5, at most 65,
    # since a reduced decode averages over a narrower window than the filter, and so keeps more of the detail.
    assert mean < 2
    assert largest < 60


@pytest.mark.parametrize("scale", [1, 2, 4, 8])
@pytest.mark.parametrize("data", [FOUR_ONE_ZERO, ODD_SAMPLING, jpeg(64, 48, subsampling="4:2:2"), jpeg(64, 48)])
def test_a_part_of_a_reduced_picture_is_part_of_the_reduced_whole(data: bytes, scale: int) -> None:
    # Of colour sampled 4 x 2, decoded at half the size and cropped, libjpeg-turbo 2.1 gives other columns.
    decoder = Decoder()
    facts = read_facts(data)
    wide, high = facts.width // scale, facts.height // scale
    whole = decoder.decode(data, size=(high, wide))
    for left, top in ((0, 0), (1, 1), (wide // 3, high // 2), (wide - 2, 0)):
        box = Box(left * scale, top * scale, (wide - left) * scale, (high - top) * scale)
        part = decoder.decode(data, box=box, size=(high - top, wide - left))
        assert _difference(part, whole[top:, left:])[1] <= SAME


def test_a_part_of_a_jpeg_without_its_last_scans_is_part_of_the_whole() -> None:
    # libjpeg smooths its blocks by their neighbours. A scan begins with ff da, and here are ten.
    data = jpeg(200, 160, progressive=True, quality=60)
    begins = [place for place in range(len(data)) if data[place : place + 2] == b"\xff\xda"]
    data = data[: begins[3]] + b"\xff\xd9"
    decoder = Decoder()
    whole = decoder.decode(data)
    assert _difference(whole, by_pillow(data))[1] <= SAME
    for left in (1, 17, 33, 100):
        part = decoder.decode(data, box=Box(left, 20, 57, 70))
        assert _difference(part, whole[20:90, left : left + 57])[1] <= SAME


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("flip", [False, True])
def test_crops_of_turned_pictures_are_crops_of_the_upright_picture(orientation: int, flip: bool) -> None:
    plain = jpeg(80, 40)
    block = with_orientation(plain, orientation)
    png = saved(scene(80, 40), "PNG", exif=_exif(orientation))
    tiff = saved(scene(80, 40), "TIFF", tiffinfo={274: orientation})
    for data in (block, png, tiff):
        decoder = Decoder()
        wide, high = decoder.size(read_facts(data))
        assert (wide, high) == ((40, 80) if orientation > 4 else (80, 40))
        for box in (Box(0, 0, wide, high), Box(3, 5, 20, 30), Box(wide - 21, high - 7, 21, 7)):
            for size in ((int(box.height), int(box.width)), (int(box.height * 0.7), int(box.width) + 5)):
                part = decoder.decode(data, box=box, size=size, flip=flip)
                assert _difference(part, _oracle(data, box, size, flip=flip))[1] <= SAME


def _exif(orientation: int) -> bytes:
    from tests.wds_tools.pictures.made import exif_block

    return exif_block(orientation)


@pytest.mark.parametrize("orientation", [0, 1, 6, 9])
def test_pictures_stay_as_they_are_stored_when_asked(orientation: int) -> None:
    decoder = Decoder(Pictures(orient=False))
    for data in (
        with_orientation(jpeg(80, 40), orientation),
        saved(scene(80, 40), "TIFF", tiffinfo={274: orientation or 1}),
    ):
        assert decoder.size(read_facts(data)) == (80, 40)
        stored = decoder.decode(data)
        assert stored.shape == (40, 80, 3)
        assert _difference(stored, scene(80, 40))[0] < 4


def test_pixels_outside_the_box_do_not_count() -> None:
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[16:48, 16:48] = 200
    for kind in ("PNG", "BMP"):
        part = Decoder().decode(saved(pixels, kind), box=Box(16, 16, 32, 32), size=(9, 9))
        assert (part == 200).all()


def test_a_box_may_have_fractions_and_stand_over_by_a_hair() -> None:
    decoder = Decoder()
    data = jpeg(100, 80)
    part = decoder.decode(data, box=Box(-1e-7, 10.25, 100 + 1e-6, 50.5), size=(30, 60))
    with Image.open(io.BytesIO(data)) as image:
        cut = image.convert("RGB").crop((0, 10, 100, 61))
        wanted = cut.resize((60, 30), Image.Resampling.BILINEAR, (0, 0.25, 100, 50.75))
    assert _difference(part, np.asarray(wanted))[1] <= SAME


@pytest.mark.parametrize(
    "box", [Box(-1, 0, 5, 5), Box(0, 0, 101, 5), Box(96, 0, 5, 5), Box(0, 76, 5, 5), Box(5, 5, 0, 5), Box(5, 5, 5, -1)]
)
def test_a_box_outside_the_picture_is_refused(box: Box) -> None:
    with pytest.raises(UsageError, match="100 x 80"):
        Decoder().decode(jpeg(100, 80), box=box)


@pytest.mark.parametrize("data", [jpeg(100, 80), saved(scene(100, 80), "PNG"), saved(scene(100, 80)[:, :, 0], "PNG")])
def test_pixels_land_in_the_memory_that_is_given(data: bytes) -> None:
    decoder = Decoder()
    wanted = decoder.decode(data, size=(20, 30))
    slab = np.zeros((3, 20, 30, 3), np.uint8)
    returned = decoder.decode(data, size=(20, 30), out=slab[1])
    assert returned.base is slab or np.shares_memory(returned, slab)
    assert np.array_equal(slab[1], wanted)
    assert not slab[0].any()
    assert not slab[2].any()
    channels_first = np.zeros((3, 20, 30), np.uint8)
    decoder.decode(data, size=(20, 30), out=channels_first.transpose(1, 2, 0))
    assert np.array_equal(channels_first, wanted.transpose(2, 0, 1))


def test_memory_of_another_shape_or_kind_is_refused() -> None:
    for out in (np.zeros((20, 31, 3), np.uint8), np.zeros((20, 30), np.uint8), np.zeros((20, 30, 3), np.float32)):
        with pytest.raises(UsageError, match=r"uint8 \(20, 30, 3\)"):
            Decoder().decode(jpeg(), size=(20, 30), out=out)  # type: ignore[arg-type]


def test_results_stay_as_they_are_when_the_decoder_goes_on() -> None:
    decoder = Decoder()
    first = decoder.decode(jpeg())
    kept = first.copy()
    for data in (jpeg(300, 200), jpeg(20, 20), _grey()):
        decoder.decode(data)
    assert np.array_equal(first, kept)


def test_one_decoder_gives_the_same_as_a_fresh_one() -> None:
    decoder = Decoder()
    datas = [PHOTO, jpeg(31, 77), _grey(), saved(scene(60, 50), "WEBP"), jpeg(progressive=True), ODD_SAMPLING]
    for _ in range(2):
        for data in datas:
            assert np.array_equal(decoder.decode(data, size=(24, 24)), Decoder().decode(data, size=(24, 24)))


def test_threads_with_a_decoder_each_agree() -> None:
    datas = [jpeg(200 + step, 150, subsampling=kind) for step, kind in enumerate(["4:4:4", "4:2:0", "4:2:2"] * 4)]
    wanted = [Decoder().decode(data, size=(50, 60)) for data in datas]
    failed: list[int] = []

    def work() -> None:
        decoder = Decoder()
        for _ in range(5):
            for place, data in enumerate(datas):
                if not np.array_equal(decoder.decode(data, size=(50, 60)), wanted[place]):
                    failed.append(place)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_decoder_pickles_with_its_options() -> None:
    decoder = Decoder(Pictures(orient=False))
    decoder.decode(jpeg())
    assert pickle.loads(pickle.dumps(decoder)).options == decoder.options
    assert pickle.loads(pickle.dumps(Decoder(backend="pillow"))).backend == "pillow"


@pytest.mark.parametrize("fraction", [0.3, 0.6, 0.95])
def test_a_truncated_jpeg_is_refused_even_where_the_crop_lies_above_the_cut(fraction: float) -> None:
    data = jpeg(200, 200)
    with pytest.raises(TruncatedPictureError):
        Decoder().decode(data[: int(len(data) * fraction)], box=Box(0, 0, 16, 16))


def test_damage_in_the_decoded_part_is_refused(each_backend: str) -> None:
    if each_backend == "pillow":
        pytest.skip("Pillow does not tell of damage that libjpeg warns of")
    data = bytearray(jpeg(200, 200))
    middle = (read_facts(data).scan + len(data)) // 2
    data[middle : middle + 2] = b"\xff\xd9"  # the rest of the rows is missing, though the file has its end
    with pytest.raises(PictureError, match=r"JPEG picture with damaged data.*[Pp]remature end"):
        Decoder().decode(data)
    with pytest.raises(PictureError, match="JPEG picture with damaged data"):
        Decoder().decode(data, box=Box(0, 150, 30, 30))


def test_harmless_oddities_are_not_held_against_a_picture() -> None:
    plain = jpeg(80, 60)
    wanted = Decoder().decode(plain)
    for data in (
        plain[:-2] + bytes(10) + plain[-2:],
        plain + b"trailing",
        with_segment(plain, 0xFE, b"a comment", after=b"junk between segments"),
        with_segment(plain, 0xEE, b"Adobe\0\x64\0\0\0\0\x07"),
        plain[:2] + plain[2:].replace(b"JFIF\0\x01", b"JFIF\0\x09", 1),
    ):
        decoder = Decoder()
        decoder.decode(jpeg(99, 99, subsampling="4:4:4"))  # so that pixels of an earlier picture would show
        assert np.array_equal(decoder.decode(data), wanted)
        assert np.array_equal(decoder.decode(data, box=Box(5, 0, 40, 16)), wanted[:16, 5:45])


def test_more_pixels_than_the_limit_are_refused_before_anything_is_allocated() -> None:
    data = bytearray(jpeg())
    at = read_facts(data).frame + 5
    data[at : at + 4] = b"\xff\xdc\xff\xdc"  # 65,500 x 65,500 pixels and little data
    with pytest.raises(PictureTooLargeError, match=r"65500 x 65500.*max_pixels"):
        Decoder().decode(data)
    png = bytearray(saved(scene(8, 8)[:, :, 0] > 9, "PNG"))
    png[16:24] = (20_000).to_bytes(4, "big") * 2
    with pytest.raises(PictureTooLargeError, match="400,000,000"):
        Decoder().decode(png)
    small = Decoder(Pictures(max_pixels=120 * 90 - 1))
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM"):
        with pytest.raises(PictureTooLargeError, match="120 x 90"):
            small.decode(saved(scene(120, 90), kind))
    Decoder(Pictures(max_pixels=120 * 90)).decode(jpeg())


def test_all_backends_follow_the_same_scale() -> None:
    boxes = [(Box(0, 0, 520, 500), (224, 224)), (Box(10, 20, 500, 460), (60, 60)), (Box(3, 3, 300, 300), (224, 224))]
    for box, size in boxes:
        wanted = Decoder(backend="pillow").decode(PHOTO, box=box, size=size)
        assert _difference(Decoder().decode(PHOTO, box=box, size=size), wanted)[1] <= SAME


def test_backends_have_short_names(each_backend: str) -> None:
    names = {decode.named(backend) for backend in decode.BACKENDS}
    assert max(map(len, [decode.BACKEND, *names])) <= 20
    assert (each_backend == "kernel") == (decode.named(decode.BACKENDS[0]) in {"kernel+pillow", "simplejpeg+kernel"})
    assert decode.named("pillow") == "pillow"
    assert decode.named("simplejpeg") == "simplejpeg+pillow"


def test_a_backend_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BACKENDS", ("pillow",))
    with pytest.raises(UsageError, match="no backend 'kernel' here but pillow"):
        Decoder(backend="kernel")
    with pytest.raises(UsageError, match="no backend 'cv2'"):
        Decoder(backend="cv2")  # type: ignore[arg-type]


def test_decoding_wakes_no_warning_and_leaves_pillow_as_it_is() -> None:
    before: dict[str, Any] = {name: getattr(Image, name) for name in ("MAX_IMAGE_PIXELS", "WARN_POSSIBLE_FORMATS")}
    clear = Image.fromarray(scene(30, 20)).quantize(8)
    Decoder().decode(saved(clear, "PNG", transparency=bytes(8)))
    damaged_exif = with_segment(jpeg(), 0xE1, b"Exif\0\0II*\0\x08\0\0\0\xff\xff")
    Decoder().decode(damaged_exif)
    assert before == {name: getattr(Image, name) for name in before}

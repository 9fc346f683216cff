"""Troubles with pictures (B05 to B68, as docs/troubles.md numbers them): every backend, and the loader over a shard."""

from __future__ import annotations

import io
import json
import tracemalloc
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

import loaders
from loaders import CenterCrop, Mask, Pictures, ShardLoader
from shardwriter import pack
from tests.builders import picture, write_shard
from tests.cases import inputs_pictures as inputs
from tests.wds_tools.pictures.made import by_pillow, saved, scene
from wds_tools.errors import (
    BatchError,
    PictureError,
    PictureTooLargeError,
    UnsupportedPictureError,
)
from wds_tools.pictures.decode import BACKENDS, Backend, Box, Decoder
from wds_tools.pictures.facts import read_facts

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def shard(folder: Path, pictures: Iterable[bytes], *, field: str = "jpg") -> str:
    """One shard of these pictures, numbered."""
    rows = [(f"{n:03d}", {field: data, "cls": str(n).encode()}) for n, data in enumerate(pictures)]
    return str(write_shard(folder / "p.tar", rows))


def batches(urls: str, **options: Any) -> list[Any]:
    with ShardLoader(urls, **{"batch_size": 8, "image": CenterCrop(16), "threads": 2, **options}) as loader:
        return list(loader)


# B05


@each_backend
@pytest.mark.parametrize("data", {**inputs.cut_jpegs(), **inputs.cut_pngs()}.items(), ids=lambda item: item[0])
def test_b05_all_backends_refuse_a_picture_that_was_cut(data: tuple[str, bytes], backend: Backend) -> None:
    """Also for a crop that lies above the cut, and whatever Pillow was told globally."""
    # https://github.com/pytorch/vision/issues/138
    for box in (None, Box(0, 0, 16, 8)):
        with pytest.raises(PictureError):
            Decoder(backend=backend).decode(data[1], box=box)


def test_b05_pillows_leniency_is_neither_used_nor_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for data in inputs.cut_jpegs().values():
        with pytest.raises(PictureError):
            Decoder(backend="pillow").decode(data)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


@pytest.mark.parametrize("cut", inputs.cut_jpegs())
def test_b05_a_run_names_or_replaces_what_was_cut_wherever_it_stands(tmp_path: Path, cut: str) -> None:
    bad = inputs.cut_jpegs()[cut]
    rows = [bad if n in {0, 12, 23} else picture(n) for n in range(24)]
    urls = shard(tmp_path, rows)
    with pytest.raises(PictureError) as caught:
        batches(urls, shuffle=False)
    assert (caught.value.url, caught.value.key, caught.value.field) == (urls, "000", "jpg")
    assert 'on_error="skip"' in str(caught.value)

    quarantine = tmp_path / "bad.jsonl"
    with ShardLoader(
        urls, batch_size=8, image=CenterCrop(16), on_error="skip", quarantine=quarantine, tail="exact"
    ) as loader:
        labels = sorted(label for batch in loader for label in batch.cls.tolist())
        assert labels == [n for n in range(24) if n not in {0, 12, 23}]
        assert sum(loader.report().skipped.values()) >= 3  # of the next epoch some are made already
    listed = [json.loads(line) for line in quarantine.read_text().splitlines()]
    assert {row["key"] for row in listed} == {"000", "012", "023"}


# B06


def test_b06_every_mode_becomes_three_channels(tmp_path: Path) -> None:
    # https://github.com/lucidrains/imagen-pytorch/issues/195
    (batch,) = batches(shard(tmp_path, inputs.modes().values()), image=None)
    assert (batch.jpg.shape, batch.jpg.dtype) == ((8, 24, 32, 3), np.uint8)


def test_b06_native_modes_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    urls = shard(tmp_path, [data for mode, data in inputs.modes().items() if mode in {"L", "RGB"}], field="seg.png")
    with pytest.raises(BatchError) as caught:
        batches(urls, batch_size=2, fields=("seg.png",), image={"seg.png": Mask()}, shuffle=False)
    for words in ("000", "001", "(24, 32)", "(24, 32, 3)", "seg"):
        assert words in str(caught.value)


# B08

UPRIGHT = {
    **{f"{value} as SHORT": value for value in range(1, 9)},
    "6 as LONG": 6,
    "6 in a PNG": 6,
    "6 in a WebP": 6,
}
"""Which of them are turned, and how; all others stay as they lie, as browsers leave them."""


@each_backend
@pytest.mark.parametrize("name", inputs.turned_pictures())
def test_b08_one_rule_for_orientation_in_every_backend(name: str, backend: Backend) -> None:
    # https://github.com/pytorch/vision/issues/7977
    data = inputs.turned_pictures()[name]
    ways: dict[int, Image.Transpose] = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    stored = Image.fromarray(inputs.halves())
    way = ways.get(UPRIGHT.get(name, 1))
    expected = np.asarray(stored.transpose(way) if way is not None else stored)
    decoded = Decoder(backend=backend).decode(data)
    assert decoded.shape == expected.shape
    assert np.abs(decoded.astype(int) - expected).max() <= 12  # JPEG, at the edge
    assert Decoder(backend=backend).size(read_facts(data)) == expected.shape[1::-1]
    raw = Decoder(Pictures(orient=False), backend).decode(data)
    assert np.abs(raw.astype(int) - inputs.halves()).max() <= 12


def test_b08_packing_anew_does_not_turn_twice(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "c"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(inputs.turned_pictures()["6 as SHORT"])
    (folder / "b.jpg").write_bytes(saved(inputs.halves(), "JPEG", quality=95))
    pack(tmp_path / "in", tmp_path / "out", resize=40, shuffle=False)
    for sample in loaders.samples(str(tmp_path / "out")):
        with Image.open(io.BytesIO(sample["jpg"])) as image:
            shown = ImageOps.exif_transpose(image)  # what any other reader makes of it
            pixels = np.asarray(shown.convert("RGB"))
        assert np.array_equal(Decoder().decode(sample["jpg"]).shape, pixels.shape)
        assert pixels.shape == ((80, 40, 3) if sample["__key__"] == "c/a" else (40, 80, 3))
        assert pixels[2, 2, 0] > 200
        assert pixels[-2, -2, 2] > 200


# B15


@each_backend
@pytest.mark.parametrize("name", inputs.four_channel_jpegs())
def test_b15_four_channels_are_red_in_every_backend(name: str, backend: Backend) -> None:
    # https://github.com/pytorch/vision/issues/6538
    data = inputs.four_channel_jpegs()[name]
    decoded = Decoder(backend=backend).decode(data)
    assert decoded.shape == (16, 16, 3)
    assert np.abs(decoded.astype(int) - by_pillow(data)).max() <= 3
    if name != "YCCK":  # of which Pillow itself is the only judge
        assert np.abs(decoded.astype(int) - (255, 0, 0)).max() <= 3


# B20


@each_backend
@pytest.mark.parametrize("name", inputs.transparent())
def test_b20_what_is_transparent_shows_the_background_and_nothing_hidden(name: str, backend: Backend) -> None:
    # https://github.com/kohya-ss/sd-scripts/issues/1269
    data = inputs.transparent()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (Decoder(backend=backend).decode(data) == 255).all()
        green = Decoder(Pictures(background=(0, 200, 0)), backend).decode(data)
    assert (green == (0, 200, 0)).all()


def test_b20_true_alpha_is_there_for_those_who_ask(tmp_path: Path) -> None:
    urls = shard(tmp_path, [inputs.transparent()["RGBA"]], field="seg.png")
    (batch,) = batches(urls, batch_size=1, fields=("seg.png",), image={"seg.png": Mask()})
    assert batch.seg_png[0].tolist() == np.full((8, 8, 4), (255, 0, 255, 0)).tolist()


# B21


@each_backend
@pytest.mark.parametrize("name", inputs.bombs())
def test_b21_a_bomb_is_refused_from_its_header(name: str, backend: Backend) -> None:
    # https://github.com/junyanz/pytorch-CycleGAN-and-pix2pix/issues/1592
    data, limit = inputs.bombs()[name], Image.MAX_IMAGE_PIXELS
    tracemalloc.start()
    try:
        with pytest.raises(PictureTooLargeError, match=r"max_pixels"):
            Decoder(backend=backend).decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert limit == Image.MAX_IMAGE_PIXELS


@each_backend
def test_b21_a_large_picture_is_legal_where_the_limit_says_so_and_small_ones_may_be_held_to_less(
    backend: Backend,
) -> None:
    large = saved(Image.new("1", (14_000, 13_000)), "PNG")  # 182 million pixels, above Pillow's own limit
    options = Pictures(max_pixels=200_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = Decoder(options, backend).decode(large, box=Box(0, 0, 64, 64), size=(8, 8))
    assert part.shape == (8, 8, 3)
    for data in (saved(scene(60, 50), "JPEG"), saved(scene(60, 50), "PNG")):
        with pytest.raises(PictureTooLargeError, match="60 x 50"):
            Decoder(Pictures(max_pixels=2999), backend).decode(data)
        assert Decoder(Pictures(max_pixels=3000), backend).decode(data).shape == (50, 60, 3)


@each_backend
def test_b21_a_comment_that_unpacks_to_much_is_not_unpacked(backend: Backend) -> None:
    data = inputs.swollen_text()
    assert len(data) < 200_000
    assert np.array_equal(Decoder(backend=backend).decode(data), scene(20, 10))


def test_b21_in_a_run_it_has_a_name(tmp_path: Path) -> None:
    urls = shard(tmp_path, [*[picture(n) for n in range(7)], inputs.bombs()["JPEG"]])
    with pytest.raises(PictureTooLargeError) as caught:
        batches(urls, shuffle=False)
    assert (caught.value.url, caught.value.key) == (urls, "007")
    assert "65500 x 65500" in str(caught.value).replace(",", "")


# B58


@each_backend
@pytest.mark.parametrize("name", inputs.containers())
def test_b58_the_bytes_decide_and_not_the_name(name: str, backend: Backend) -> None:
    # https://github.com/Lightning-AI/litData/pull/660
    data, called = inputs.containers()[name]
    if called is None:
        assert np.array_equal(Decoder(backend=backend).decode(data).shape, (30, 40, 3))
        assert np.abs(Decoder(backend=backend).decode(data).astype(int) - by_pillow(data)).max() <= 4
        return
    with pytest.raises(PictureError) as caught:
        Decoder(backend=backend).decode(data)
    assert called in str(caught.value).lower()
    if name == "HEIC":
        assert isinstance(caught.value, UnsupportedPictureError)
        assert "pillow-heif" in str(caught.value) or "pillow_heif" in str(caught.value)


def test_b58_a_batch_never_has_frames(tmp_path: Path) -> None:
    pictures = [data for data, called in inputs.containers().values() if called is None]
    (batch,) = batches(shard(tmp_path, pictures), batch_size=len(pictures), image=None)
    assert batch.jpg.shape == (len(pictures), 30, 40, 3)
    (batch,) = batches(shard(tmp_path / "w", [pictures[-1]], field="webp"), batch_size=1, fields=("webp",))
    assert batch.webp.shape == (1, 16, 16, 3)


# B68


@each_backend
def test_b68_profiles_are_ignored_by_default_and_converted_on_request(backend: Backend) -> None:
    # https://github.com/kohya-ss/sd-scripts/issues/2179
    pixels = scene(40, 30)
    for kind in ("JPEG", "PNG"):
        data = saved(pixels, kind, icc_profile=inputs.wide_gamut())
        plain = Decoder(backend=backend).decode(data)
        assert np.abs(plain.astype(int) - by_pillow(data)).max() <= 2
        converted = Decoder(Pictures(icc="srgb"), backend).decode(data)
        # The red of P3 lies outside sRGB: what is saturated in it becomes more so.
        spread = (plain.max(axis=2).astype(int) - plain.min(axis=2)).mean()
        assert (converted.max(axis=2).astype(int) - converted.min(axis=2)).mean() > spread + 3


@each_backend
@pytest.mark.parametrize("name", inputs.profiles())
def test_b68_a_profile_that_cannot_be_used_is_noted_and_stops_no_picture(name: str, backend: Backend) -> None:
    decoder = Decoder(Pictures(icc="srgb"), backend)
    assert np.array_equal(decoder.decode(inputs.profiles()[name]), scene(40, 30))
    assert decoder.notes["icc profile ignored"] == 1


def test_b68_cut_and_resized_pictures_are_converted_too() -> None:
    data = saved(scene(40, 30), "JPEG", icc_profile=inputs.wide_gamut())
    whole = Decoder(Pictures(icc="srgb")).decode(data)
    part = Decoder(Pictures(icc="srgb")).decode(data, box=Box(8, 8, 16, 16))
    assert np.abs(part.astype(int) - whole[8:24, 8:24]).max() <= 2

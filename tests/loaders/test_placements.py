"""What `ShardLoader.placements` says of a batch is what the batch holds, and saying it decodes nothing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

import loaders
from loaders import CenterCrop, Mask, RandomResizedCrop, Resize, ShardLoader, balanced, mix
from loaders.torch import ShardDataset
from loaders.torch import ShardLoader as TorchLoader
from tests.builders import picture, write_pictures, write_shard
from wds_tools.errors import PictureError, TooFewSamplesError, UsageError

FIELDS = ("jpg", "cls", "__key__")
CROP = RandomResizedCrop(24)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [25, 0, 17], width=64, height=48)


def cut(original: Any, placed: Any) -> Any:
    """The original cut by hand, with Pillow."""
    left, top, width, height = placed.box
    box = (left, top, left + width, top + height)
    made = Image.fromarray(original).resize(placed.size[::-1], Image.Resampling.BILINEAR, box=box)
    return np.asarray(made)[:, ::-1] if placed.flip else np.asarray(made)


def assert_cut_so(images: Any, placed: Any, originals: Any) -> None:
    for image, each in zip(images, placed, strict=True):
        by_hand = cut(originals[each.sample]["jpg"], each.pictures["jpg"])
        assert np.abs(by_hand.astype(int) - image).mean() < 3


@pytest.mark.parametrize("image", [CROP, CenterCrop(24), Resize((20, 30))], ids=lambda image: type(image).__name__)
def test_the_originals_cut_so_are_the_batch(urls: str, image: Any) -> None:
    with ShardLoader(urls, batch_size=8, fields=FIELDS, image=image, seed=3) as loader, loaders.open(urls) as originals:
        for epoch in range(2):
            for number, batch in enumerate(loader):
                placed = loader.placements(epoch=epoch, batch=number)
                assert [each.key for each in placed] == batch.key
                assert_cut_so(batch.jpg, placed, originals)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_tells_the_batches_of_its_dataloader(urls: str, workers: int) -> None:
    with (
        ShardDataset(urls, batch_size=8, fields=FIELDS, image=CROP, seed=3) as dataset,
        loaders.open(urls) as originals,
    ):
        batches = DataLoader(dataset, batch_size=None, num_workers=workers)
        for epoch in range(2):
            for number, batch in enumerate(batches):
                placed = dataset.placements(epoch=epoch, batch=number)
                assert [each.key for each in placed] == batch.key
                assert_cut_so(batch.jpg.permute(0, 2, 3, 1).numpy(), placed, originals)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
def test_each_rank_is_told_its_own(urls: str, shuffle: bool, tail: Any) -> None:
    for rank in range(3):
        with ShardLoader(
            urls,
            global_batch_size=12,
            fields=FIELDS,
            image=CROP,
            rank=rank,
            world_size=3,
            shuffle=shuffle,
            tail=tail,
        ) as loader:
            for number, batch in enumerate(loader):
                placed = loader.placements(epoch=0, batch=number)
                assert [each.key for each in placed] == batch.key
                assert [each.valid for each in placed] == (
                    batch.valid.tolist() if tail == "pad" else [True] * len(placed)
                )


def test_a_mask_is_cut_as_its_picture_and_pictures_by_column(tmp_path: Path) -> None:
    mask = io.BytesIO()
    Image.new("L", (64, 48)).save(mask, "PNG")
    samples = [
        (f"{n}", {"jpg": picture(n), "seg.png": mask.getvalue(), "webp": picture(n, form="WEBP")}) for n in range(4)
    ]
    write_shard(tmp_path / "a.tar", samples)
    fields = ("jpeg;jpg", "seg.png", "webp", "png?")
    with ShardLoader(tmp_path, batch_size=4, fields=fields, image={"jpeg;jpg": CROP, "seg.png": Mask()}) as loader:
        for each in loader.placements(epoch=0, batch=0):
            assert list(each.pictures) == ["jpeg", "seg_png", "webp"]
            whole = each.pictures["webp"]
            assert (whole.box, whole.flip, whole.size) == ((0, 0, 48, 36), False, (36, 48))
            assert each.pictures["jpeg"].field == "jpg"
            assert each.pictures["seg_png"].flip == each.pictures["jpeg"].flip
            assert each.pictures["seg_png"].width == 64


def test_boxes_are_of_the_upright_original(tmp_path: Path) -> None:
    turned, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.open(io.BytesIO(picture(1, width=64, height=32))).save(turned, "JPEG", exif=exif)
    write_shard(tmp_path / "a.tar", [("k", {"jpg": turned.getvalue()})])
    with (
        ShardLoader(tmp_path, batch_size=1, fields=("jpg",), image=CROP) as loader,
        loaders.open(tmp_path) as originals,
    ):
        (placed,) = loader.placements(epoch=0, batch=0)
        assert (placed.pictures["jpg"].width, placed.pictures["jpg"].height) == (32, 64)
        assert_cut_so(next(iter(loader)).jpg, [placed], originals)


@pytest.mark.parametrize("of", ["mix", "balanced"])
def test_selections_are_told_too(urls: str, of: str) -> None:
    selection = mix([(urls, 2), (urls, 1)]) if of == "mix" else balanced(urls)
    with ShardLoader(selection, batch_size=6, fields=FIELDS, image=CROP) as loader:
        for number, batch in enumerate(loader):
            assert [each.key for each in loader.placements(epoch=0, batch=number)] == batch.key


def test_nothing_is_decoded_and_the_run_is_not_disturbed(tmp_path: Path) -> None:
    """Pictures without their data: a header is all that is needed."""
    data = picture(0, width=64, height=48)
    write_shard(tmp_path / "a.tar", [(f"{n}", {"jpg": data[: data.index(b"\xff\xda") + 14]}) for n in range(6)])
    loader = TorchLoader(tmp_path, batch_size=2, fields=("jpg",), image=CROP)
    before = loader.placements(epoch=5, batch=2)
    assert {each.pictures["jpg"].width for each in before} == {64}
    assert loader.state_dict()["position"] == 0
    loader.close()
    assert loader.placements(epoch=5, batch=2) == before


def test_what_cannot_be_told_is_said(urls: str, tmp_path: Path) -> None:
    with ShardLoader(urls, batch_size=8, fields=FIELDS, image=CROP) as loader:
        for number in (-1, 5):
            with pytest.raises(UsageError, match="expected 0 to 4"):
                loader.placements(epoch=0, batch=number)
        with pytest.raises(UsageError, match="epoch is -1"):
            loader.placements(epoch=-1, batch=0)
    with pytest.raises(TooFewSamplesError):
        ShardLoader(urls, batch_size=80).placements(epoch=0, batch=0)
    write_shard(tmp_path / "a.tar", [("bad", {"jpg": b"<html>"})])
    with pytest.raises(PictureError, match="offset 0, key bad, field jpg"):
        ShardLoader(tmp_path, batch_size=1, fields=("jpg",)).placements(epoch=0, batch=0)

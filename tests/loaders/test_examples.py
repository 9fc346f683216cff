"""Cases that people come with, as examples that run: pairs of pictures, and batch sizes of the whole job."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import loaders
import loaders.torch
from loaders import RandomResizedCrop
from tests.builders import picture, write_labels, write_shard
from wds_tools.errors import UsageError

LOADERS = [loaders.ShardLoader, loaders.torch.ShardLoader]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [40, 3, 41])


def encoded(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def test_pairs_of_pictures_are_cropped_alike(tmp_path: Path) -> None:
    # The two differ by content only, as a photo and its sketch do; the first few columns of both tell the crop.
    pairs = [(f"{i:03d}", {"a.jpg": picture(i), "b.jpg": picture(i), "cls": str(i % 2).encode()}) for i in range(24)]
    write_shard(tmp_path / "pairs.tar", pairs)
    fields = ("a.jpg", "b.jpg", "cls")
    with loaders.torch.ShardLoader(
        str(tmp_path), batch_size=8, fields=fields, image=RandomResizedCrop((32, 40), scale=(0.1, 0.5))
    ) as loader:
        seen = [(left.clone(), right.clone(), labels) for _ in range(2) for left, right, labels in loader]
    assert len(seen) == 6
    for left, right, labels in seen:
        assert (left.shape, left.dtype, labels.dtype) == ((8, 3, 32, 40), torch.uint8, torch.int64)
        assert torch.equal(left, right)
    assert not torch.equal(seen[0][0], seen[3][0])  # another crop and order in the next epoch


def test_pairs_of_other_sizes_have_a_crop_each_from_one_draw(tmp_path: Path) -> None:
    large = [Image.open(io.BytesIO(picture(i, width=96, height=72, form="PNG"))) for i in range(8)]
    pairs = [(f"{i}", {"a.png": encoded(each.reduce(2)), "b.png": encoded(each)}) for i, each in enumerate(large)]
    write_shard(tmp_path / "pairs.tar", pairs)
    image = {"a.png": RandomResizedCrop(24), "b.png": RandomResizedCrop(48)}
    with loaders.torch.ShardLoader(str(tmp_path), batch_size=8, fields=("a.png", "b.png"), image=image) as loader:
        (batch,) = loader
    halved = torch.nn.functional.avg_pool2d(batch.b_png.float(), 2)
    # The same part of the same picture at twice the size, up to half a pixel where a crop begins.
    difference = (halved - batch.a_png.float()).abs().mean(dim=(1, 2, 3))
    others = (halved - batch.a_png.float().roll(1, dims=0)).abs().mean(dim=(1, 2, 3))
    assert difference.max() < 6
    assert others.min() > 12


@pytest.mark.parametrize("loader_class", LOADERS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_a_global_batch_size_is_divided_by_the_ranks(labels: str, loader_class: Any, world_size: int) -> None:
    batches: list[list[int]] = [[] for _ in range(7)]
    for rank in range(world_size):
        with loader_class(
            labels, global_batch_size=12, fields=("cls",), lanes=6, rank=rank, world_size=world_size
        ) as loader:
            assert len(loader) == 7
            for number, batch in enumerate(loader):
                assert len(batch.cls) == 12 // world_size
                batches[number] += batch.cls.tolist()
    with loader_class(labels, batch_size=12, fields=("cls",), lanes=6) as loader:
        assert list(map(sorted, batches)) == [sorted(batch.cls.tolist()) for batch in loader]


@pytest.mark.parametrize("loader_class", LOADERS)
@pytest.mark.parametrize(
    ("size", "ranks", "message"),
    [
        (256, 3, r"global_batch_size=256 over 3 ranks is 85\.33 each\. Pass 255 or 258"),
        (2, 4, r"global_batch_size=2 over 4 ranks is 0\.50 each\. Pass 4,"),
    ],
)
def test_a_global_batch_size_that_does_not_divide(
    labels: str, loader_class: Any, size: int, ranks: int, message: str
) -> None:
    for rank in range(ranks):  # on every rank alike, before the first step
        with pytest.raises(UsageError, match=message):
            len(loader_class(labels, global_batch_size=size, fields=("cls",), rank=rank, world_size=ranks))


@pytest.mark.parametrize("loader_class", LOADERS)
@pytest.mark.parametrize("sizes", [{}, {"batch_size": 4, "global_batch_size": 8}])
def test_exactly_one_batch_size_is_given(labels: str, loader_class: Any, sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=r"expected one of the two"):
        loader_class(labels, **sizes)


def test_a_loader_says_which_size_it_was_given(labels: str) -> None:
    assert "global_batch_size=12" in repr(loaders.ShardLoader(labels, global_batch_size=12))
    assert "batch_size=12, " in repr(loaders.ShardLoader(labels, batch_size=12))

"""The torch loader: tensors over the same memory, ranks of torch.distributed, normalising, passing through on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import loaders
from loaders import RandomResizedCrop
from loaders.torch import Normalize, ShardLoader, to_device
from tests.builders import write_pictures
from wds_tools.errors import UsageError


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [20, 21, 9])


def test_the_same_batches_as_tensors(urls: str) -> None:
    options: Any = {"batch_size": 8, "image": RandomResizedCrop((24, 32)), "tail": "pad"}
    with ShardLoader(urls, **options) as ours, loaders.ShardLoader(urls, **options) as arrays:
        assert len(ours) == len(arrays) == 7
        for batch, expected in zip(ours, arrays, strict=True):
            images, labels, valid = batch
            assert (images.dtype, tuple(images.shape)) == (torch.uint8, (8, 3, 24, 32))
            assert images.is_contiguous(memory_format=torch.channels_last)
            assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), expected.jpg)
            assert (labels.dtype, labels.tolist()) == (torch.int64, expected.cls.tolist())
            assert (valid.dtype, valid.tolist()) == (torch.bool, expected.valid.tolist())


def test_batches_belong_to_the_caller(urls: str) -> None:
    with ShardLoader(urls, batch_size=5, image=RandomResizedCrop(24)) as loader:
        kept = [batch.jpg for batch in loader]
        copies = [images.clone() for images in kept]
        for _ in loader:
            pass
        assert all(torch.equal(images, copy) for images, copy in zip(kept, copies, strict=True))


def to_tensor(sample: dict[str, Any]) -> dict[str, Any]:
    return {"image": torch.from_numpy(sample["jpg"]).permute(2, 0, 1).float() / 255, "name": sample["__key__"]}


def test_a_transform_may_return_tensors(urls: str) -> None:
    with ShardLoader(urls, batch_size=5, image=RandomResizedCrop(24), transform=to_tensor) as loader:
        batch = next(iter(loader))
    assert (batch.image.dtype, tuple(batch.image.shape)) == (torch.float32, (5, 3, 24, 24))
    assert len(batch.name) == 5


def test_what_collate_returns_is_left_alone(urls: str) -> None:
    with ShardLoader(urls, batch_size=5, fields=("cls",), collate=len) as loader:
        assert list(loader) == [5] * 10


def test_ranks_come_from_torch_distributed(urls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "7")  # what is initialised counts, not the environment
    monkeypatch.setenv("WORLD_SIZE", "9")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        with ShardLoader(urls, batch_size=5, fields=("cls",)) as loader:
            assert len(loader) == 10
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_data_loader_around_it_is_told_what_to_use(urls: str, workers: int, batch_size: int | None) -> None:
    loader: Any = ShardLoader(urls, batch_size=8, fields=("cls",))
    wrapped: Any = torch.utils.data.DataLoader(loader, batch_size=batch_size, num_workers=workers)
    with loader, pytest.raises(UsageError, match=r"Iterate the loader itself.*ShardDataset"):
        next(iter(wrapped))


def test_it_is_still_no_sequence(urls: str) -> None:
    with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
        assert not isinstance(loader, Sequence | Mapping)
        assert len(list(loader)) == len(loader) == 6


def test_normalize_is_the_formula() -> None:
    pictures = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8).to(memory_format=torch.channels_last)
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    result = Normalize(mean, std)(pictures)
    expected = (pictures.double() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert result.dtype == torch.float32
    assert torch.allclose(result.double(), expected, atol=1e-6)
    assert result.is_contiguous(memory_format=torch.channels_last)


def test_normalize_has_no_state_and_other_dtypes() -> None:
    module = Normalize(dtype=torch.bfloat16)
    assert not module.state_dict()
    assert module(torch.zeros(1, 3, 2, 2, dtype=torch.uint8)).dtype == torch.bfloat16
    with pytest.raises(UsageError, match="std"):
        Normalize((0.5,), (0.0,))


def test_to_device_passes_through_on_a_cpu(urls: str) -> None:
    options: Any = {"batch_size": 8, "image": RandomResizedCrop(24)}
    with ShardLoader(urls, **options) as loader, ShardLoader(urls, **options) as plain:
        moved = to_device(loader, "cpu")
        assert len(moved) == 6
        for _ in range(2):
            for batch, expected in zip(moved, plain, strict=True):
                assert torch.equal(batch.jpg, expected.jpg)
                assert moved.state_dict() == plain.state_dict()


def test_to_device_resumes(urls: str) -> None:
    with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
        moved = to_device(loader, "cpu")
        iterator = iter(moved)
        next(iterator)
        state = moved.state_dict()
        rest = [batch.cls.tolist() for batch in iterator]
    with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
        moved = to_device(loader, "cpu")
        moved.load_state_dict(state)
        moved.set_epoch(0)
        assert [batch.cls.tolist() for batch in moved] == rest


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_to_device_has_the_epoch_of_its_caller(urls: str, device: str) -> None:
    with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
        moved = to_device(loader, device)
        assert {moved.epoch for _ in moved} == {0}
        assert moved.epoch == 1
        for _ in moved:
            break
        assert moved.epoch == 2
        state = {**moved.state_dict(), "epoch": 5, "position": 0}
        moved.load_state_dict(state)
        assert moved.epoch == 5


@pytest.mark.cuda
def test_to_device_copies_ahead(urls: str) -> None:
    options: Any = {"batch_size": 8, "image": RandomResizedCrop(24)}
    with ShardLoader(urls, **options, pin_memory=True) as loader, ShardLoader(urls, **options) as plain:
        moved = to_device(loader, "cuda")
        for _ in range(3):
            for batch, expected in zip(moved, plain, strict=True):
                assert batch.jpg.is_cuda
                assert torch.equal(batch.jpg.cpu(), expected.jpg)
                assert moved.state_dict() == plain.state_dict()

"""Memory that torch keeps: never in our stock, and known to torch by its own storage. On a device: test_cuda.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from loaders.batch import batch_of
from loaders.slab import Slabs, plain_memory
from loaders.torch.loader import as_tensors
from loaders.torch.pinned import PinnedMemory, tensor_over


class Torchs:
    """What PinnedMemory is, of memory that needs no device."""

    keeps = True

    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, nbytes: int) -> Any:
        memory = torch.empty(nbytes, dtype=torch.uint8)
        self.made.append(memory.untyped_storage()._cdata)
        return memory.numpy()


def test_what_its_allocator_keeps_is_not_taken_back() -> None:
    slabs = Slabs(Torchs(), keep=2)
    for _ in range(3):
        slabs.take((4, 5, 3))
    assert (slabs.made, slabs.reused) == (3, 0)
    assert PinnedMemory.keeps


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (lambda array: array, (4, 5, 6, 3)),
        (lambda array: array[1:3], (2, 5, 6, 3)),
        (lambda array: array[2, :, ::2], (5, 3, 3)),
        (lambda array: array.transpose(0, 3, 1, 2), (4, 3, 5, 6)),
    ],
)
def test_tensors_are_over_the_storage_that_torch_gave_out(part: Any, shape: tuple[int, ...]) -> None:
    memory = Torchs()
    array = Slabs(memory, keep=2).take((4, 5, 6, 3))
    array[:] = np.arange(array.size, dtype=np.uint32).reshape(array.shape) % 251
    tensor = tensor_over(part(array))
    assert tensor.untyped_storage()._cdata == memory.made[0]
    assert (tuple(tensor.shape), tensor.dtype) == (shape, torch.uint8)
    assert np.array_equal(tensor.numpy(), part(array))
    array[:] = 9
    assert tensor.min() == tensor.max() == 9


def test_wider_dtypes_keep_their_place() -> None:
    array = Slabs(Torchs(), keep=2).take((5, 3), np.float32)
    array[:] = np.arange(15).reshape(5, 3)
    assert torch.equal(tensor_over(array[2:]), torch.arange(6.0, 15).reshape(3, 3))


def test_the_memory_lives_as_long_as_a_tensor() -> None:
    array = Slabs(Torchs(), keep=2).take((1000, 1000))
    array[:] = 5
    tensor = tensor_over(array)[10:]
    del array
    others = [torch.full((1_000_000,), 7, dtype=torch.uint8) for _ in range(5)]
    assert tensor.min() == tensor.max() == 5
    assert len(others) == 5


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.zeros((0, 4, 4, 3), dtype=np.uint8)])
def test_arrays_of_other_origin_are_viewed_as_they_are(array: Any) -> None:
    assert np.array_equal(tensor_over(array).numpy(), array)
    ours = Slabs(plain_memory, keep=1).take((2, 3))
    assert tensor_over(ours).data_ptr() == ours.ctypes.data


def test_a_batch_of_pinned_memory_is_viewed_as_others_are() -> None:
    memory = Torchs()
    array = Slabs(memory, keep=2).take((4, 5, 6, 3))
    (images,) = as_tensors(batch_of(("jpg",), [array]))
    assert tuple(images.shape) == (4, 3, 5, 6)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert images.untyped_storage()._cdata == memory.made[0]

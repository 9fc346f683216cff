"""Memory is used again only when nothing refers to it any more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loaders.slab import Slabs, plain_memory


def test_memory_is_used_again_when_let_go() -> None:
    slabs = Slabs(plain_memory, keep=2)
    first = slabs.take((4, 5, 3))
    address = first.__array_interface__["data"][0]
    del first
    second = slabs.take((4, 5, 3))
    assert second.__array_interface__["data"][0] == address
    assert (slabs.made, slabs.reused) == (1, 1)


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array[1:2],
        lambda array: memoryview(array),
        lambda array: torch.from_numpy(array),
        lambda array: torch.from_numpy(array).permute(0, 2, 1)[1:],
        lambda array: np.from_dlpack(array),
    ],
)
def test_memory_that_somebody_still_refers_to_is_left_alone(keep: object) -> None:
    slabs = Slabs(plain_memory, keep=2)
    first = slabs.take((4, 5, 3))
    first[:] = 7
    kept = keep(first)  # type: ignore[operator]
    del first
    second = slabs.take((4, 5, 3))
    second[:] = 1
    assert np.asarray(kept).min() == 7
    assert slabs.made == 2


def test_shapes_and_dtypes() -> None:
    slabs = Slabs(plain_memory, keep=1)
    array = slabs.take((3, 2), np.float32)
    assert (array.shape, str(array.dtype)) == ((3, 2), "float32")
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert slabs.take((0, 4)).shape == (0, 4)


def test_no_more_is_kept_than_wanted() -> None:
    slabs = Slabs(plain_memory, keep=2)
    many = [slabs.take((100,)) for _ in range(5)]
    del many
    again = [slabs.take((100,)) for _ in range(5)]
    assert (slabs.made, slabs.reused, len(again)) == (8, 2, 5)


def test_a_small_batch_does_not_hold_a_large_slab() -> None:
    slabs = Slabs(plain_memory, keep=2)
    large = slabs.take((1_000_000,))
    del large
    slabs.take((10,))
    assert (slabs.made, slabs.reused) == (2, 0)

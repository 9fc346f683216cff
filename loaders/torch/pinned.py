"""Page-locked memory for batches, safe to copy from in the background.

A copy with `non_blocking=True` returns before the device has read the memory, and then nothing of Python refers to it:
memory that was given to the next batch at that moment would be overwritten while it is read, and the device would have
a mixture of two batches. Only torch knows when the copy is done. It notes every stream that reads from a block of its
pinned memory, and gives a block that was let go to nobody before these have come so far (`CachingHostAllocator`). So
pinned slabs go back to torch each time, which keeps them, and not to our own stock; and tensors are made over torch's
own storage, by which it finds the block again also for a part of a batch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["PinnedMemory", "tensor_over"]


class PinnedMemory:
    """Makes page-locked memory; needs a CUDA device. See the module."""

    keeps: ClassVar[bool] = True

    def __call__(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Memory that nobody reads or writes, a device included."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()


def tensor_over(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor over an array's memory; where that is torch's own, by the storage that torch gave out.

    Raises:
        TypeError: torch has no such dtype.
    """
    tensor = torch.from_numpy(array)
    source = _source(array)
    if source is None or not array.size:
        return tensor
    offset = (tensor.data_ptr() - source.data_ptr()) // tensor.element_size()
    return torch.empty(0, dtype=tensor.dtype).set_(source.untyped_storage(), offset, tensor.shape, tensor.stride())


def _source(array: Any) -> torch.Tensor | None:
    """The tensor whose memory an array of a slab is."""
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    memory = getattr(owner, "memory", None)  # a slab's
    base = memory.base if isinstance(memory, np.ndarray) else None
    return base if isinstance(base, torch.Tensor) else None

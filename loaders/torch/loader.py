"""ShardLoader with tensors: pictures as NCHW views in channels_last memory, labels as int64, pinned on request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from loaders.batch import Batch, batch_of
from loaders.decoded.options import DecodedCache
from loaders.fields import DEFAULT_FIELDS, ImageSpec
from loaders.loader import ShardLoader as NumpyLoader
from loaders.plan import Tail
from loaders.policy import OnError
from loaders.reading import Reading
from loaders.selection import Selection, Urls
from loaders.slab import Allocate, plain_memory
from loaders.torch.pinned import PinnedMemory, tensor_over
from wds_tools.errors import UsageError
from wds_tools.pictures.options import Pictures

__all__ = ["ShardLoader", "as_tensors", "picture_as_tensor", "world_of_torch"]


def world_of_torch(otherwise: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """(rank, world size) of torch.distributed where it is initialised."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return otherwise()


def as_tensors(batch: Any) -> Any:
    """A batch of arrays as a batch of tensors over the same memory.

    uint8 pictures (N, H, W, 3) become NCHW views in channels_last layout; other arrays keep their shape; arrays of a
    dtype that torch lacks, and lists, stay as they are. What is no batch (a collate's own) is returned as it is.
    """
    if not isinstance(batch, Batch):
        return batch
    return batch_of(batch._fields, [_as_tensor(value) for value in batch])


def picture_as_tensor(picture: np.ndarray[Any, Any]) -> torch.Tensor:
    """One picture, (H, W, 3) of any dtype, as a tensor (3, H, W) over the same memory."""
    return torch.from_numpy(picture).permute(2, 0, 1)


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    try:
        tensor = tensor_over(value)
    except TypeError:  # uint16 of an old torch, strings, objects
        return value
    if tensor.dtype == torch.uint8 and tensor.ndim == 4 and tensor.shape[-1] == 3:
        return tensor.permute(0, 3, 1, 2)
    return tensor


class ShardLoader(NumpyLoader):
    """Batches of tensors, one epoch an iteration; all arguments as for `loaders.ShardLoader`.

    Pictures are uint8 (N, 3, H, W) in channels_last memory, a quarter of float32's bytes on the way to the device;
    `Normalize` makes floats of them there. Rank and world size are those of torch.distributed where it is initialised
    when the first batch or the length is asked for.

    Args:
        pin_memory: decode into page-locked memory, so that copies to a CUDA device can run beside the computation; a
            batch may be let go as soon as `batch.jpg.to(device, non_blocking=True)` has returned.
    """

    def __init__(
        self,
        urls: Urls | Selection,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        fields: Sequence[str] = DEFAULT_FIELDS,
        image: ImageSpec = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        collate: Callable[[list[dict[str, Any]]], Any] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        lanes: int | None = None,
        tail: Tail = "drop",
        on_error: OnError = "raise",
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        read: Reading = Reading(),  # noqa: B008 - frozen
        pictures: Pictures = Pictures(),  # noqa: B008 - frozen
        quarantine: str | os.PathLike[str] | None = None,
        exclude: str | os.PathLike[str] | Iterable[int] | None = None,
        decoded_cache: DecodedCache | str | None = None,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(
            urls,
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            fields=fields,
            image=image,
            transform=transform,
            collate=collate,
            seed=seed,
            shuffle=shuffle,
            lanes=lanes,
            tail=tail,
            on_error=on_error,
            threads=threads,
            rank=rank,
            world_size=world_size,
            read=read,
            pictures=pictures,
            quarantine=quarantine,
            exclude=exclude,
            decoded_cache=decoded_cache,
        )
        self.pin_memory = pin_memory

    def __getitem__(self, index: Any) -> Any:
        """Refused: torch's DataLoader asks for it where it is given a loader in place of a dataset."""
        raise UsageError(
            f"item {index!r} is asked of a ShardLoader, which gives whole batches in order",
            cure="Iterate the loader itself: it takes the place of DataLoader. For worker processes give DataLoader a "
            "loaders.torch.ShardDataset with batch_size=None, for samples by number a loaders.open(..., fields=...).",
        )

    def _resolve_world(self) -> tuple[int, int]:
        return world_of_torch(super()._resolve_world)

    def _allocator(self) -> Allocate:
        return PinnedMemory() if self.pin_memory else plain_memory

    def _present(self, batch: Any) -> Any:
        return as_tensors(batch)

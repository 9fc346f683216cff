"""StreamLoader with tensors, as `loaders.torch.ShardLoader` is of `loaders.ShardLoader`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loaders.fields import DEFAULT_FIELDS, ImageSpec
from loaders.policy import OnError
from loaders.reading import Reading
from loaders.slab import Allocate, plain_memory
from loaders.stream.flow import Tail
from loaders.stream.loader import StreamLoader as NumpyLoader
from loaders.torch.loader import as_tensors, world_of_torch
from loaders.torch.pinned import PinnedMemory
from wds_tools.pictures.options import Pictures
from wds_tools.urls import Urls

__all__ = ["StreamLoader"]


class StreamLoader(NumpyLoader):
    """Batches of tensors from streams; all arguments as for `loaders.StreamLoader`.

    Rank and world size are those of torch.distributed where it is initialised when iteration or `len` begins.

    Args:
        pin_memory: decode into page-locked memory, so that copies to a CUDA device can run beside the computation.
    """

    def __init__(
        self,
        urls: Urls,
        *,
        batch_size: int,
        fields: Sequence[str] = DEFAULT_FIELDS,
        image: ImageSpec = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        collate: Callable[[list[dict[str, Any]]], Any] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        shuffle_bytes: int | None = None,
        interleave: int | None = None,
        epoch_samples: int | None = None,
        tail: Tail = "drop",
        on_error: OnError = "raise",
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        prefetch: int | None = None,
        read: Reading = Reading(),  # noqa: B008 - frozen
        pictures: Pictures = Pictures(),  # noqa: B008 - frozen
        allow_pipe: bool = False,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(
            urls,
            batch_size=batch_size,
            fields=fields,
            image=image,
            transform=transform,
            collate=collate,
            seed=seed,
            shuffle=shuffle,
            shuffle_bytes=shuffle_bytes,
            interleave=interleave,
            epoch_samples=epoch_samples,
            tail=tail,
            on_error=on_error,
            threads=threads,
            rank=rank,
            world_size=world_size,
            prefetch=prefetch,
            read=read,
            pictures=pictures,
            allow_pipe=allow_pipe,
        )
        self.pin_memory = pin_memory

    def _resolve_world(self) -> tuple[int, int]:
        return world_of_torch(super()._resolve_world)

    def _allocator(self) -> Allocate:
        return PinnedMemory() if self.pin_memory else plain_memory

    def _present(self, batch: Any) -> Any:
        return as_tensors(batch)

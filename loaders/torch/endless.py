"""A DataLoader over a ShardDataset, epoch after epoch without end: what `wds tune` measures worker processes by."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

from torch.utils.data import DataLoader

from loaders.torch.dataset import ShardDataset

__all__ = ["endless_batches"]


@contextlib.contextmanager
def endless_batches(dataset: ShardDataset, *, workers: int) -> Iterator[Iterator[Any]]:
    """Its batches; the workers end with the block.

    They are started afresh (spawn): threads of whoever measures may hold locks that a fork would copy.
    """
    batches = _endless(dataset, workers)
    try:
        yield batches
    finally:
        batches.close()  # nobody else has the DataLoader, which ends its workers when it is let go
        dataset.close()


def _endless(dataset: ShardDataset, workers: int) -> Generator[Any, None, None]:
    loader: DataLoader[Any] = DataLoader(
        dataset, batch_size=None, num_workers=workers, persistent_workers=True, multiprocessing_context="spawn"
    )
    while True:
        yield from loader

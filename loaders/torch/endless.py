"""A DataLoader over a ShardDataset, epoch after epoch without end: what `wds tune` measures worker processes by."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from loaders.torch.dataset import ShardDataset

__all__ = ["endless_batches"]


@contextlib.contextmanager
def endless_batches(dataset: ShardDataset, *, workers: int) -> Iterator[Iterator[Any]]:
    """Its batches; the workers end with the block.

    They are started afresh (spawn): threads of whoever measures may hold locks that a fork would copy.
    """
    loader: DataLoader[Any] = DataLoader(
        dataset, batch_size=None, num_workers=workers, persistent_workers=True, multiprocessing_context="spawn"
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    try:
        yield batches
    finally:
        iterator = loader._iterator  # noqa: SLF001 - nothing public ends persistent workers before the interpreter
        if iterator is not None:
            iterator._shutdown_workers()  # type: ignore[attr-defined]  # noqa: SLF001
        dataset.close()

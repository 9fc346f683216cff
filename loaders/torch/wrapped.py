"""Who iterates a ShardDataset: refusing those that would deal its batches out once more, or batch them again.

A dataset is not told by whom it is used, so the calling frames are looked at, once an iteration. A forked worker has
its parent's frames below its own; for a spawned one the parent looks while it pickles.

Accelerate's `prepare` makes of a DataLoader over an IterableDataset one that iterates on rank 0 only and cuts each
batch into pieces for the others: every rank would see a part of rank 0's share, and the rest of the data nobody.
"""

from __future__ import annotations

import inspect
from types import FrameType

from wds_tools.errors import UsageError

__all__ = ["check_caller"]


def check_caller(*, batches: bool = True) -> None:
    """Raise UsageError where the calls that led here shard again, or, of a dataset of batches, collate those."""
    frame = inspect.currentframe()
    try:
        while frame is not None:
            _check(frame, batches=batches)
            frame = frame.f_back
    finally:
        del frame  # or an error's traceback and the frames would keep each other alive, and with them the DataLoader


def _check(frame: FrameType, *, batches: bool) -> None:
    module = frame.f_globals.get("__name__")
    if module == "accelerate.data_loader":
        raise UsageError(
            "Accelerate's prepare shards this DataLoader once more, so that each rank would see a part of rank 0's "
            "share only",
            cure="Give it a loaders.torch.ShardLoader, which it leaves alone, or keep this DataLoader from it.",
        )
    if batches and module == "torch.utils.data._utils.fetch" and frame.f_locals.get("auto_collation"):
        raise UsageError(
            "the DataLoader makes batches, and a ShardDataset gives whole batches already",
            cure="Pass DataLoader(dataset, batch_size=None, num_workers=...).",
        )

"""Batches by worker processes where /dev/shm is far too small for them, for test_memory.py.

python shm_job.py URLS SIDE WORKERS AHEAD
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from torch.utils.data import DataLoader

from loaders import Resize
from loaders.torch import ShardDataset
from wds_tools.errors import UnavailableError


def batches(urls: str, side: int, workers: int, ahead: int) -> int:
    """How many batches of 64 pictures come."""
    dataset = ShardDataset(urls, batch_size=64, fields=("jpg",), image=Resize(side))
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=ahead)
    return sum(tuple(batch.jpg.shape) == (64, 3, side, side) for batch in loader)


def _refuse(*arguments: Any) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def main(urls: str, *numbers: int) -> None:
    """Print the count, and what is said where anonymous memory is refused, as some sandboxes do."""
    sys.stdout.write(f"{batches(urls, *numbers)} batches\n")
    os.memfd_create = _refuse  # type: ignore[assignment]
    try:
        batches(urls, *numbers)
    except UnavailableError as error:
        sys.stdout.write(f"{error}\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

"""What a worker process needs before user code runs in it: random numbers of its own, and no threads beside ours.

DataLoader seeds the generators once a process, from a seed that torch's own generator gave: the same in every rank that
seeded alike, and not again where workers persist. It limits torch's threads, and not OpenCV's.
"""

from __future__ import annotations

import hashlib
import os
import random
import struct
import sys
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import get_worker_info

__all__ = ["Place", "limit_threads", "place", "seed_generators"]


class Place(NamedTuple):
    """Which worker of a DataLoader this process is.

    Attributes:
        worker: its number, 0 where there are none.
        workers: how many there are.
        seed: the DataLoader's base seed, the same for all workers of one iteration.
    """

    worker: int
    workers: int
    seed: int


def place() -> Place:
    """Where this process stands."""
    info = get_worker_info()
    return Place(info.id, info.num_workers, info.seed - info.id) if info else Place(0, 0, 0)


def seed_generators(*place: int) -> None:
    """Seed `random`, `numpy.random` and torch by where the run stands: (seed, epoch, position, rank, worker).

    Different at each place, the same again in a second run.
    """
    digest = hashlib.blake2b(struct.pack(f"<{len(place)}Q", *place), digest_size=64).digest()
    random.seed(digest)
    np.random.seed(np.frombuffer(digest[:32], dtype="<u4"))  # noqa: NPY002 - the generator that transforms use
    torch.manual_seed(int.from_bytes(digest[32:40], "little") >> 1)


def limit_threads() -> None:
    """One thread for OpenCV, unless somebody set another number than its default.

    torch has one already: DataLoader sets that before `worker_init_fn`, which may say otherwise. OpenCV takes 0 for
    "in the calling thread". With 1 it would also end its pool, and wait for ever for threads that a fork left behind in
    the parent (seen with 5.0).
    """
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")  # where it is first imported by a transform
    cv2 = sys.modules.get("cv2")
    if cv2 is not None and cv2.getNumThreads() == cv2.getNumberOfCPUs() != 1:
        cv2.setNumThreads(0)

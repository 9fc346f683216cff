"""What a worker process needs before user code runs in it: random numbers of its own, no threads beside ours, an end.

DataLoader seeds the generators once a process, from a seed that torch's own generator gave: the same in every rank that
seeded alike, and not again where workers persist. It limits torch's threads, and not OpenCV's.

A worker of DataLoader looks every few seconds whether its parent is alive. It notes who that is when the dataset is
open, so one whose parent was killed before waits for ever; and one that ends with batches under way waits for ever for
somebody to read them, since its siblings hold the pipe open. Here it ends in both cases.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import struct
import sys
from collections.abc import Callable
from multiprocessing import context, util
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import get_worker_info

__all__ = ["Place", "end_with_parent", "leave_if_orphaned", "limit_threads", "place", "seed_generators", "starter"]

_BEFORE_QUEUES = 100  # of multiprocessing's finalizers, the first; those of queues have 10 and -5


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


def starter() -> int | None:
    """The process that made this worker's DataLoader: not whoever is its parent by now, nor a server that forks."""
    parent = multiprocessing.parent_process()
    return None if parent is None else parent.pid


def end_with_parent(close: Callable[[], object]) -> None:
    """When this worker ends and its parent is gone, it closes what it has and waits for nothing else."""
    util.Finalize(None, leave_if_orphaned, (close,), exitpriority=_BEFORE_QUEUES)


def leave_if_orphaned(close: Callable[[], object]) -> None:
    """End this worker here if its parent is gone."""
    if _is_orphan():
        try:
            close()
            if folder := multiprocessing.current_process()._config.get("tempdir"):  # type: ignore[attr-defined]  # noqa: SLF001
                shutil.rmtree(folder, ignore_errors=True)  # of its socket, as its own end would do last
        finally:
            os._exit(1)


def _is_orphan() -> bool:
    parent = multiprocessing.parent_process()
    if parent is None:
        return False
    if isinstance(multiprocessing.current_process(), context.ForkServerProcess):
        return not parent.is_alive()
    return os.getppid() != parent.pid  # siblings hold open what is_alive looks at where they were forked

"""Troubles with idle and with crowded cores (B27, B28): who does the work. How fast is for the benchmarks."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from loaders import RandomResizedCrop, ShardLoader
from loaders.torch import ShardDataset
from tests.builders import write_labels, write_pictures

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


# B27


def who(sample: dict[str, Any]) -> dict[str, Any]:
    info = get_worker_info()
    return {**sample, "worker": -1 if info is None else info.id, "thread": threading.get_ident()}


def test_b27_one_shard_is_shared_evenly_by_all_workers(tmp_path: Path) -> None:
    # https://github.com/webdataset/webdataset/issues/339
    urls = write_pictures(tmp_path, [160])
    dataset = ShardDataset(urls, batch_size=8, image=RandomResizedCrop(16), transform=who)
    made = [0] * 4
    for batch in DataLoader(dataset, batch_size=None, num_workers=4):
        (worker,) = set(batch.worker.tolist())
        made[worker] += 1
    assert made == [5] * 4


def test_b27_one_shard_is_decoded_by_all_threads(tmp_path: Path) -> None:
    """Each thread waits in its first sample until all of them have one: with an idle one this would never pass."""
    urls = write_pictures(tmp_path, [256])
    together = threading.Barrier(3, timeout=60)
    seen: set[int] = set()
    lock = threading.Lock()

    def waiting(sample: dict[str, Any]) -> dict[str, Any]:
        with lock:
            new = threading.get_ident() not in seen
            seen.add(threading.get_ident())
        if new:
            together.wait()
        return sample

    with ShardLoader(urls, batch_size=64, image=RandomResizedCrop(16), threads=3, transform=waiting) as loader:
        assert sum(len(batch.cls) for batch in loader) == 256
    assert len(seen) == 3


# B28


def crowd(sample: dict[str, Any]) -> dict[str, Any]:
    """Resizes with OpenCV and says how many threads this process has, and how many the libraries would start."""
    import cv2

    resized = cv2.resize(np.full((2000, 2000, 3), sample["cls"] % 256, np.uint8), (1000, 1000))
    return {
        "cls": int(resized[5, 5, 0]),
        "tasks": len(os.listdir("/proc/self/task")),
        "cv2": cv2.getNumThreads(),
        "torch": torch.get_num_threads(),
    }


def as_the_user_says(worker: int) -> None:
    import cv2

    cv2.setNumThreads(3)
    torch.set_num_threads(3)


@pytest.mark.parametrize("workers", [2, pytest.param(8, marks=pytest.mark.long)])
def test_b28_workers_forked_from_a_parent_with_a_pool_neither_hang_nor_crowd(tmp_path: Path, workers: int) -> None:
    # https://github.com/pytorch/pytorch/issues/1355
    cv2 = pytest.importorskip("cv2")
    cv2.resize(np.zeros((2000, 2000, 3), np.uint8), (1000, 1000))  # starts the pool of this process
    urls = write_labels(tmp_path, [64])
    for init, threads in ((None, {1}), (as_the_user_says, {3})):
        dataset = ShardDataset(urls, batch_size=4, fields=("cls",), transform=crowd)
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, worker_init_fn=init, timeout=60)
        batches = list(loader)
        assert sorted(label for batch in batches for label in batch.cls.tolist()) == list(range(64))
        assert {count for batch in batches for count in batch.cv2.tolist()} == threads
        assert {count for batch in batches for count in batch.torch.tolist()} == threads
        if init is None:  # its own, the queue's feeder, the reader's and decoder's of ours, and no pools
            assert max(count for batch in batches for count in batch.tasks.tolist()) <= 6

"""Loose files in class folders, a Dataset of one's own, torch's DataLoader with worker processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.peers.crops import Picture, cv2_bgr_crop, pillow_crop
from benchmarks.peers.peer import BATCH, Peer, Work, loose_pictures

__all__ = ["PEERS", "PictureFolder", "shuffled_batches"]


class PictureFolder:
    """What torchvision's ImageFolder with RandomResizedCrop and RandomHorizontalFlip is, without torchvision."""

    def __init__(self, work: Work, crop: Callable[[bytes, random.Random], Picture]) -> None:
        self._files, self._labels = loose_pictures(work)
        self._crop = crop
        self._random = random.Random(0)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, at: int) -> tuple[Picture, int]:
        return self._crop(self._files[at].read_bytes(), self._random), self._labels[at]


def shuffled_batches(dataset: Any, parallel: int) -> Iterator[int]:
    """The batches that torch's DataLoader makes of a dataset with a length."""
    from torch.utils.data import DataLoader

    for pictures, _ in DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=parallel):
        yield len(pictures)


def _run(crop: Callable[[bytes, random.Random], Picture], work: Work) -> Iterator[int]:
    return shuffled_batches(PictureFolder(work, crop), work.parallel)


def _load_pillow() -> None:
    import torch  # noqa: F401


def _load_cv2() -> None:
    import torch  # noqa: F401


PEERS = [
    Peer(
        name="ImageFolder (Pillow)",
        does="loose files; decodes all, antialiased; worker processes",
        run=partial(_run, pillow_crop),
        load=_load_pillow,
        packages=("torch", "pillow"),
    ),
    Peer(
        name="Dataset of files (cv2)",
        does="loose files; decodes all, not antialiased; worker processes",
        run=partial(_run, cv2_bgr_crop),
        load=_load_cv2,
        packages=("torch", "opencv-python-headless"),
    ),
]

"""webdataset over the same tars: shuffle buffer, a `map` of one's own, a WebLoader with worker processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.peers.crops import Picture, cv2_crop, pillow_crop
from benchmarks.peers.peer import BATCH, SIZE, Peer, Work

__all__ = ["PEERS", "webdataset_batches"]


def webdataset_batches(
    urls: Sequence[str], crop: Callable[[bytes, random.Random], Picture], *, batch: int, workers: int
) -> Iterator[int]:
    """Decode, random crop 224, flip, uint8 batches, in a DataLoader with worker processes."""
    import webdataset

    data = (
        webdataset.WebDataset(list(urls), shardshuffle=100, seed=0, empty_check=False)
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map(_Decode(crop))
        .batched(batch)
    )
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=workers)
    for pictures, labels in loader:
        if pictures.shape[1:] != (SIZE, SIZE, 3) or len(labels) != len(pictures):
            raise RuntimeError(f"the peer made {pictures.shape}")
        yield len(pictures)


class _Decode:
    """A sample of (JPEG, label) to (uint8 array, int), as a user's function in a worker."""

    def __init__(self, crop: Callable[[bytes, random.Random], Picture]) -> None:
        self._crop = crop
        self._random = random.Random(0)

    def __call__(self, sample: tuple[bytes, bytes]) -> tuple[Picture, int]:
        return self._crop(sample[0], self._random), int(sample[1])


def _run(crop: Callable[[bytes, random.Random], Picture], work: Work) -> Iterator[int]:
    return webdataset_batches(work.shards, crop, batch=BATCH, workers=work.parallel)


def _load_plain() -> None:
    import webdataset  # noqa: F401


def _load_tuned() -> None:
    import webdataset  # noqa: F401


PEERS = [
    Peer(
        name="webdataset + Pillow",
        does="tars, shuffle buffer of 1,000; decodes all, antialiased; worker processes",
        run=partial(_run, pillow_crop),
        load=_load_plain,
        packages=("webdataset", "pillow", "torch"),
    ),
    Peer(
        name="webdataset + simplejpeg + cv2",
        does="tars, shuffle buffer of 1,000; decodes all, not antialiased; worker processes",
        run=partial(_run, cv2_crop),
        load=_load_tuned,
        packages=("webdataset", "simplejpeg", "opencv-python-headless", "torch"),
    ),
]

"""litdata: its optimized chunks, its StreamingDataset read in place, its own loader with worker processes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.crops import Picture, pillow_crop
from benchmarks.peers.peer import BATCH, PARALLEL, Peer, Work, loose_pictures

__all__ = ["PEERS"]


def _sample(file_and_label: tuple[str, int]) -> dict[str, Any]:
    path, label = file_and_label
    return {"image": Path(path).read_bytes(), "label": label}


def _prepare(work: Work, target: Path) -> None:
    import litdata

    inputs = [(str(path), label) for path, label in zip(*loose_pictures(work), strict=True)]
    random.Random(0).shuffle(inputs)
    litdata.optimize(
        fn=_sample, inputs=inputs, output_dir=str(target), chunk_bytes="64MB", num_workers=PARALLEL, mode="overwrite"
    )


class _Crop:
    """A sample as it is stored to (uint8 array, int), in a worker."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def __call__(self, sample: dict[str, Any]) -> tuple[Picture, int]:
        return pillow_crop(sample["image"], self._random), sample["label"]


def _run(work: Work) -> Iterator[int]:
    import litdata

    dataset = litdata.StreamingDataset(input_dir=work.own, shuffle=True, drop_last=False, transform=_Crop())
    for pictures, _ in litdata.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=work.parallel):
        yield len(pictures)


def _load() -> None:
    import litdata  # noqa: F401


PEERS = [
    Peer(
        name="litdata + Pillow",
        does="its own chunks of 64 MB with the files' bytes; decodes all, antialiased; worker processes",
        run=_run,
        prepare=_prepare,
        load=_load,
        packages=("litdata", "pillow", "torch"),
        environment="litdata",
    )
]

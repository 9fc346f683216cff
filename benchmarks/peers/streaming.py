"""Mosaic streaming: MDS shards, its StreamingDataset on a local folder, its own loader with worker processes."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.peers.crops import Picture, pillow_crop
from benchmarks.peers.peer import BATCH, Peer, Work, loose_pictures

__all__ = ["PEERS"]


def _load() -> ModuleType:
    """The package, without the parts for benchmark datasets, whose import wants torchvision and which are not used."""
    for part in ("multimodal", "text", "vision"):
        sys.modules.setdefault(f"streaming.{part}", ModuleType(f"streaming.{part}"))
    import streaming

    return streaming  # type: ignore[no-any-return]


def _prepare(work: Work, target: Path) -> None:
    samples = list(zip(*loose_pictures(work), strict=True))
    random.Random(0).shuffle(samples)
    with _load().MDSWriter(out=str(target), columns={"image": "bytes", "label": "int"}, size_limit="64mb") as writer:
        for path, label in samples:
            writer.write({"image": path.read_bytes(), "label": label})


def _run(work: Work) -> Iterator[int]:
    streaming = _load()
    streaming.base.util.clean_stale_shared_memory()  # of the epoch before

    class Pictures(streaming.StreamingDataset):  # type: ignore[misc, name-defined]
        def __getitem__(self, at: Any) -> tuple[Picture, int]:
            sample = super().__getitem__(at)
            return pillow_crop(sample["image"], draw), sample["label"]

    draw = random.Random(0)
    dataset = Pictures(local=work.own, shuffle=True, batch_size=BATCH, num_canonical_nodes=1)
    for pictures, _ in streaming.StreamingDataLoader(dataset, batch_size=BATCH, num_workers=work.parallel):
        yield len(pictures)


PEERS = [
    Peer(
        name="Mosaic streaming + Pillow",
        does="its own shards of 64 MB with the files' bytes; decodes all, antialiased; worker processes",
        run=_run,
        prepare=_prepare,
        load=_load,
        packages=("mosaicml-streaming", "pillow", "torch"),
        environment="streaming",
    )
]

"""Hugging Face datasets: an Arrow table with an Image column, mapped into memory, cropped by `with_transform`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.crops import pillow_image_crop
from benchmarks.peers.peer import BATCH, Peer, Work, loose_pictures

__all__ = ["PEERS"]


def _prepare(work: Work, target: Path) -> None:
    import datasets

    files, labels = loose_pictures(work)
    rows = {"image": [{"bytes": path.read_bytes(), "path": None} for path in files], "label": labels}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(target))


def _run(work: Work) -> Iterator[int]:
    import datasets
    from torch.utils.data import DataLoader

    draw = random.Random(0)

    def cropped(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"image": [pillow_image_crop(image, draw) for image in rows["image"]], "label": rows["label"]}

    dataset = datasets.load_from_disk(work.own).with_transform(cropped)
    for batch in DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=work.parallel):
        yield len(batch["image"])


def _load() -> None:
    import datasets  # noqa: F401


PEERS = [
    Peer(
        name="HF datasets + Pillow",
        does="its own Arrow file with the files' bytes; decodes all, antialiased; worker processes",
        run=_run,
        prepare=_prepare,
        load=_load,
        packages=("datasets", "pillow", "torch"),
        environment="datasets",
    )
]

"""datago: files found and decoded by its threads in Rust, one picture at a time handed to Python.

It has no random crop. Of what it offers, decoding in its threads and cropping with cv2 in the caller was the faster.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import numpy as np

from benchmarks.peers.crops import Picture, cropped
from benchmarks.peers.peer import BATCH, Peer, Work, loose_pictures

__all__ = ["PEERS"]


def _run(work: Work) -> Iterator[int]:
    from datago import DatagoClient

    files, numbers = loose_pictures(work)
    labels = {str(path): number for path, number in zip(files, numbers, strict=True)}
    source = {"root_path": work.pictures, "random_sampling": False, "rank": 0, "world_size": 1}
    config = {"source_type": "file", "source_config": source, "limit": len(files), "samples_buffer_size": BATCH}
    client, draw = DatagoClient(json.dumps(config)), random.Random(0)
    batch: list[tuple[Picture, int]] = []
    while (sample := client.get_sample()) is not None:
        picture = sample.image.to_numpy_array()
        if picture.ndim == 2 or picture.shape[2] == 1:
            picture = np.repeat(picture.reshape(*picture.shape[:2], 1), 3, axis=2)
        batch.append((cropped(picture, draw), labels[sample.id.strip('"')]))
        if len(batch) == BATCH:
            yield len(np.stack([picture for picture, _ in batch]))
            batch = []
    if batch:
        yield len(np.stack([picture for picture, _ in batch]))
    client.stop()


def _load() -> None:
    import datago  # noqa: F401


PEERS = [
    Peer(
        name="datago + cv2",
        does="loose files in the order found; decodes all in threads; crops in the caller, not antialiased",
        run=_run,
        load=_load,
        packages=("datago", "opencv-python-headless"),
        environment="datago",
    )
]

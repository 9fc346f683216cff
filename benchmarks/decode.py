"""Decode, random crop to 224x224, flip, uint8 batches of 64: what training on pictures waits for.

Ours decodes with two threads of one process, the peers with two worker processes, which is what each is made for. The
clock starts with the first batch, so that nobody pays for starting processes here (`first_batch` measures that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import loaders
from benchmarks.material import Material
from benchmarks.peers import HAS_CV2, cv2_crop, pillow_crop, webdataset_batches
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Contestant, Watch, compare

__all__ = ["BATCH", "decode"]

BATCH = 64
PARALLEL = 2


def decode(material: Material, watch: Watch) -> list[Row]:
    """Against webdataset with Pillow, and with simplejpeg and cv2 where that is installed."""
    contestants: dict[str, Contestant] = {
        OURS: partial(_ours, material.shards),
        "webdataset + Pillow": partial(webdataset_batches, material.shards, pillow_crop, batch=BATCH, workers=PARALLEL),
    }
    if HAS_CV2:
        contestants["webdataset + simplejpeg + cv2"] = partial(
            webdataset_batches, material.shards, cv2_crop, batch=BATCH, workers=PARALLEL
        )
    timings = compare(contestants, watch)
    return rows_of("decode, crop 224, batches of 64", timings, {"webdataset + Pillow": 1.4}, unit="pictures/s")


def _ours(urls: Sequence[str]) -> Iterator[int]:
    crop = loaders.RandomResizedCrop(224)
    with loaders.ShardLoader(
        urls, batch_size=BATCH, fields=("jpg", "cls"), image=crop, tail="exact", threads=PARALLEL
    ) as loader:
        for pictures, _ in loader:
            yield len(pictures)

"""Raw samples, no decoding: `loaders.samples` against webdataset, and against `read()` of the same files.

All in one process and one thread, from the page cache, one byte in every 4 KiB of every field looked at. What is
measured is the cost of finding and handing out samples: headers parsed and their checksums verified, members grouped
by key, bytes copied or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import loaders
from benchmarks.material import Material
from benchmarks.others import read_files, touch, webdataset_samples
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Watch, compare
from wds_tools.tar.runs import COMPILED

__all__ = ["raw"]


def raw(material: Material, watch: Watch) -> list[Row]:
    """Pictures of 107 KB, then small samples, where every microsecond in Python shows."""
    return [
        *_race(
            f"raw samples, {material.mean_bytes() / 1e3:.0f} KB and a label",
            material.shards,
            material.count,
            8.0,
            watch,
        ),
        *_race(
            "raw samples, 512 bytes and a label",
            material.small_shards,
            material.small_count,
            25.0 if COMPILED else 12.0,
            watch,
        ),
    ]


def _race(work: str, urls: Sequence[str], samples: int, goal: float, watch: Watch) -> list[Row]:
    contestants = {
        OURS: partial(_ours, urls),
        "webdataset": partial(webdataset_samples, urls),
        "read()": partial(read_files, urls, samples),
    }
    return rows_of(work, compare(contestants, watch), {"webdataset": goal})


def _ours(urls: Sequence[str]) -> Iterator[int]:
    yield 0
    for sample in loaders.samples(urls):
        for value in sample.values():
            if not isinstance(value, str):
                touch(value)
        yield 1

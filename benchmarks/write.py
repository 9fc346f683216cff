"""Loose pictures to shards of 1,000, bytes unchanged: our two ways against wds.ShardWriter and `tar && sync -f`.

Both writers are given the same files one by one. Ours does more: it fsyncs each shard before that gets its name, and
writes listing and index; `pack` also finds the files and checks each picture's header and end. wds.ShardWriter is run
as people run it, and once more with `sync -f` behind it, which is what the same safety costs it. The pictures are in
the page cache; the shards go to the disk that the system's temporary folder (or `--data`) lies on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.material import Material
from benchmarks.others import tar_and_sync, webdataset_writer
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Watch, compare
from shardwriter import ShardWriter, pack

__all__ = ["write"]


def write(material: Material, watch: Watch) -> list[Row]:
    """All pictures, into a scratch folder that is removed afterwards."""
    scratch = material.folder / "written"
    files = material.files()
    labels = {name: label for label, name in enumerate(sorted({path.parent.name for path in files}))}
    contestants = {
        OURS: partial(_written, files, scratch / "ours", labels),
        f"{OURS} pack": partial(_packed, material.pictures, scratch / "packed", material.count),
        "wds.ShardWriter": partial(webdataset_writer, files, scratch / "theirs", labels, sync=False),
        "wds.ShardWriter && sync -f": partial(webdataset_writer, files, scratch / "theirs", labels, sync=True),
        "tar cf && sync -f": partial(tar_and_sync, material.pictures, scratch / "tar", material.count),
    }
    try:
        timings = compare(contestants, watch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return rows_of("pictures to shards", timings, {"wds.ShardWriter": 2.5}, unit="pictures/s")


def _written(files: Sequence[Path], target: Path, labels: Mapping[str, int]) -> Iterator[int]:
    shutil.rmtree(target, ignore_errors=True)
    yield 0
    with ShardWriter(target / "train-%06d.tar", max_samples=1000) as writer:
        for number, path in enumerate(files):
            writer.write({"__key__": f"{number:08d}", "jpg": path.read_bytes(), "cls": labels[path.parent.name]})
    yield len(files)


def _packed(folder: Path, target: Path, count: int) -> Iterator[int]:
    shutil.rmtree(target, ignore_errors=True)
    yield 0
    pack(folder, target, name="train", max_samples=1000, seed=0)
    yield count

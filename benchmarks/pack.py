"""What packing costs and what more jobs bring: unchanged bytes, resized pictures, and shards of shards.

Unchanged bytes are packed on one core (this process and all it starts are bound to it) and on two, against `tar cf &&
sync -f` and wds.ShardWriter bound alike. A resize to 256 with JPEG 90 is held against the loop that people write: open,
convert, resize, save with Pillow, into a tar with the labels. It is done on the ImageNet-like pictures and on
photographs of 1024x768, since a decoder that may skip is worth more there. Resharding in the same order, every sample
parsed and checked, is held against `cp` of the same shards and `sync -f`. Pictures and shards are in the page cache.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.material import Material
from benchmarks.others import tar_and_sync, webdataset_writer
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Contestant, Watch, compare
from shardwriter import pack as pack_samples
from shardwriter.inputs.shards import open_shards

__all__ = ["pack"]

SHARD = 1000
SIDE, QUALITY = 256, 90
PHOTOGRAPHS = 240
PHOTOGRAPH_SIZE = (1024, 768)
RESIZED = 4000
"""Of the ImageNet-like pictures, as many are resized: several shards, each committed while the next is made."""


def pack(material: Material, watch: Watch) -> list[Row]:
    """All of it, into a scratch folder that is removed afterwards."""
    scratch = material.folder / "packed"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        return [
            *_unchanged(material, watch, scratch),
            *_resized("resize 256, 477x406", _some(material, scratch), watch, scratch, goal=1.1),
            *_resized("resize 256, 1024x768", _photographs(scratch), watch, scratch, goal=1.8),
            *_resharded(material, watch, scratch),
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unchanged(material: Material, watch: Watch, scratch: Path) -> list[Row]:
    files = material.files()
    labels = _labels(files)
    tar = partial(tar_and_sync, material.pictures, scratch / "tar", material.count)
    theirs = partial(webdataset_writer, files, scratch / "theirs", labels, sync=False)
    ours = partial(_packed, material.pictures, scratch / "ours", material.count)
    one = {OURS: partial(ours, jobs=1), "tar cf && sync -f": tar, "wds.ShardWriter": theirs}
    two = {OURS: partial(ours, jobs=2), "tar cf && sync -f": tar, f"{OURS}, 1 job": partial(ours, jobs=1)}
    rows = rows_of(
        "pack unchanged bytes, one core",
        compare({name: partial(_bound, run) for name, run in one.items()}, watch),
        {"tar cf && sync -f": 0.8, "wds.ShardWriter": 3.0},
        unit="pictures/s",
    )
    return rows + rows_of(
        "pack unchanged bytes, 2 jobs", compare(two, watch), {"tar cf && sync -f": 1.0}, unit="pictures/s"
    )


def _resized(work: str, pictures: Path, watch: Watch, scratch: Path, *, goal: float) -> list[Row]:
    files = sorted(pictures.glob("*/*.jpg"))
    ours = partial(_packed, pictures, scratch / "ours", len(files), to="jpg", resize=SIDE, quality=QUALITY)
    contestants: Mapping[str, Contestant] = {
        OURS: partial(_bound, partial(ours, jobs=1)),
        "a loop over Pillow": partial(_bound, partial(_pillow_loop, files, scratch / "loop.tar")),
    }
    rows = rows_of(f"{work}, one core", compare(contestants, watch), {"a loop over Pillow": goal}, unit="pictures/s")
    jobs = {OURS: partial(ours, jobs=2), f"{OURS}, 1 job": partial(ours, jobs=1)}
    return rows + rows_of(f"{work}, 2 jobs", compare(jobs, watch), {f"{OURS}, 1 job": 1.8}, unit="pictures/s")


def _resharded(material: Material, watch: Watch, scratch: Path) -> list[Row]:
    contestants = {
        OURS: partial(_reshard, material.shards, scratch / "again", material.count),
        "cp && sync -f": partial(_copy, material.shards, scratch / "copy", material.count),
    }
    return rows_of("reshard", compare(contestants, watch), {"cp && sync -f": 0.7}, unit="pictures/s")


def _packed(folder: Path, target: Path, count: int, **settings: Any) -> Iterator[int]:
    shutil.rmtree(target, ignore_errors=True)
    yield 0
    pack_samples(folder, target, max_samples=SHARD, **settings)
    yield count


def _reshard(urls: Sequence[str], target: Path, count: int) -> Iterator[int]:
    shutil.rmtree(target, ignore_errors=True)
    yield 0
    with open_shards(urls) as samples:
        pack_samples(samples, target, max_samples=SHARD, shuffle=False)
    yield count


def _copy(urls: Sequence[str], target: Path, count: int) -> Iterator[int]:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    yield 0
    subprocess.run(["cp", *urls, str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)
    yield count


def _pillow_loop(files: Sequence[Path], target: Path) -> Iterator[int]:
    """One picture after the other into one tar, as a script of ten lines does it."""
    from PIL import Image

    labels = _labels(files)
    yield 0
    with tarfile.open(target, "w") as archive:
        for path in files:
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
            ratio = SIDE / min(picture.size)
            if ratio < 1:
                size = (round(picture.width * ratio), round(picture.height * ratio))
                picture = picture.resize(size, Image.Resampling.BILINEAR)
            stream = io.BytesIO()
            picture.save(stream, "JPEG", quality=QUALITY)
            key = f"{path.parent.name}/{path.stem}"
            _add(archive, f"{key}.jpg", stream.getvalue())
            _add(archive, f"{key}.cls", b"%d" % labels[path.parent.name])
    yield len(files)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _bound(contestant: Contestant) -> Iterable[int]:
    """The contestant, and all that it starts, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield from contestant()
    finally:
        os.sched_setaffinity(0, cores)


def _some(material: Material, scratch: Path) -> Path:
    """Links to the first pictures, in their class folders."""
    folder = scratch / "some"
    for path in material.files()[:RESIZED]:
        link = folder / path.parent.name / path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
    return folder


def _photographs(scratch: Path) -> Path:
    """Crops of the package's photographs at 1024x768, JPEG 92."""
    from PIL import Image

    from wds_tools.make_pictures import PHOTOS

    sources = sorted(PHOTOS.glob("*.jpg"))
    for number in range(PHOTOGRAPHS):
        path = scratch / "photographs" / f"class{number % 10}" / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(sources[number % len(sources)]) as opened:
            width, height = opened.size
            left, top = (number * 7) % max(1, width // 8), (number * 5) % max(1, height // 8)
            crop = opened.convert("RGB").crop((left, top, width, height))
        crop.resize(PHOTOGRAPH_SIZE, Image.Resampling.LANCZOS).save(path, "JPEG", quality=92)
    return scratch / "photographs"


def _labels(files: Sequence[Path]) -> dict[str, int]:
    return {name: label for label, name in enumerate(sorted({path.parent.name for path in files}))}

"""What the benchmarks work on: pictures, shards of them, and shards of small samples. Made once, then kept.

4,000 ImageNet-like pictures (`wds_tools.make_pictures`, 430 MB, a minute on two cores), packed as `wds pack` does, in
shuffled order into four shards, and ten times as many small samples, of 512 bytes and a label. Everything lies in a
folder that is named after its content and renamed into place when whole, so a stopped run leaves nothing that a later
one believes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardwriter import ShardWriter, pack
from wds_tools import progress
from wds_tools.make_pictures import make_pictures
from wds_tools.urls import expand

__all__ = ["DEFAULT_FOLDER", "VERSION", "Material", "once", "prepare"]

DEFAULT_FOLDER = Path(tempfile.gettempdir()) / "shardstream-benchmarks"
VERSION = 1
"""To be raised whenever other bytes come out."""
SHARDS_VERSION = 2
"""Of our shards alone; those of 1 have headers that are written otherwise now, so that a reshard makes them anew."""
SHARDS = 4
"""Of pictures and of small samples: enough for two workers each to have two."""
SMALL_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Material:
    """Where everything lies.

    Attributes:
        folder: scratch space on the same disk.
        count: pictures.
        pictures: the folder of class folders with the loose pictures.
        shards: their shards.
        small_count: small samples.
        small_shards: their shards.
    """

    folder: Path
    count: int
    pictures: Path
    shards: list[str]
    small_count: int
    small_shards: list[str]

    def files(self) -> list[Path]:
        """The loose pictures in the order of their numbers, which deals out the classes in turn."""
        return sorted(self.pictures.glob("*/*.jpg"), key=lambda path: path.name)

    def mean_bytes(self) -> float:
        """Of a picture's file."""
        return sum(path.stat().st_size for path in self.files()) / self.count


def prepare(folder: Path, *, count: int) -> Material:
    """The material in `folder`, made if it is not there."""
    small_count = 10 * count
    pictures = once(folder / f"pictures-{count}-v{VERSION}", lambda target: _make_pictures(target, count))
    shards = once(folder / f"shards-{count}-v{SHARDS_VERSION}", lambda target: _pack(pictures, target, count))
    small = once(folder / f"small-{small_count}-v{SHARDS_VERSION}", lambda target: _write_small(target, small_count))
    return Material(
        folder=folder,
        count=count,
        pictures=pictures,
        shards=expand(shards),
        small_count=small_count,
        small_shards=expand(small),
    )


def once(target: Path, make: Callable[[Path], object]) -> Path:
    """The folder, made by `make` if it is not there; it has its name only when `make` is through."""
    if not target.exists():
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(target)
    return target


def _make_pictures(target: Path, count: int) -> None:
    with progress.bar("making pictures", total=count, unit="pictures") as bar:
        make_pictures(target, count=count, seed=0, advance=bar.advance)


def _pack(pictures: Path, target: Path, count: int) -> None:
    pack(pictures, target, name="train", max_samples=-(-count // SHARDS), seed=0)


def _write_small(target: Path, count: int) -> None:
    with ShardWriter(target / "small-%06d.tar", max_samples=-(-count // SHARDS)) as writer:
        for number in range(count):
            writer.write(
                {
                    "__key__": f"{number:08d}",
                    "bin": number.to_bytes(4, "little") * (SMALL_BYTES // 4),
                    "cls": number % 1000,
                }
            )

"""Other readers of raw samples and other writers, each as its documentation tells people to use it.

Every function here is one contestant's work: an iterable of how much it did (see `timing`). What needs no decoding is
not decoded. Those that decode are in `peers`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["read_files", "tar_and_sync", "touch", "webdataset_samples", "webdataset_writer"]

PAGE = 4096
READ_BYTES = 1 << 20


def touch(data: Any) -> int:
    """Look at one byte in every 4 KiB, so that nobody wins by handing out what was never read."""
    return sum(memoryview(data)[::PAGE])


def webdataset_samples(urls: Sequence[str]) -> Iterator[int]:
    """Raw samples in one process, each field touched."""
    import webdataset

    yield 0
    for sample in webdataset.WebDataset(list(urls), shardshuffle=False):
        for value in sample.values():
            if isinstance(value, bytes):
                touch(value)
        yield 1


def read_files(urls: Sequence[str], samples: int) -> Iterator[int]:
    """`read()` of the same files into one buffer of 1 MiB: no headers, no samples, the same bytes touched."""
    buffer = bytearray(READ_BYTES)
    yield 0
    for url in urls:
        with Path(url).open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                touch(memoryview(buffer)[:count])
    yield samples


def webdataset_writer(files: Sequence[Path], target: Path, labels: dict[str, int], *, sync: bool) -> Iterator[int]:
    """Loose pictures to shards with wds.ShardWriter, 1,000 a shard; `sync` sends them to the disk as ours are sent."""
    import webdataset

    _empty(target)
    yield 0
    with webdataset.ShardWriter(str(target / "train-%06d.tar"), maxcount=1000, verbose=0) as sink:
        for path in files:
            key = f"{path.parent.name}/{path.stem}"
            sink.write({"__key__": key, "jpg": path.read_bytes(), "cls": labels[path.parent.name]})
    if sync:
        subprocess.run(["sync", "-f", str(target)], check=True)
    yield len(files)


def tar_and_sync(folder: Path, target: Path, samples: int) -> Iterator[int]:
    """`tar cf && sync -f` of the folder of loose pictures: one archive, no labels, no index."""
    _empty(target)
    yield 0
    subprocess.run(["tar", "cf", str(target / "all.tar"), "-C", str(folder), "."], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)
    yield samples


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

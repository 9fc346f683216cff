"""Shards for tests, made by Python's tarfile, with the offsets that tarfile itself reports."""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Members = Sequence[tuple[str, bytes]]


def make_shard(path: Path, members: Members, *, form: int = tarfile.USTAR_FORMAT) -> npt.NDArray[np.uint64]:
    """Write the members (a name ending in a slash is a folder); returns the offsets, keys as webdataset has them."""
    offsets: list[int] = []
    last = None
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            begin = archive.offset
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
                continue
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
            folder, slash, base = name.rpartition("/")
            key = folder + slash + base.partition(".")[0]
            if key != last:
                offsets.append(begin)
            last = key
        offsets.append(archive.offset)
    return np.array(offsets, dtype=np.uint64)


def samples(first: int, count: int, *, size: int = 700) -> list[tuple[str, bytes]]:
    """Members of `count` samples, a cls and a jpg each, of sizes that differ."""
    return [
        (f"{number:05d}.{field}", data)
        for number in range(first, first + count)
        for field, data in (("cls", b"%d" % number), ("jpg", bytes([number % 256]) * (size + 97 * (number % 13))))
    ]


def make_dataset(folder: Path, counts: Sequence[int], *, stem: str = "train") -> list[npt.NDArray[np.uint64]]:
    """Shards `stem-000000.tar` and so on with these counts of samples; returns the offsets of each."""
    folder.mkdir(parents=True, exist_ok=True)
    firsts = [sum(counts[:at]) for at in range(len(counts))]
    return [make_shard(folder / f"{stem}-{at:06d}.tar", samples(firsts[at], count)) for at, count in enumerate(counts)]

"""Small inputs that tests of all packages build: pictures, and shards made by Python's tarfile, not by our writer."""

from __future__ import annotations

import gc
import io
import tarfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def settle() -> None:
    """Let what earlier tests dropped end, so that what is counted next is only this test's."""
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("shardstream"):
            thread.join(10)


def picture(number: int, *, width: int = 48, height: int = 36, form: str = "JPEG") -> bytes:
    """A picture that differs by number: smooth gradients with a square, the same bytes each time."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    pixels = np.stack([x * 255 / width, y * 255 / height, (x + y + 17 * number) % 256], axis=-1)
    pixels[: height // 3, : width // 3] = [(37 * number) % 256, (91 * number) % 256, (151 * number) % 256]
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, form, **({"quality": 90} if form == "JPEG" else {}))
    return stream.getvalue()


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], *, form: int = tarfile.USTAR_FORMAT) -> Path:
    """An archive of these (name, content) members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def write_shard(path: Path, samples: Iterable[tuple[str, Mapping[str, bytes]]]) -> Path:
    """A shard of these (key, fields) samples."""
    return write_tar(path, ((f"{key}.{field}", data) for key, fields in samples for field, data in fields.items()))


def write_labels(folder: Path, counts: Sequence[int]) -> str:
    """Shards of tiny samples without pictures, `cls` being the sample's number in the dataset; returns the folder."""
    number = 0
    for shard, count in enumerate(counts):
        samples = [(f"{number + i:06d}", {"cls": str(number + i).encode()}) for i in range(count)]
        write_shard(folder / f"s-{shard:04d}.tar", samples)
        number += count
    return str(folder)


def write_pictures(folder: Path, counts: Sequence[int], *, width: int = 48, height: int = 36) -> str:
    """The same with a JPEG each."""
    number = 0
    for shard, count in enumerate(counts):
        samples = [
            (f"{n:06d}", {"jpg": picture(n, width=width, height=height), "cls": str(n).encode()})
            for n in range(number, number + count)
        ]
        write_shard(folder / f"s-{shard:04d}.tar", samples)
        number += count
    return str(folder)

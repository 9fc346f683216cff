"""The other loaders and writers, each as its documentation tells people to use it, each asked for the same result.

Every function here is one contestant's work: an iterable of how much it did (see `timing`). Nothing is held back: the
peers get their worker processes, threads of libraries are set to one a worker where these would fight, and what needs
no decoding is not decoded.
"""

from __future__ import annotations

import importlib.util
import math
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "HAS_CV2",
    "Picture",
    "cv2_crop",
    "pillow_crop",
    "read_files",
    "tar_and_sync",
    "touch",
    "webdataset_batches",
    "webdataset_samples",
    "webdataset_writer",
]

Picture = npt.NDArray[np.uint8]
PAGE = 4096
READ_BYTES = 1 << 20
HAS_CV2 = importlib.util.find_spec("cv2") is not None


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


def webdataset_batches(
    urls: Sequence[str], crop: Callable[[bytes, random.Random], Picture], *, batch: int, workers: int
) -> Iterator[int]:
    """Decode, random crop 224, flip, uint8 batches, in a DataLoader with worker processes."""
    import webdataset

    decode = _Decode(crop)
    data = (
        webdataset.WebDataset(list(urls), shardshuffle=100, seed=0, empty_check=False)
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map(decode)
        .batched(batch)
    )
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=workers)
    for pictures, labels in loader:
        if pictures.shape[1:] != (224, 224, 3) or len(labels) != len(pictures):
            raise RuntimeError(f"the peer made {pictures.shape}")
        yield len(pictures)


class _Decode:
    """A sample of (JPEG, label) to (uint8 array, int), as a user's function in a worker."""

    def __init__(self, crop: Callable[[bytes, random.Random], Picture]) -> None:
        self._crop = crop
        self._random = random.Random(0)

    def __call__(self, sample: tuple[bytes, bytes]) -> tuple[Picture, int]:
        return self._crop(sample[0], self._random), int(sample[1])


def pillow_crop(data: bytes, draw: random.Random) -> Picture:
    """Decode all of it with Pillow, crop and resize with Pillow's antialiased bilinear, flip: what torchvision does."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(data)) as opened:
        picture = opened.convert("RGB")
    left, top, width, height = _box(*picture.size, draw)
    small = picture.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    array: Picture = np.asarray(small)
    return array[:, ::-1] if draw.random() < 0.5 else array


def cv2_crop(data: bytes, draw: random.Random) -> Picture:
    """Decode all of it with simplejpeg, crop, resize with cv2's bilinear, which does not antialias, flip."""
    import cv2
    import simplejpeg

    cv2.setNumThreads(0)
    picture = simplejpeg.decode_jpeg(data, "RGB")
    left, top, width, height = _box(picture.shape[1], picture.shape[0], draw)
    small: Picture = cv2.resize(picture[top : top + height, left : left + width], (224, 224))
    return small[:, ::-1] if draw.random() < 0.5 else small


def _box(width: int, height: int, draw: random.Random) -> tuple[int, int, int, int]:
    """As torchvision's RandomResizedCrop with its defaults: left, top, width, height."""
    for _ in range(10):
        area = width * height * draw.uniform(0.08, 1.0)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return draw.randint(0, width - w), draw.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


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

"""FFCV: its own file, a loader that it compiles when first used, threads that decode whole pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.peer import BATCH, PARALLEL, SIZE, Peer, Work, loose_pictures

__all__ = ["PEERS"]


class _Files:
    """What its writer takes: pictures and labels by number."""

    def __init__(self, work: Work) -> None:
        self._files, self._labels = loose_pictures(work)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, at: int) -> tuple[bytes, int]:
        return self._files[at].read_bytes(), self._labels[at]


def _store(destination: Any, data: bytes, malloc: Callable[[int], tuple[Any, Any]]) -> None:
    """Keep a file's own bytes; the field itself would decode and encode it again, at another size."""
    from io import BytesIO

    from ffcv.fields.rgb_image import IMAGE_MODES
    from PIL import Image

    with Image.open(BytesIO(data)) as picture:
        destination["width"], destination["height"] = picture.size
    destination["mode"] = IMAGE_MODES["jpg"]
    destination["data_ptr"], storage = malloc(len(data))
    storage[:] = np.frombuffer(data, np.uint8)


def _prepare(work: Work, target: Path) -> None:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    image = RGBImageField(write_mode="jpg")
    image.encode = _store
    writer = DatasetWriter(str(target / "pictures.beton"), {"image": image, "label": IntField()}, num_workers=PARALLEL)
    writer.from_indexed_dataset(_Files(work))


@cache  # compiling takes many seconds, and is done once for all epochs of a training too
def _loader(folder: str, parallel: int) -> Any:
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor

    return Loader(
        f"{folder}/pictures.beton",
        batch_size=BATCH,
        num_workers=parallel,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        pipelines={
            "image": [RandomResizedCropRGBImageDecoder((SIZE, SIZE)), RandomHorizontalFlip(), ToTensor()],
            "label": [IntDecoder(), ToTensor(), Squeeze()],
        },
    )


def _run(work: Work) -> Iterator[int]:
    assert work.own is not None
    for images, _ in _loader(work.own, work.parallel):
        yield len(images)


def _load() -> None:
    import ffcv.loader  # noqa: F401


PEERS = [
    Peer(
        name="FFCV",
        does="its own file with the files' bytes; decodes all, averages over areas (cv2); threads",
        run=_run,
        prepare=_prepare,
        load=_load,
        packages=("ffcv", "numba", "torch"),
        environment="ffcv",
    )
]

"""Decode, random crop to 224x224, flip, on one thread, without a loader around it: the backends against each other.

The clock does not see reading: pictures lie in memory. A second table has the kernel's stages: what reading the header,
the kernel's call (decoding and resizing) and resizing alone cost; the rest of the first table's row is Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import simplejpeg

from benchmarks.material import Material
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Contestant, Watch, compare
from loaders import RandomResizedCrop
from wds_tools.pictures.decode import BACKENDS, Backend, Box, Decoder
from wds_tools.pictures.facts import Facts, read_facts
from wds_tools.pictures.kernel import Kernel, capability
from wds_tools.pictures.options import Pictures

__all__ = ["kernel"]

SIZE = 224
MOST = 1000
"""Pictures in memory."""
RUN = 50
"""Pictures between two looks at the clock."""

_STOCK = "the same, Huffman coding by libjpeg"


class Crop(NamedTuple):
    """A picture and what is wanted of it."""

    data: bytes
    facts: Facts
    box: Box
    flip: bool


def kernel(material: Material, watch: Watch) -> list[Row]:
    """The best backend of this installation against the others and against libjpeg-turbo alone; then the stages."""
    crops = _crops(material)
    contestants: dict[str, Contestant] = {OURS: partial(_each, crops, _decoding(BACKENDS[0]))}
    contestants |= {f"backend {name}": partial(_each, crops, _decoding(name)) for name in BACKENDS[1:]}
    if capability().huffman:
        contestants[_STOCK] = partial(_each, crops, _decoding("kernel", Pictures(huffman=False)))
    contestants["libjpeg-turbo, whole pictures, not resized"] = partial(_each, crops, _whole)
    goals = {"backend simplejpeg": 1.7, _STOCK: 1.3} if capability().jpeg else {}
    rows = rows_of("decode, crop 224, one thread", compare(contestants, watch), goals, unit="pictures/s")
    return rows + _stages(crops, watch) if capability().jpeg else rows


def _stages(crops: list[Crop], watch: Watch) -> list[Row]:
    stages: dict[str, Contestant] = {
        OURS: partial(_each, crops, _decoding("kernel")),
        "header": partial(_each, crops, lambda crop: read_facts(crop.data)),
        "decode and resize": partial(_each, crops, _calling()),
        "resize": partial(_each, crops, _resizing(crops)),
    }
    return rows_of("stages of that", compare(stages, watch), {}, unit="pictures/s")


def _crops(material: Material) -> list[Crop]:
    random, geometry = np.random.default_rng(0), RandomResizedCrop(SIZE)
    crops = []
    for path in material.files()[:MOST]:
        data = path.read_bytes()
        facts = read_facts(data)
        box, flip = geometry.place(*Decoder().size(facts), random.random(44).tolist())
        assert box is not None
        crops.append(Crop(data, facts, box, flip))
    return crops


def _each(crops: list[Crop], work: Callable[[Crop], object]) -> Iterator[int]:
    yield 0
    for begin in range(0, len(crops), RUN):
        run = crops[begin : begin + RUN]
        for crop in run:
            work(crop)
        yield len(run)


def _decoding(backend: Backend, options: Pictures | None = None) -> Callable[[Crop], object]:
    decoder, out = Decoder(options, backend), np.empty((SIZE, SIZE, 3), np.uint8)
    return lambda crop: decoder.decode(crop.data, box=crop.box, size=(SIZE, SIZE), flip=crop.flip, out=out)


def _calling() -> Callable[[Crop], object]:
    """The kernel's call alone; no picture of the material is turned, so the box is where it is stored."""
    alone, out = Kernel(), np.empty((SIZE, SIZE, 3), np.uint8)
    return lambda crop: alone.jpeg(crop.data, crop.facts, crop.box, out, 2 if crop.flip else 1)


def _resizing(crops: list[Crop]) -> Callable[[Crop], object]:
    alone, out = Kernel(), np.empty((SIZE, SIZE, 3), np.uint8)
    high, wide = (max(side) for side in zip(*((crop.facts.height, crop.facts.width) for crop in crops), strict=True))
    pixels = np.random.default_rng(0).integers(0, 256, (high, wide, 3), np.uint8)

    def resize(crop: Crop) -> None:
        part = pixels[: int(crop.box.height), : int(crop.box.width)]
        alone.resize(part, Box(0, 0, part.shape[1], part.shape[0]), out, 2 if crop.flip else 1)

    return resize


def _whole(crop: Crop) -> object:
    return simplejpeg.decode_jpeg(crop.data, "GRAY" if crop.facts.mode == "L" else "RGB")

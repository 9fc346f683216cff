"""The short way of plain samples: read, cut and filled into the batch a chunk at a time, by C (`batched`).

Taken where one column has pictures with a crop of this package and the others have no pictures and no arrays, and
where samples go into the batch as they are (no transform=, no kept pictures). What was fetched is cut from where it
came to lie; what a cache on disk has, from its file. It makes what it can, and
names the slots that are left: these are made one by one as if nothing had been tried. So whatever is unusual about a
sample is decided and told in one place only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from loaders.crops import CenterCrop, Geometry, Mask, RandomResizedCrop, Resize, usual_side
from loaders.fields import FieldSpec
from loaders.job import BatchJob
from loaders.read import SampleReader
from wds_tools import codec
from wds_tools.errors import ShardstreamError
from wds_tools.pictures import decode
from wds_tools.pictures.batched import MOST_FIELDS, Batched, Cut, centre, entire, plain_name, random_part
from wds_tools.pictures.kernel import Kernel, capability
from wds_tools.pictures.options import Pictures
from wds_tools.sample import INDEX, KEY, SPECIAL, URL

__all__ = ["Counts", "Quick", "cut_of"]

_PATIENCE = 3  # chunks in a row of which most was left, and so read twice, before nothing is tried any more
_LABELS = 4096  # classes whose digits are remembered: decoding them costs more than all else of a label


class Counts(Protocol):
    """What is added to for each chunk (`make.Worker`)."""

    nbytes: int
    read_seconds: float


class Quick:
    """One thread's short way. Made by `of`, which knows where it can be taken.

    Attributes:
        looked_at: width and height of one picture of the chunk made last, and the shorter side that would do for its
            crop; None where there was none.
    """

    def __init__(self, specs: Sequence[FieldSpec], column: int, cut: Cut, pictures: Pictures) -> None:
        picture = specs[column]
        self.looked_at: tuple[int, int, int] | None = None
        self._column = column
        self._others = [(at, spec) for at, spec in enumerate(specs) if at != column]
        self._special = any(name in SPECIAL for _, spec in self._others for name in spec.alternatives)
        self._labels: dict[bytes, Any] = {}
        self._in_vain = 0
        self._columns = len(specs)
        self._side = usual_side(picture.slab_shape[:2]) if picture.slab_shape else 0
        kernel = Kernel(huffman=pictures.huffman)
        self._batched = Batched(kernel, picture.alternatives, _wanted(specs, column), cut, pictures)

    @classmethod
    def of(cls, specs: Sequence[FieldSpec], pictures: Pictures) -> Quick | None:
        """The short way for these columns; None where there is none."""
        columns = [at for at, spec in enumerate(specs) if spec.picture or spec.image is not None or spec.arrays]
        if len(columns) != 1 or decode.BACKENDS[0] != "kernel" or not capability().jpeg or pictures.icc != "ignore":
            return None
        picture, wanted = specs[columns[0]], _wanted(specs, columns[0])
        cut = cut_of(picture.image) if picture.picture and picture.slab_shape is not None else None
        short = len(picture.alternatives) <= MOST_FIELDS and len(wanted) <= MOST_FIELDS
        if cut is None or not short or not all(map(plain_name, [*picture.alternatives, *wanted])):
            return None
        return cls(specs, columns[0], cut, pictures)

    def make(self, job: BatchJob, slots: list[int], reader: SampleReader, counts: Counts) -> list[int]:
        """Make the samples of these slots that are plain; returns the slots that are left."""
        slab = job.slabs[self._column]
        self.looked_at = None
        if job.transformed or not isinstance(slab, np.ndarray) or not slots or self._in_vain == _PATIENCE:
            return slots
        which = _together(slots)
        numbers = job.samples[which]
        claims = None if job.claims is None else [job.claims[slot] for slot in slots]
        begun = time.perf_counter()
        with reader.lent(numbers, None if job.where is None else job.where[:, which], claims) as lent:
            counts.read_seconds += time.perf_counter() - begun
            lent.places[:, 0] = slots
            made = self._batched.make(lent.places, job.draws, slab, lent.memories)
        self.looked_at = (made.width, made.height, self._side) if made.width else None
        counts.read_seconds += made.read_nanoseconds * 1e-9
        counts.nbytes += made.nbytes
        found = zip(slots, made.samples, lent.urls, numbers.tolist(), strict=True)
        left = [slot for slot, sample, url, number in found if not self._put(job, slot, sample, url, number)]
        if claims is not None:  # what is left has its claim until it is made again
            job.release(slots if not left else [slot for slot in slots if slot not in left])
        self._in_vain = self._in_vain + 1 if 2 * len(left) > len(slots) else 0
        return left

    def _put(self, job: BatchJob, slot: int, found: tuple[str, dict[str, Any]] | None, url: str, number: int) -> bool:
        """Whether the other columns' values of a sample are there too."""
        if found is None:
            return False
        key, sample = found
        if self._special:
            sample[KEY], sample[URL], sample[INDEX] = key, url, number
        values: list[Any] = [None] * self._columns
        try:
            for at, spec in self._others:
                name = spec.find(sample)
                if name is not None:
                    values[at] = sample[name] if name in SPECIAL else self._decoded(name, sample[name])
        except ShardstreamError:  # said where it is made again
            return False
        job.keys[slot], job.urls[slot], job.values[slot] = key, url, values
        return True

    def _decoded(self, field: str, data: bytes) -> Any:
        label = self._labels.get(data) if field == "cls" else None
        if label is not None:
            return label
        value = codec.decode_field(field, data)
        if field == "cls" and len(self._labels) < _LABELS:
            self._labels[data] = value
        return value


def _together(slots: list[int]) -> slice | list[int]:
    """The same slots as numpy indexes fastest: all of a chunk, as nearly always, are a slice."""
    first, last = slots[0], slots[-1]
    return slice(first, last + 1) if last - first + 1 == len(slots) else slots


def _wanted(specs: Sequence[FieldSpec], column: int) -> list[str]:
    """What the other columns are made of, each once."""
    names = (name for at, spec in enumerate(specs) if at != column for name in spec.alternatives)
    return list(dict.fromkeys(name for name in names if name not in SPECIAL))


def cut_of(image: Geometry | Mask | None) -> Cut | None:
    """A crop of this package in numbers; None of any other, and of numbers that are none of Python's own."""
    if type(image) is Resize:
        return entire()
    if type(image) is CenterCrop:
        height, width = image.shape
        return centre(width, height, image.resize if image.resize is not None else usual_side(image.shape))
    if type(image) is RandomResizedCrop:
        numbers = (*image.scale, *image.ratio, image.flip)
        plain = all(type(number) in {int, float} for number in numbers)  # numpy's float32 makes narrower products
        return random_part(image.scale, image.ratio, image.flip) if plain else None
    return None

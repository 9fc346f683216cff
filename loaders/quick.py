"""The short way of plain samples: a chunk at a time read and filled into the batch, by C (`batched`).

Taken where one column has pictures with a crop of this package, or arrays as they are, and the others have neither, and
where samples go into the batch as they are (no transform=, no kept pictures). What was fetched is taken from where it
came to lie; what a cache on disk has, from its file. It makes what it can, and names the slots that are left: these are
made one by one as if nothing had been tried. So whatever is unusual about a sample is decided and told in one place
only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from loaders.crops import CenterCrop, Geometry, Mask, RandomResizedCrop, Resize, usual_side
from loaders.fields import FieldSpec
from loaders.job import BatchJob
from loaders.read import Lent, SampleReader
from loaders.stacked import ArrayColumn
from loaders.straight import Straight
from wds_tools import codec
from wds_tools.errors import ShardstreamError
from wds_tools.pictures import decode
from wds_tools.pictures.batched import (
    MOST_FIELDS,
    Batched,
    BatchedArrays,
    Cut,
    Made,
    centre,
    entire,
    plain_name,
    random_part,
)
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


class _Way(Protocol):
    """How the values of the one column come to lie in the batch."""

    side: int
    """The shorter side of a picture that would do for its crop; 0 where there are no pictures."""

    def memory(self, job: BatchJob) -> npt.NDArray[np.uint8] | None:
        """Where they go; None where that is not known, or somewhere else."""
        ...

    def make(self, job: BatchJob, lent: Lent, memory: npt.NDArray[np.uint8]) -> Made:
        """Put them there."""
        ...

    def value(self, job: BatchJob, slot: int) -> Any:
        """What the row of a sample has of it, once it is there."""
        ...


class _Pictures:
    """Pictures are cut into the batch."""

    def __init__(self, batched: Batched, column: int, side: int) -> None:
        self.side = side
        self._batched = batched
        self._column = column

    def memory(self, job: BatchJob) -> npt.NDArray[np.uint8] | None:
        slab = job.slabs[self._column]
        return slab if isinstance(slab, np.ndarray) else None

    def make(self, job: BatchJob, lent: Lent, memory: npt.NDArray[np.uint8]) -> Made:
        return self._batched.make(lent.places, job.draws, memory, lent.memories)

    def value(self, job: BatchJob, slot: int) -> Any:
        del job, slot  # the slab has it


class _Arrays:
    """Arrays are read into the batch, once one of them was seen."""

    side = 0

    def __init__(self, batched: BatchedArrays, column: int, straight: Straight) -> None:
        self._batched = batched
        self._column = column
        self._straight = straight
        self._head, self._begin = b"", 0

    def memory(self, job: BatchJob) -> npt.NDArray[np.uint8] | None:
        column, guess = job.slabs[self._column], self._straight.guess
        if guess is None or not isinstance(column, ArrayColumn):
            return None
        self._head, self._begin = guess.head, guess.begin
        return column.rows(guess.like)

    def make(self, job: BatchJob, lent: Lent, memory: npt.NDArray[np.uint8]) -> Made:
        del job  # nothing is drawn for arrays
        return self._batched.make(lent.places, memory, head=self._head, begin=self._begin, memories=lent.memories)

    def value(self, job: BatchJob, slot: int) -> Any:
        column = job.slabs[self._column]
        if isinstance(column, ArrayColumn):
            column.fill(slot)
            return column.row(slot)
        return None


class Quick:
    """One thread's short way. Made by `of`, which knows where it can be taken.

    Attributes:
        looked_at: width and height of one picture of the chunk made last, and the shorter side that would do for its
            crop; None where there was none.
    """

    def __init__(self, specs: Sequence[FieldSpec], column: int, way: _Way) -> None:
        self.looked_at: tuple[int, int, int] | None = None
        self._way = way
        self._column = column
        self._others = [(at, spec, spec.alternatives[0]) for at, spec in enumerate(specs) if at != column]
        self._special = any(name in SPECIAL for _, spec, _ in self._others for name in spec.alternatives)
        self._labels: dict[bytes, Any] = {}
        self._in_vain = 0
        self._columns = len(specs)

    @classmethod
    def of(cls, specs: Sequence[FieldSpec], pictures: Pictures, straight: Straight | None = None) -> Quick | None:
        """The short way for these columns; None where there is none.

        Args:
            specs: the columns.
            pictures: what pictures become.
            straight: knows where the arrays of one column lie in their samples.
        """
        columns = [at for at, spec in enumerate(specs) if spec.picture or spec.image is not None or spec.arrays]
        if len(columns) != 1 or decode.BACKENDS[0] != "kernel" or not capability().jpeg:
            return None
        column, wanted = columns[0], _wanted(specs, columns[0])
        names = specs[column].alternatives
        short = len(names) <= MOST_FIELDS and len(wanted) <= MOST_FIELDS
        if not short or not all(map(plain_name, [*names, *wanted])):
            return None
        way = _way(specs[column], column, wanted, pictures, straight)
        return None if way is None else cls(specs, column, way)

    def make(self, job: BatchJob, slots: list[int], reader: SampleReader, counts: Counts) -> list[int]:
        """Make the samples of these slots that are plain; returns the slots that are left."""
        self.looked_at = None
        memory = None if job.transformed or not slots or self._in_vain == _PATIENCE else self._way.memory(job)
        if memory is None:
            return slots
        which = _together(slots)
        numbers = job.samples[which]
        claims = None if job.claims is None else [job.claims[slot] for slot in slots]
        begun = time.perf_counter()
        with reader.lent(numbers, None if job.where is None else job.where[:, which], claims) as lent:
            counts.read_seconds += time.perf_counter() - begun
            lent.places[:, 0] = slots
            made = self._way.make(job, lent, memory)
        self.looked_at = (made.width, made.height, self._way.side) if made.width else None
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
            for at, spec, first in self._others:
                name = first if first in sample else spec.find(sample)
                if name is not None:
                    values[at] = sample[name] if name in SPECIAL else self._decoded(name, sample[name])
        except ShardstreamError:  # said where it is made again
            return False
        values[self._column] = self._way.value(job, slot)
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


def _way(
    spec: FieldSpec, column: int, wanted: Sequence[str], pictures: Pictures, straight: Straight | None
) -> _Way | None:
    """How a column's values come into the batch; None where there is no short way."""
    kernel = Kernel(huffman=pictures.huffman)
    if spec.stacked:
        fits = straight is not None and straight.column == column and not set(spec.alternatives) & set(wanted)
        return (
            _Arrays(BatchedArrays(kernel, spec.alternatives, wanted), column, straight) if straight and fits else None
        )
    cut = cut_of(spec.image) if spec.picture and spec.slab_shape is not None and pictures.icc == "ignore" else None
    if cut is None or spec.slab_shape is None:
        return None
    return _Pictures(Batched(kernel, spec.alternatives, wanted, cut, pictures), column, usual_side(spec.slab_shape[:2]))


def _together(slots: list[int]) -> slice | list[int]:
    """The same slots as numpy indexes fastest: all of a chunk in their order, as nearly always, are a slice."""
    first = slots[0]
    return slice(first, first + len(slots)) if slots == list(range(first, first + len(slots))) else slots


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

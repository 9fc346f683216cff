"""A chunk of a batch in one call: samples read, their members found, their pictures cut into rows of the batch, in C.

One at a time, a sample costs some 40 microseconds of Python beside the decoding (its members, the picture's header, the
crop, views and checks) and a dozen turns at the interpreter's lock. Here a chunk lets go of the lock once, and comes
back with keys and small fields: about 3 microseconds a sample.

Only what is plain is done so: a sample of plain members that comes in one read, whose picture is a whole JPEG of the
kinds that the kernel knows. Of all else nothing is decided here: it is left to be made from the beginning by the code
that knows every case, and says what is wrong with it. Both ways give the same bytes, crops included: the
arithmetic is the same, operation by operation (see `_pixels_place.c`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wds_tools.pictures.kernel import Kernel
from wds_tools.pictures.options import Pictures
from wds_tools.sample import SPECIAL, BytesLike

__all__ = ["MOST_FIELDS", "Batched", "BatchedArrays", "Cut", "Made", "centre", "entire", "plain_name", "random_part"]

MOST_FIELDS = 16
"""Members of a sample, alternatives of a column, and wanted fields, that the C code takes."""
_MOST_NAME = 64
_WHOLE, _CENTRE, _RANDOM = 0, 1, 2


class Cut(NamedTuple):
    """How pictures are cut, as numbers for C; made by `entire`, `centre` and `random_part`."""

    kind: int
    wide: float = 0.0
    high: float = 0.0
    shorter: float = 0.0
    flip: float = 0.0
    least: float = 0.0
    most: float = 0.0
    log_low: float = 0.0
    log_high: float = 0.0
    narrow: float = 0.0
    broad: float = 0.0


def entire() -> Cut:
    """The whole picture."""
    return Cut(_WHOLE)


def centre(width: int, height: int, shorter: float) -> Cut:
    """The middle, as wide and high in a picture whose shorter side were so long."""
    return Cut(_CENTRE, float(width), float(height), float(shorter))


def random_part(scale: tuple[float, float], ratio: tuple[float, float], flip: float) -> Cut:
    """A part of the area and the aspect drawn by chance, as Szegedy et al. (2015) do; see `loaders.RandomResizedCrop`.

    Of each row of draws, four are the flip's, then four for each of ten tries: area, aspect, left, top.
    """
    low, high = ratio
    return Cut(_RANDOM, 0.0, 0.0, 0.0, flip, *scale, math.log(low), math.log(high), low, high)


class Made(NamedTuple):
    """What came of a chunk.

    Attributes:
        samples: for each its key and its wanted fields, those that it has; None where it was left.
        nbytes: of the samples that were made, as they lie in their shards.
        read_nanoseconds: of wall clock, reading.
        width, height: of the first picture, upright; 0 where there was none.
    """

    samples: list[tuple[str, dict[str, Any]] | None]
    nbytes: int
    read_nanoseconds: int
    width: int
    height: int


class Batched:
    """One thread's way of making plain samples by the chunk.

    Args:
        kernel: of that thread.
        pictures: what the picture is called, the first that a sample has; each a `plain_name`.
        wanted: fields to be returned, likewise.
        cut: how it is cut.
        options: what pictures become; profiles are ignored.
    """

    def __init__(
        self, kernel: Kernel, pictures: Sequence[str], wanted: Sequence[str], cut: Cut, options: Pictures
    ) -> None:
        self._kernel = kernel
        self._how = (tuple(pictures), tuple(wanted), tuple(cut), options.orient, options.max_pixels)

    def make(
        self,
        places: npt.NDArray[np.int64],
        draws: npt.NDArray[np.float64] | None,
        out: npt.NDArray[np.uint8],
        memories: Sequence[BytesLike] = (),
    ) -> Made:
        """Make samples.

        Args:
            places: int64 (n, 4): the row of `out` and of `draws`, a descriptor, and where the sample begins and ends.
                A descriptor of -1 - m means `memories[m]`. A sample of no bytes is left.
            draws: float64 (m, 44), uniform numbers; None where the cut needs none.
            out: uint8 (m, height, width, 3), without gaps. The rows of samples that are left are undefined.
            memories: bytes in which samples lie that are in no file.
        """
        return Made(*self._kernel.samples(places, tuple(memories), draws, out, *self._how))


class BatchedArrays:
    """The same for samples with an npy array in place of a picture, all of one kind: put into the batch as they are.

    Args:
        kernel: of that thread.
        fields: what the array is called, the first that a sample has; each a `plain_name`.
        wanted: other fields to be returned, likewise.
    """

    def __init__(self, kernel: Kernel, fields: Sequence[str], wanted: Sequence[str]) -> None:
        self._kernel = kernel
        self._fields, self._wanted = tuple(fields), tuple(wanted)

    def make(
        self,
        places: npt.NDArray[np.int64],
        out: npt.NDArray[np.uint8],
        *,
        head: bytes,
        begin: int,
        memories: Sequence[BytesLike] = (),
    ) -> Made:
        """Make samples.

        Args:
            places: as in `Batched.make`.
            out: uint8 (m, bytes of an array), without gaps. The rows of samples that are left are undefined.
            head: what the data of such a field begins with, up to the first element. Other arrays are left.
            begin: where in a sample the first element is expected: read straight from there if it is so.
            memories: as in `Batched.make`.
        """
        return Made(*self._kernel.arrays(places, tuple(memories), out, self._fields, self._wanted, head, begin))


def plain_name(field: str) -> bool:
    """Whether a field has a name that C compares as Python does."""
    return field not in SPECIAL and field.isascii() and 0 < len(field) <= _MOST_NAME and field == field.lower()

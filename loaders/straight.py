"""Arrays from the disk straight to their place in the batch, without a copy in between.

Read into the thread's buffer and then copied, an array of 224 x 224 x 3 bytes costs 38 microseconds of a core; read to
its place 13 to 20 (memcpy between two places in memory: 9 to 14). But where the array lies in a sample is known only
when the sample was read. So it is guessed from the sample before, for a dataset's samples are alike: one positioned
read puts what lies before the array into the buffer, the array into the batch, what lies behind it into the buffer. The
buffer then has a hole where the array would be. Its headers are read as ever, and say whether the array is exactly
there, and described by the same header: a member is found by walking over those before it, so none that counts can
have its header in the hole. If it is not there, the hole is filled with what was read, and the sample is read as if
nothing had been guessed.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from loaders.stacked import ArrayColumn, Like
from wds_tools import codec
from wds_tools.errors import ShardstreamError
from wds_tools.sample import BytesLike, RawSample

__all__ = ["Guess", "Hole", "InPlace", "Straight", "address_of"]

Array: TypeAlias = npt.NDArray[Any]

_PATIENCE = 3  # wrong guesses in a row, each of which costs a copy, before there are no more


class InPlace(NamedTuple):
    """What a raw sample has in place of an array's bytes: the array, which lies in the batch already."""

    array: Array


class Guess(NamedTuple):
    """How the last sample was made up: its array's field, what the npy data begins with, where the array began."""

    field: str
    head: bytes
    begin: int
    like: Like


class Hole(NamedTuple):
    """The part of a sample that is read to another place.

    Attributes:
        guess: what it is expected to be.
        buffer: where the sample begins in memory.
        row: where the part goes.
        memory: the same as bytes.
        column: whose row that is.
        slot: which.
    """

    guess: Guess
    buffer: int
    row: Array
    memory: memoryview
    column: ArrayColumn
    slot: int

    def around(self, data: memoryview) -> list[memoryview]:
        """Where the parts of the sample go, in the order in which they lie."""
        begin, memory = self.guess.begin, self.memory
        return [data[:begin], memory, data[begin + len(memory) :]]

    def fill(self, data: memoryview) -> None:
        """Put into the sample what was read to the other place."""
        begin = self.guess.begin
        data[begin : begin + len(self.memory)] = self.memory

    def accept(self, sample: RawSample) -> bool:
        """Whether the sample's array lies in the hole, as it should; the sample then has it in place."""
        guess, head = self.guess, len(self.guess.head)
        data = sample.get(guess.field)
        if data is None or len(data) != head + len(self.memory) or bytes(data[:head]) != guess.head:
            return False
        if _address(data) + head != self.buffer + guess.begin:
            return False
        self.column.fill(self.slot)
        sample[guess.field] = InPlace(self.row)
        return True


def _address(data: BytesLike) -> int:
    return address_of(np.frombuffer(data, np.uint8))


def address_of(array: Array) -> int:
    """Where an array's first element lies in memory."""
    address: int = array.__array_interface__["data"][0]
    return address


class Straight:
    """One thread's guess of where the array of the next sample lies.

    Args:
        column: which of a job's columns.
        fields: what the array may be called, the first that a sample has.
    """

    def __init__(self, column: int, fields: tuple[str, ...]) -> None:
        self.column = column
        self._fields = fields
        self._guess: Guess | None = None
        self._wrong = 0

    @property
    def guess(self) -> Guess | None:
        """How the next sample is expected to be made up; None where nobody knows."""
        return self._guess

    def hole(self, column: ArrayColumn, slot: int, nbytes: int, buffer: int) -> Hole | None:
        """What of a sample of so many bytes is worth reading to its place; None where that is not known.

        Args:
            column: of the batch.
            slot: of the sample.
            nbytes: of the sample.
            buffer: where the thread's buffer lies in memory.
        """
        guess = self._guess
        row = column.row(slot) if guess is not None and guess.like == column.like else None
        if guess is None or row is None or guess.begin + row.nbytes > nbytes:
            return None
        return Hole(guess, buffer, row, row.reshape(-1).view(np.uint8).data, column, slot)

    def learn(self, data: memoryview, sample: RawSample, *, guessed: bool) -> None:
        """Note where the array of a sample lies, and whether the guess was right.

        Args:
            data: the sample as it was read.
            sample: its fields, views on that.
            guessed: whether there was a guess.
        """
        if guessed and self._guess is not None and isinstance(sample.get(self._guess.field), InPlace):
            self._wrong = 0
            return
        self._wrong += guessed
        self._guess = self._found(data, sample) if self._wrong < _PATIENCE else None

    def _found(self, data: memoryview, sample: RawSample) -> Guess | None:
        field = next((field for field in self._fields if field in sample), None)
        with contextlib.suppress(ShardstreamError):  # said where the field is decoded
            array = codec.view_array(field, sample[field]) if field is not None else None
            if field is not None and array is not None and array.nbytes and array.flags.c_contiguous:
                head = bytes(sample[field][: len(sample[field]) - array.nbytes])
                return Guess(field, head, address_of(array) - _address(data), (array.dtype, array.shape))
        return None

"""tf.train.Example without TensorFlow: the four messages of example.proto and feature.proto, read from their bytes.

    message BytesList { repeated bytes value = 1; }          message Feature { oneof kind {
    message FloatList { repeated float value = 1; }              BytesList bytes_list = 1;
    message Int64List { repeated int64 value = 1; }              FloatList float_list = 2;
    message Features { map<string, Feature> feature = 1; }       Int64List int64_list = 3; } }
    message Example { Features features = 1; }

The wire format is that of protobuf's published encoding: a varint of (field number * 8 + wire type), then a varint (0),
8 bytes (1), a length and as many bytes (2), or 4 bytes (5). Lists of numbers come packed or one by one. Fields that are
not known are passed over, the last of several single values counts, as the specification asks of readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from wds_tools.errors import FieldError

__all__ = ["Feature", "read_example"]

Feature: TypeAlias = "list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]"
"""The values of one feature: bytes, floats (n,) or whole numbers (n,)."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_SIZES = {_EIGHT: 8, _FOUR: 4}
_WORD = (1 << 64) - 1

_Value: TypeAlias = "int | memoryview"


def read_example(data: bytes) -> dict[str, Feature]:
    """The features of one serialized Example, by name.

    Raises:
        FieldError: the bytes are none.
    """
    found: dict[str, Feature] = {}
    for number, features in _fields(memoryview(data)):
        if number == 1:
            for inner, entry in _fields(_message(features)):
                if inner == 1:
                    name, feature = _entry(_message(entry))
                    found[name] = feature
    return found


def _entry(view: memoryview) -> tuple[str, Feature]:
    name, feature = "", memoryview(b"")
    for number, value in _fields(view):
        if number == 1:
            name = _text(_message(value))
        elif number == 2:
            feature = _message(value)
    return name, _feature(feature)


def _feature(view: memoryview) -> Feature:
    values: Feature = []
    for number, value in _fields(view):
        if number == 1:
            values = [bytes(_message(item)) for inner, item in _fields(_message(value)) if inner == 1]
        elif number == 2:
            values = _floats(_message(value))
        elif number == 3:
            values = np.array(list(_numbers(_message(value))), np.int64)
    return values


def _floats(view: memoryview) -> npt.NDArray[np.float32]:
    parts = [_message(item) for number, item in _fields(view) if number == 1]
    data = b"".join(parts)
    if len(data) % 4:
        raise FieldError(f"a list of floats of {len(data)} bytes, which is no multiple of 4")
    return np.frombuffer(data, "<f4").astype(np.float32)


def _numbers(view: memoryview) -> Iterator[int]:
    for number, item in _fields(view):
        if number != 1:
            continue
        if isinstance(item, int):
            yield _signed(item)
            continue
        place = 0
        while place < len(item):
            value, place = _varint(item, place)
            yield _signed(value)


def _fields(view: memoryview) -> Iterator[tuple[int, _Value]]:
    """Number and value of each field of a message; 4 and 8 bytes come as bytes."""
    place, end = 0, len(view)
    while place < end:
        tag, place = _varint(view, place)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise FieldError("no tf.train.Example: a field with the number 0")
        if kind == _VARINT:
            value, place = _varint(view, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _varint(view, place)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise FieldError(f"no tf.train.Example: a field of the wire type {kind}")
        if size > end - place:
            raise FieldError(f"no tf.train.Example: a field of {size:,} bytes where {end - place:,} are left")
        yield number, view[place : place + size]
        place += size


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for count in range(10):
        if place + count >= len(view):
            break
        byte = view[place + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value & _WORD, place + count + 1
    raise FieldError("no tf.train.Example: a number that does not end")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _message(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise FieldError("no tf.train.Example: a number where a message is expected")
    return value


def _text(view: memoryview) -> str:
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError as error:
        raise FieldError(f"no tf.train.Example: the name of a feature is no UTF-8: {bytes(view[:40])!r}") from error

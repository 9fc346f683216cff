"""From what people have in a file to what a field holds: arrays and tensors to pictures, labels and `npy`.

Bytes whose kind is the field's are passed on unchanged once they have been found to be of that kind; what differs is
decoded by the codec table of wds_tools and made into the other kind, or refused. Nothing is guessed: floats are no
labels, and an array of floats is no picture.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from wds_tools.codec import decode_field, encode_field, kind_of
from wds_tools.errors import FieldError, ShardstreamError, UsageError
from wds_tools.sample import BytesLike

__all__ = ["Layout", "check_layout", "converted", "encoded", "extended", "whole_number"]

Layout: TypeAlias = Literal["hwc", "chw"]
"""Where the channels of a picture's array lie: last or first."""

_CHANNELS = {1, 2, 3, 4}
_CHECKED = {"int", "text", "json", "jsonl", "pt", "npy"}
"""Kinds whose bytes are decoded although they stay as they are. Pictures are checked by packing itself."""

NEEDS_CODE = (
    "Load it where you trust it, and save plain tensors: "
    "torch.save(torch.load(path, weights_only=False)['image'], path), for example."
)


def check_layout(layout: Layout | None) -> Layout | None:
    """The layout itself, if it is one or None.

    Raises:
        UsageError: it is not.
    """
    if layout is not None and layout not in get_args(Layout):
        raise UsageError(f"layout is {layout!r}, expected 'hwc', 'chw' or None")
    return layout


def extended(field: str, extension: str) -> str:
    """The field's name with the file's extension behind it, where it does not say what it holds: `a` -> `a.pt`."""
    return field if kind_of(field) != "bytes" or not extension else f"{field}.{extension}"


def converted(data: bytes, source: str, field: str, layout: Layout | None = None) -> bytes:
    """A file's bytes as the bytes of a field.

    Args:
        data: the whole file.
        source: what the file's extension is, such as "pt".
        field: such as "cls", "a.npy" or "png".
        layout: of arrays of three dimensions that become pictures or `npy`; see `encoded`.

    Raises:
        SampleError: the file does not hold what its extension says.
        FieldError, FieldRefusedError: what it holds does not go into the field.
    """
    kind = kind_of(source)
    if kind == kind_of(field) and not (kind == "npy" and layout == "chw"):
        if kind in _CHECKED:
            _decoded(data, source)
        return data
    if kind == "bytes":
        return data if kind_of(field) == "picture" else encoded(field, _decoded(data, field), layout)
    return encoded(field, _decoded(data, source), layout)


def encoded(field: str, value: object, layout: Layout | None = None) -> bytes:
    """A value as the bytes of a field.

    Args:
        field: such as "cls", "npy" or "png".
        value: what the codec table takes; for whole numbers also arrays and tensors of one element, for pictures also
            arrays with the channels first.
        layout: "chw" puts the channels of an array of three dimensions last, for `npy` too; "hwc" leaves it; None
            leaves `npy` as it is and looks at the shape where a picture is made.

    Raises:
        FieldError, FieldRefusedError: the value does not go into the field.
    """
    kind = kind_of(field)
    if kind == "int":
        value = whole_number(value)
    elif kind in {"picture", "npy"} and hasattr(value, "__array__") and not hasattr(value, "getexif"):
        value = _channels_last(_array(value), layout, guess=kind == "picture")
    return encode_field(field, value)


def whole_number(value: object) -> object:
    """The int in an array or tensor of one element; any other value as it is, for the field to judge.

    Raises:
        FieldError: an array of floats, of several elements or of none.
    """
    if isinstance(value, np.generic) or not hasattr(value, "__array__"):
        return value
    array = _array(value)
    if array.size != 1 or not np.issubdtype(array.dtype, np.integer):
        raise FieldError(
            f"a whole number is expected, found an array of {array.dtype} {array.shape}",
            cure="A vector or a number with a fraction goes into a field such as label.npy.",
        )
    return int(array.reshape(()))


def _decoded(data: BytesLike, source: str) -> object:
    try:
        return decode_field(source, data)
    except ShardstreamError as error:
        if kind_of(source) == "pt":
            error.at(cure=NEEDS_CODE)
        raise


def _array(value: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except (TypeError, RuntimeError, ValueError) as error:  # tensors of bfloat16, on a device, with a gradient
        raise FieldError(f"{type(value).__name__} cannot become an array: {error}") from error


def _channels_last(array: np.ndarray[Any, Any], layout: Layout | None, *, guess: bool) -> np.ndarray[Any, Any]:
    if array.ndim != 3 or layout == "hwc":
        return array
    first = array.shape[0] in _CHANNELS and array.shape[2] not in _CHANNELS
    return array.transpose(1, 2, 0) if layout == "chw" or (guess and first) else array

"""What a field holds, in a few words, in full, and as a picture where it is one.

Nothing hides: what does not decode is shown with its error, and with how its bytes begin. Nothing is run and little is
loaded: pickles are not opened, a text is cut after 20,000 characters and said to be.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wds_tools import codec
from wds_tools.errors import ShardstreamError, counted
from wds_tools.fields.gzipped import decompress
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.sample import SPECIAL, BytesLike, RawSample
from wds_tools.show import thumbnail
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.words import one_line

__all__ = ["Value", "on_host", "show_field", "show_sample", "show_value"]

_MOST_TEXT = 20_000
_MOST_PICTURES = 8  # of the arrays of one field
_BEGINNING = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """One field as people see it.

    Attributes:
        name: of the field.
        kind: "picture", "int" and so on, as `codec.kind_of`; "mask" for a picture that is one.
        bytes: of the field, None where it was made of a decoded value.
        summary: one short line.
        text: all of it, in several lines; empty where the summary says all.
        thumbnails: of a picture, or of arrays that are pictures.
        size: width and height of a picture.
        format: of a picture, by its content: "jpeg" and so on.
        number: what an int field holds.
        error: why it does not decode, else empty.
    """

    name: str
    kind: str
    bytes: int | None
    summary: str
    text: str = ""
    thumbnails: Sequence[Thumbnail] = ()
    size: tuple[int, int] | None = None
    format: str = ""
    number: int | None = None
    error: str = ""


def show_sample(
    raw: RawSample, *, side: int, decoder: Decoder, classes: Sequence[str] | None = None
) -> dict[str, Value]:
    """Each field of a raw sample, by name, in its order; see `show_field`."""
    return {
        name: show_field(name, data, side=side, decoder=decoder, classes=classes)
        for name, data in raw.items()
        if name not in SPECIAL
    }


def show_field(
    name: str, data: BytesLike, *, side: int, decoder: Decoder, classes: Sequence[str] | None = None
) -> Value:
    """One field of a raw sample.

    Args:
        name: of the field, which says what its bytes are.
        data: its bytes.
        side: pixels of a thumbnail's longer side, at most.
        decoder: of the calling thread.
        classes: their names by label, for int fields.
    """
    kind = codec.kind_of(name)
    try:
        if kind == "picture":
            return _picture(name, data, side=side, decoder=decoder)
        if kind == "bytes":
            return Value(name=name, kind=kind, bytes=len(data), summary=_beginning(data))
        if kind == "pickle":
            return Value(name=name, kind=kind, bytes=len(data), summary="not opened: a pickle may run anything")
        value = codec.decode_field(name, data)
    except ShardstreamError as error:
        summary = f"cannot be read; begins with {_beginning(data)}"
        return Value(name=name, kind=kind, bytes=len(data), summary=summary, error=error.problem)
    return show_value(name, value, kind=kind, nbytes=len(data), side=side, classes=classes)


def show_value(
    name: str,
    value: object,
    *,
    kind: str = "",
    nbytes: int | None = None,
    side: int,
    classes: Sequence[str] | None = None,
) -> Value:
    """A decoded value; `kind` and `nbytes` where it came from a field."""
    kind = kind or type(value).__name__
    if isinstance(value, int) and not isinstance(value, bool):
        known = classes is not None and 0 <= value < len(classes)
        summary = f"{value} ({classes[value]})" if classes is not None and known else str(value)
        return Value(name=name, kind=kind, bytes=nbytes, summary=summary, number=value)
    if isinstance(value, str):
        short = one_line(value)
        return Value(name=name, kind=kind, bytes=nbytes, summary=short, text="" if short == value else _cut(value))
    arrays = _arrays(value)
    if arrays is not None:
        return _of_arrays(name, kind, nbytes, arrays, side)
    text = _pretty(value)
    short = one_line(text)
    return Value(name=name, kind=kind, bytes=nbytes, summary=short, text="" if short == text else text)


def _picture(name: str, data: BytesLike, *, side: int, decoder: Decoder) -> Value:
    stored = decompress(data) if name.endswith(".gz") else data
    facts = read_facts(stored)
    size = decoder.size(facts)
    words = [f"{facts.format} {size[0]} x {size[1]}", f"{facts.mode}{f', {facts.bits} bits' if facts.bits > 8 else ''}"]
    words += ["progressive"] if facts.progressive else []
    words += [f"EXIF orientation {facts.orientation}"] if facts.orientation != 1 else []
    words += ["colour profile"] if facts.icc else []
    seen = Value(name=name, kind="picture", bytes=len(data), summary="", size=size, format=facts.format)
    try:
        small = thumbnail.of_picture(stored, side=side, decoder=decoder)
    except ShardstreamError as error:
        return replace(seen, summary=", ".join(words), error=error.problem)
    words += [_values(small.labels)] if small.labels else []
    return replace(seen, kind="mask" if small.labels else "picture", summary=", ".join(words), thumbnails=(small,))


def _values(labels: Sequence[int]) -> str:
    if len(labels) <= 12:
        return f"values {', '.join(map(str, labels))}"
    return f"{len(labels)} values from {labels[0]} to {labels[-1]}"


def _arrays(value: object) -> dict[str, np.ndarray[Any, Any]] | None:
    """Arrays by name, "" for a single one; None for what is no array."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return {"": on_host(value)}
    if isinstance(value, Mapping) and value and all(hasattr(each, "shape") for each in value.values()):
        return {str(key): on_host(each) for key, each in value.items()}
    return None


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """An array, or a tensor wherever it lies, without importing torch for it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def _of_arrays(
    name: str, kind: str, nbytes: int | None, arrays: Mapping[str, np.ndarray[Any, Any]], side: int
) -> Value:
    lines = [f"{f'{key}: ' if key else ''}{_array(array)}" for key, array in arrays.items()]
    pictures = [thumbnail.of_array(array, side=side) for array in list(arrays.values())[:_MOST_PICTURES]]
    return Value(
        name=name,
        kind=kind,
        bytes=nbytes,
        summary=lines[0] if len(lines) == 1 else f"{len(lines)} arrays: {one_line('; '.join(lines))}",
        text="" if len(lines) == 1 else _cut("\n".join(lines)),
        thumbnails=[each for each in pictures if each is not None],
    )


def _array(array: np.ndarray[Any, Any]) -> str:
    line = f"{array.dtype} {array.shape}"
    if not array.size or array.dtype.kind not in "iufb":
        return line
    if array.size <= 8:
        return f"{line}: {one_line(str(array.tolist()))}"
    with np.errstate(all="ignore"):  # infinities and overflows are shown, not warned of
        low, high, mean = array.min(), array.max(), array.mean(dtype=np.float64)
    return f"{line}, {low:g} to {high:g}, mean {mean:.4g}"


def _pretty(value: object) -> str:
    try:
        return _cut(json.dumps(value, indent=2, ensure_ascii=False, default=reprlib.repr))
    except (TypeError, ValueError, RecursionError):
        return _cut(reprlib.repr(value))


def _cut(text: str) -> str:
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_MOST_TEXT]}\n... ({counted(len(text) - _MOST_TEXT, 'more character')})"


def _beginning(data: BytesLike) -> str:
    more = " ..." if len(data) > _BEGINNING else ""
    return f"{bytes(data[:_BEGINNING])!r}{more}" if len(data) else "nothing"

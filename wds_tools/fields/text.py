"""Whole numbers, text and JSON: fields that a person can read in the shard.

Text is UTF-8, strictly: a byte order mark at the start is removed, other encodings are an error that says which one it
looks like. JSON is read as Python reads it (`NaN` too; of equal names the last counts) but written so that every reader
takes it: `NaN` is refused. numpy scalars and arrays are written as numbers and lists.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.sample import BytesLike

__all__ = [
    "decode_int",
    "decode_json",
    "decode_jsonl",
    "decode_text",
    "encode_int",
    "encode_json",
    "encode_jsonl",
    "encode_text",
]

_WHOLE = re.compile(rb"\s*([+-]?[0-9]{1,300})\s*")
_MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def decode_int(data: BytesLike) -> int:
    """A whole number in decimal digits; white space around it is tolerated.

    Raises:
        FieldError: anything else, such as a float or a word.
    """
    found = _WHOLE.fullmatch(data)
    if not found:
        raise FieldError(f"a whole number is expected, found {bytes(data[:40])!r}")
    return int(found[1])


def encode_int(value: object) -> bytes:
    """Write an int or a numpy integer.

    Raises:
        FieldRefusedError: a bool, a float or anything else that would not come back as the same whole number.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise FieldRefusedError(f"a whole number is expected, not {_shown(value)}", cure="Convert it with int().")
    return b"%d" % int(value)


def decode_text(data: BytesLike) -> str:
    """UTF-8 text without its byte order mark.

    Raises:
        FieldError: bytes that are no UTF-8; the message says where, and what they look like.
    """
    try:
        return bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FieldError(_no_utf8(bytes(data), error), cure="Convert the text to UTF-8.") from error


def _no_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return f"text is no UTF-8: it begins with the byte order mark of {name}"
    return f"text is no UTF-8: byte 0x{data[error.start]:02x} at {error.start} (Latin-1 or a Windows code page?)"


def encode_text(value: object) -> bytes:
    """Write a str as UTF-8.

    Raises:
        FieldRefusedError: no str, or one with lone surrogates.
    """
    if not isinstance(value, str):
        raise FieldRefusedError(f"text is expected, not {_shown(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise FieldRefusedError(f"text with a lone surrogate at {error.start} is no UTF-8") from error


def decode_json(data: BytesLike) -> Any:
    """The object that a JSON text describes.

    Raises:
        FieldError: no JSON, or nested deeper than the interpreter allows.
    """
    text = decode_text(data)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"JSON does not decode: {error}") from error


def encode_json(value: object) -> bytes:
    """Write an object as compact JSON in UTF-8.

    Raises:
        FieldRefusedError: values that JSON does not have: NaN, infinity, bytes, sets, circles.
    """
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FieldRefusedError(f"not to be written as JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{_shown(value)} has no form in JSON")


def decode_jsonl(data: BytesLike) -> list[Any]:
    """The list of what each line describes; empty lines do not count.

    Raises:
        FieldError: a line that is no JSON; the message names it.
    """
    found = []
    for number, line in enumerate(decode_text(data).split("\n"), start=1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise FieldError(f"line {number} of JSON lines does not decode: {error}") from error
    return found


def encode_jsonl(value: object) -> bytes:
    """Write a list, one JSON text a line.

    Raises:
        FieldRefusedError: no list, or an entry that JSON does not have.
    """
    if not isinstance(value, list | tuple):
        raise FieldRefusedError(f"a list is expected, not {_shown(value)}")
    return b"".join(encode_json(entry) + b"\n" for entry in value)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.40}"

"""What a member's name says: key, field, metadata or litter; and which names the writer refuses.

A name's key is everything up to the first dot after the last slash, its field the rest, lower-cased. That is the
rule that webdataset publishes, with two silences ended: names that make no sample are told apart by kind, so that
readers can count them, and `dir/.hidden.jpg` makes none (webdataset gives it the key `dir/`).

The reader takes what it finds, since the shards are there. The writer (`check_key`, `check_field`) takes only names
that every reader splits in the same way, that stay inside the directory they are extracted to, and that print.
Everything here is pure: strings in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from wds_tools.errors import FieldRefusedError, KeyRefusedError, shown

__all__ = ["MAX_FIELD", "MAX_KEY", "check_field", "check_key", "is_litter", "is_metadata", "near_field", "split_name"]

MAX_KEY = 1024
"""Bytes of UTF-8. Every reader tried takes 300 and more; `tar x` needs 255 or less between two slashes."""
MAX_FIELD = 128
"""Bytes of UTF-8."""

_METADATA = re.compile(r"__[^/]*__(?:$|/)")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def split_name(name: str) -> tuple[str, str] | None:
    """The key and the lower-cased field of a member's name.

    Returns:
        None where the name makes no sample: no dot after the last slash, or nothing before it. A name that ends
        with its first dot has the empty field.
    """
    base = name.rfind("/") + 1
    dot = name.find(".", base)
    return None if dot <= base else (name[:dot], name[dot + 1 :].lower())


def is_metadata(name: str) -> bool:
    """Whether the member is metadata of the shard: `__name__`, or anything in a top folder of that form."""
    return name.startswith("__") and _METADATA.match(name) is not None


def is_litter(name: str) -> bool:
    """Whether the member is what macOS archivers add: `._name` beside each file, and the folder `__MACOSX`."""
    return name.startswith(("__MACOSX/", "./__MACOSX/")) or name.startswith("._", name.rfind("/") + 1)


def near_field(wanted: str, present: Iterable[str]) -> str | None:
    """The field that somebody who misses `wanted` may have meant: the first that ends with it behind a dot.

    A dot in a base name ("Track 2.0 (Clean).mp3") makes the key end early and the field long ("0 (clean).mp3"). The
    error about the missing field names what this returns.
    """
    ending = "." + wanted.lower()
    return next((field for field in present if field.endswith(ending)), None)


def check_key(key: str) -> None:
    """Accept a key for writing, or say why not.

    Raises:
        KeyRefusedError: the message names the reason and the cure.
    """
    if type(key) is str and len(key) <= MAX_KEY and _SIMPLE_KEY.fullmatch(key) and "__" not in key:
        return  # as nearly all are: a tenth of the time
    fault = _key_fault(key)
    if fault is not None:
        problem, cure = fault
        raise KeyRefusedError(f"the key {shown(key)} {problem}", cure=cure)


def check_field(field: str) -> None:
    """Accept a field's name for writing, or say why not.

    Raises:
        FieldRefusedError: the message names the reason and the cure.
    """
    fault = _field_fault(field)
    if fault is not None:
        problem, cure = fault
        raise FieldRefusedError(f"the field name {shown(field)} {problem}", cure=cure)


_Fault = tuple[str, str] | None  # what is wrong, and the cure


def _key_fault(key: object) -> _Fault:
    if not isinstance(key, str):
        return f"is of type {type(key).__name__}, not str", "Give a str, such as f'{number:08d}'."
    if not key:
        return "is empty", "Give each sample a name, such as f'{number:08d}'."
    return _text_fault(key, MAX_KEY, "key") or _path_fault(key) or _clash(key)


def _text_fault(text: str, limit: int, what: Literal["key", "field name"]) -> _Fault:
    if _CONTROL.search(text):
        return "holds a control character", "Leave out NUL, line breaks, tabs and the like."
    if _SURROGATE.search(text):
        return (
            "is not UTF-8 (it holds surrogates)",
            "Decode the name with its real encoding first, or number the samples.",
        )
    if len(text.encode()) > limit:
        return f"is longer than {limit} bytes", f"Shorten the {what}; put what it says into a json or txt field."
    return None


def _path_fault(key: str) -> _Fault:
    if "\\" in key:
        return "holds a backslash", "Separate folders by '/'."
    if key.startswith("/"):
        return "is absolute", "Make it relative: leave out the leading '/'."
    if key.endswith("/"):
        return "ends with a slash and so has no base name", "Add a base name behind the slash."
    parts = key.split("/")
    if ".." in parts or "." in parts:
        return "has '.' or '..' as a folder", "Give the path from the dataset's root, without '.' and '..'."
    if "" in parts:
        return "has two slashes in a row", "Leave one."
    return None


def _clash(key: str) -> _Fault:
    base = key.rpartition("/")[2]
    if base.startswith("._") or "__MACOSX" in key.split("/"):
        return "looks like what macOS archivers add, which readers skip", "Choose a name without '._' and '__MACOSX'."
    if "." in base:
        return (
            "has a dot in its base name, where readers would end the key",
            "Put another sign for it, such as key.replace('.', '_'); dots in folder names are fine.",
        )
    if _METADATA.match(key):
        return (
            "has the form '__name__', which readers take for metadata and skip",
            "Choose a name without '__' around it.",
        )
    return None


def _field_fault(field: object) -> _Fault:
    if not isinstance(field, str):
        return f"is of type {type(field).__name__}, not str", "Give a str, such as 'jpg' or 'cls'."
    if not field:
        return "is empty", "Name the kind of data, such as 'jpg' or 'cls'."
    if "/" in field or "\\" in field:
        return "holds a slash", "Put folders into the key."
    if "" in field.split("."):
        return "begins or ends with a dot, or has two in a row", f"Write {'.'.join(filter(None, field.split('.')))!r}."
    return _text_fault(field, MAX_FIELD, "field name") or _field_clash(field)


def _field_clash(field: str) -> _Fault:
    if field != field.lower():
        return "has upper-case letters, which readers lower", f"Write {field.lower()!r}."
    if field.startswith("__") or field.endswith("__"):
        return "begins or ends with '__', which is kept for metadata", "Leave out the '__'."
    return None

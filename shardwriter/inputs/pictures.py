"""The field of a picture whose bytes carry no name: by what they begin with."""

from __future__ import annotations

from wds_tools.codec import PICTURE_FIELDS
from wds_tools.errors import FieldError
from wds_tools.pictures.sniff import describe, sniff

__all__ = ["picture_field"]

_NAMES = {"jpeg": "jpg"}


def picture_field(field: str, data: bytes) -> tuple[str, bytes]:
    """`seg.jpg` and the bytes of a PNG -> `seg.png` and these.

    Raises:
        FieldError: the bytes are no picture that is known.
    """
    found = sniff(data)
    name = _NAMES.get(found, found)
    if name not in PICTURE_FIELDS:
        raise FieldError(f"a picture is expected, found {describe(data)}", field=field)
    head, dot, _ = field.rpartition(".")
    return f"{head}{dot}{name}", data

"""Whether the pictures of a sample can be shown and its labels are whole numbers, found out before they are packed.

"header" (the default) reads each picture's header and looks for its end: no picture, an unknown format, too many
pixels, truncated. "decode" decodes all of it as well, which finds damage in the middle, at the speed of the decoder.
Readers hold pictures against the same rules (wds_tools.pictures), so what passes "decode" here decodes there.
"""

from __future__ import annotations

import threading
from typing import Literal, NamedTuple, TypeAlias, get_args

from wds_tools.codec import kind_of
from wds_tools.errors import (
    FieldError,
    MissingFieldError,
    PictureTooLargeError,
    SampleError,
    TruncatedPictureError,
    UnsupportedPictureError,
    UsageError,
)
from wds_tools.fields.text import decode_int
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import Facts, Shape, check_size, check_whole, read_facts
from wds_tools.pictures.options import Pictures
from wds_tools.pictures.shape import shape_reader
from wds_tools.sample import SPECIAL, BytesLike, Sample

__all__ = ["Check", "Checked", "Checker", "failure_kind"]

Check: TypeAlias = Literal["header", "decode"]

_EXTENSIONS = {"jpg": "jpeg", "tif": "tiff", "pgm": "ppm", "pbm": "ppm", "pnm": "ppm"}
"""Extensions that differ from the name of their format."""


class Checked(NamedTuple):
    """What was seen of a sample.

    Attributes:
        pictures: the format and the size of each picture, by field.
        misnamed: how many pictures are of another format than their field says.
    """

    pictures: dict[str, Facts | Shape]
    misnamed: int


class Checker:
    """Checks samples, from any thread.

    Args:
        check: how far, "header" or "decode".
        pictures: the limit of pixels among others, as for the readers to come.
    """

    def __init__(self, check: Check, pictures: Pictures) -> None:
        if check not in get_args(Check):
            raise UsageError(f"check is {check!r}, expected one of {', '.join(map(repr, get_args(Check)))}")
        self._pictures = pictures
        self._read = self._decoded if check == "decode" else shape_reader(pictures.max_pixels)
        self._kinds: dict[str, str] = {}
        self._threads = threading.local()  # a decoder owns memory, so each thread has its own

    def check(self, sample: Sample) -> Checked:
        """Accept the bytes of pictures and labels; other values are left to the writer, which encodes them.

        Raises:
            PictureError, FieldError: with the field, and what is wrong.
        """
        misnamed = 0
        pictures: dict[str, Facts | Shape] = {}
        for field, data in sample.items():
            if field in SPECIAL or not isinstance(data, bytes | memoryview):
                continue
            kind = self._kinds.get(field) or self._kind(field)
            try:
                if kind == "picture":
                    found = pictures[field] = self._read(data)
                    misnamed += not self._is_named(field, found.format)
                elif kind == "int":
                    decode_int(data)
            except SampleError as error:
                raise error.at(field=field) from error.__cause__
        return Checked(pictures, misnamed)

    def _kind(self, field: str) -> str:
        kind: str = "bytes" if field.endswith(".gz") else kind_of(field)
        self._kinds[field] = kind
        return kind

    def _is_named(self, field: str, found: str) -> bool:
        extension = field.rpartition(".")[2]
        return _EXTENSIONS.get(extension, extension) == _EXTENSIONS.get(found, found)

    def _decoded(self, data: BytesLike) -> Facts:
        facts = read_facts(data)
        check_size(facts, self._pictures.max_pixels)
        check_whole(data, facts)
        if not hasattr(self._threads, "decoder"):
            self._threads.decoder = Decoder(self._pictures)
        self._threads.decoder.decode(data, facts=facts)
        return facts


def failure_kind(error: Exception) -> str:
    """The word under which a failure is counted."""
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (TruncatedPictureError, "truncated"),
        (PictureTooLargeError, "too large"),
        (UnsupportedPictureError, "unsupported"),
        (MissingFieldError, "missing field"),
        (FieldError, "bad field"),
        (SampleError, "damaged"),
        (UsageError, "refused"),
    )
    return next((word for kind, word in kinds if isinstance(error, kind)), "unreadable")

"""Whether the pictures of a sample can be shown, found out before they are packed.

"header" (the default) reads each picture's header and looks for its end: no picture, an unknown format, too many
pixels, truncated. "decode" decodes all of it as well, which finds damage in the middle, at the speed of the decoder.
Readers hold pictures against the same rules (wds_tools.pictures), so what passes "decode" here decodes there.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from wds_tools.codec import kind_of
from wds_tools.errors import (
    PictureTooLargeError,
    SampleError,
    TruncatedPictureError,
    UnsupportedPictureError,
    UsageError,
)
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.facts import Facts, check_size, check_whole, read_facts
from wds_tools.pictures.options import Pictures
from wds_tools.sample import SPECIAL, Sample

__all__ = ["Check", "Checker", "failure_kind"]

Check: TypeAlias = Literal["header", "decode"]

_EXTENSIONS = {"jpg": "jpeg", "tif": "tiff", "pgm": "ppm", "pbm": "ppm", "pnm": "ppm"}
"""Extensions that differ from the name of their format."""


class Checker:
    """Checks samples; one for each thread.

    Args:
        check: how far, "header" or "decode".
        pictures: the limit of pixels among others, as for the readers to come.

    Attributes:
        misnamed: pictures seen so far whose bytes are of another format than their field says.
    """

    def __init__(self, check: Check, pictures: Pictures) -> None:
        if check not in get_args(Check):
            raise UsageError(f"check is {check!r}, expected one of {', '.join(map(repr, get_args(Check)))}")
        self._pictures = pictures
        self._decoder = Decoder(pictures) if check == "decode" else None
        self._kinds: dict[str, bool] = {}
        self.misnamed = 0

    def check(self, sample: Sample) -> None:
        """Accept the sample's pictures. Values that are no bytes are left to the writer, which encodes them.

        Raises:
            PictureError: with the field, and which kind.
        """
        for field, data in sample.items():
            if field not in SPECIAL and self._is_picture(field) and isinstance(data, bytes):
                try:
                    facts = self._facts(data)
                except SampleError as error:
                    raise error.at(field=field) from error.__cause__
                extension = field.rpartition(".")[2]
                self.misnamed += _EXTENSIONS.get(extension, extension) != _EXTENSIONS.get(facts.format, facts.format)

    def _is_picture(self, field: str) -> bool:
        known = self._kinds.get(field)
        if known is None:
            known = self._kinds[field] = kind_of(field) == "picture" and not field.endswith(".gz")
        return known

    def _facts(self, data: bytes) -> Facts:
        facts = read_facts(data)
        check_size(facts, self._pictures.max_pixels)
        check_whole(data, facts)
        if self._decoder is not None:
            self._decoder.decode(data, facts=facts)
        return facts


def failure_kind(error: Exception) -> str:
    """The word under which a failure is counted."""
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (TruncatedPictureError, "truncated"),
        (PictureTooLargeError, "too large"),
        (UnsupportedPictureError, "unsupported"),
        (SampleError, "damaged"),
        (UsageError, "refused"),
    )
    return next((word for kind, word in kinds if isinstance(error, kind)), "unreadable")

"""Samples with their pictures transcoded, in any number of threads at once.

    transcoder = Transcoder(Transcode(to="jpg", resize=256))
    sample = transcoder.prepare({"__key__": "a", "png": data, "cls": 3})   # {"__key__": "a", "jpg": ..., "cls": 3}

One transcoder serves a whole pool: each thread that calls it gets its own decoder and encoder.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from shardwriter.recode import Recoder
from shardwriter.transcode import Transcode
from wds_tools.codec import kind_of
from wds_tools.errors import FieldError, SampleError, UnsupportedPictureError, UsageError
from wds_tools.pictures.compress import check_encoder
from wds_tools.pictures.kernel import capability
from wds_tools.sample import KEY, SPECIAL, Sample

__all__ = ["Transcoder"]


class Transcoder:
    """Transcodes samples as `Transcode` says; picklable, and its repr says all that decides the bytes.

    Raises:
        UsageError: this installation cannot write the format, or has no kernel for `baseline`.
    """

    def __init__(self, options: Transcode) -> None:
        self.options = options
        _check_installation(options)
        self._roles: dict[str, str] = {}
        self._local = threading.local()
        self._lock = threading.Lock()
        self._recoders: list[Recoder] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options,)

    def __repr__(self) -> str:
        return f"Transcoder({self.options!r})"

    @property
    def counts(self) -> Mapping[str, int]:
        """What was done to how many pictures, by all threads together.

        "encoded", "made baseline", "metadata left out", "unchanged" and "masks resized", and oddities such as "icc
        profile ignored".
        """
        with self._lock:
            recoders = list(self._recoders)
        total: Counter[str] = Counter()
        for recoder in recoders:
            total += recoder.counts + recoder.notes
        return dict(sorted(total.items()))

    def prepare(self, sample: Sample) -> Sample:
        """A new sample with its pictures transcoded; the other fields as they are, all in the same order.

        Raises:
            SampleError: with key and field: a picture that does not decode, or two fields that would get one name.
            FieldRefusedError: an array in a picture's field that is no picture.
        """
        made: Sample = {}
        for field, value in sample.items():
            role = self._role(field)
            if role == "other":
                name, result = field, value
            else:
                try:
                    name, result = self._made(role, field, value)
                except SampleError as error:
                    raise error.at(key=sample.get(KEY), field=field) from error.__cause__
            if name in made or (name != field and name in sample):
                raise FieldError(
                    f"two fields of the sample would both be {name!r}",
                    key=sample.get(KEY),
                    field=field,
                    cure='Say which of them to transcode, such as fields=("jpg",).',
                )
            made[name] = result
        return made

    def _role(self, field: str) -> str:
        known = self._roles.get(field)
        if known is None:
            known = self._roles[field] = _role(field, self.options)
        return known

    def _made(self, role: str, field: str, value: object) -> tuple[str, bytes]:
        recoder = self._recoder()
        data, form = recoder.mask(value, field) if role == "mask" else recoder.picture(value, field)
        stem, dot, _ = field.rpartition(".")
        return field if form is None else f"{stem}{dot}{form}", data

    def _recoder(self) -> Recoder:
        found: Recoder | None = getattr(self._local, "recoder", None)
        if found is None:
            found = self._local.recoder = Recoder(self.options)
            with self._lock:
                self._recoders.append(found)
        return found


def _role(field: str, options: Transcode) -> Literal["picture", "mask", "other"]:
    if field in SPECIAL:
        return "other"
    if field in options.masks:
        return "mask"
    chosen = "." not in field if options.fields is None else field in options.fields
    return "picture" if chosen and kind_of(field) == "picture" else "other"


def _check_installation(options: Transcode) -> None:
    try:
        if options.to not in {None, "npy"}:
            check_encoder(str(options.to))
    except UnsupportedPictureError as error:
        raise UsageError(f"to is {options.to!r}: {error.problem}", cure=error.cure) from error
    if options.baseline and not capability().jpeg:
        raise UsageError("baseline needs the decode kernel", cure=capability().missing)

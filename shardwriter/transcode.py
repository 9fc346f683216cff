"""Pictures made smaller or of another format on their way into shards; everything else passes as it is.

    pack("pictures/", "out/", transcode=Transcode(to="jpg", resize=256))

What is promised, for each picture:

- Bytes are unchanged where nothing needs changing: of the wanted format already, not larger than asked for, upright, of
  sRGB, without metadata to leave out. Leaving out metadata and making a JPEG baseline touch no pixel. All else is
  decoded and encoded once.
- It is never enlarged unless `enlarge` says so. Resizing is antialiased (the one resampler of wds_tools.pictures); a
  JPEG is decoded at the smallest of the scales 1, 1/2, 1/4, 1/8 that still covers the target.
- It comes out upright, turned exactly once: no orientation is left that a reader could apply again.
- Its colours are sRGB, which is what every model takes them for; `icc="keep"` leaves numbers and profile as they are.
  A profile that is sRGB, by what it does, is not converted, and one that cannot be used is counted.
- Transparency is kept where the format has it (png, webp, avif, jxl), else it is blended on white; a `background` is
  blended everywhere. Grey stays grey in jpg, png, avif and jxl; npy always has three channels, so that samples stack.
  CMYK becomes RGB when it is encoded, 16 bits become 8, and of an animation the first frame stays: what readers show.

Which fields: those without a dot whose name is a picture's (`jpg`, `png`, ...). `seg.png` and other dotted ones are
masks, depth and the like: they stay as they are unless `fields` names them, or `masks`, which are resized and turned
with the nearest neighbour, their values kept, and stay in a format without loss.

The field is renamed with the format: `png` becomes `jpg`. With `to=None` each picture keeps its format, except where it
has to be encoded and its format is none that training data are kept in: GIF, BMP, TIFF and PPM become PNG, HEIC and
JPEG 2000 become JPEG.

`npy` is uint8 (height, width, 3), RGB, C order, behind a header of 128 bytes: readers copy it and decode nothing.

The same input and options give the same bytes, in any thread, with the same versions of the codecs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from wds_tools.codec import kind_of
from wds_tools.errors import UsageError
from wds_tools.names import check_field
from wds_tools.pictures.options import Pictures

__all__ = ["Metadata", "Profile", "To", "Transcode"]

To: TypeAlias = Literal["jpg", "webp", "avif", "png", "jxl", "npy"]
Metadata: TypeAlias = Literal["strip", "keep"]
Profile: TypeAlias = Literal["srgb", "keep"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcode:
    """What pictures shall become; see the module for what each option promises.

    Attributes:
        to: the format, or None for each picture's own.
        resize: the shorter side in pixels, at most; None leaves sizes alone.
        enlarge: make smaller pictures larger too.
        quality: 1 to 100; None takes the format's own (jpg 90, others about as good: `compress.FORMATS`).
        metadata: "strip" leaves out EXIF, XMP, texts, comments, previews and what lies behind the picture's end, also
            of pictures that need no other change (JPEG, PNG and WebP; others only when they are encoded). "keep" takes
            EXIF, with orientation 1 and without its preview, and XMP along, except into npy.
        baseline: make progressive and arithmetic JPEGs baseline, without loss. Needs the decode kernel.
        background: red, green, blue under what is transparent, in every format; None: see above.
        icc: "srgb" or "keep".
        fields: the fields to transcode, by their full names; None for those without a dot.
        masks: fields of labels, resized and turned by the nearest neighbour.
        max_pixels: pictures with more are refused, and so are those that would get more by enlarging.

    Raises:
        UsageError: an option outside its range, or two that contradict each other.
    """

    to: To | None = None
    resize: int | None = None
    enlarge: bool = False
    quality: int | None = None
    metadata: Metadata = "strip"
    baseline: bool = False
    background: tuple[int, int, int] | None = None
    icc: Profile = "srgb"
    fields: tuple[str, ...] | None = None
    masks: tuple[str, ...] = ()
    max_pixels: int = Pictures().max_pixels

    def __post_init__(self) -> None:
        _one_of("to", self.to, (None, *get_args(To)))
        _one_of("metadata", self.metadata, get_args(Metadata))
        _one_of("icc", self.icc, get_args(Profile))
        _whole("resize", self.resize, 65_535)
        _whole("quality", self.quality, 100)
        Pictures(max_pixels=self.max_pixels, background=self.background or (255, 255, 255))  # which checks them
        if self.background is not None:
            object.__setattr__(self, "background", tuple(self.background))
        for name in ("fields", "masks"):
            _check_fields(name, getattr(self, name))
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.quality is not None and self.to in {"png", "npy"}:
            raise UsageError(f"{self.to} keeps every value, so quality means nothing", cure="Leave quality out.")
        if self.enlarge and self.resize is None:
            raise UsageError("enlarge without resize says no size", cure="Give resize too.")
        if self.baseline and self.to not in {None, "jpg"}:
            raise UsageError(f"baseline is a kind of JPEG, and to is {self.to!r}", cure="Leave one of them out.")
        if both := sorted(set(self.fields or ()) & set(self.masks)):
            raise UsageError(f"in fields and in masks: {', '.join(both)}", cure="Name each in one of them.")


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} is {value!r}, expected one of {', '.join(map(repr, known))}")


def _whole(name: str, value: object, most: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise UsageError(f"{name} is {value!r}, expected a whole number from 1 to {most}")


def _check_fields(name: str, fields: object) -> None:
    if fields is None and name == "fields":
        return
    if not isinstance(fields, tuple) or not all(isinstance(field, str) for field in fields):
        raise UsageError(f'{name} is {fields!r}, expected a tuple of field names, such as ("jpg", "depth.png")')
    for field in fields:
        check_field(field)
        if kind_of(field) != "picture" or field.endswith(".gz"):
            raise UsageError(f"{name} names {field!r}, which is no picture's field", cure="Name jpg, seg.png or so.")

"""From picture bytes to RGB pixels: a part of the picture, at a size, upright, flipped or not, into given memory.

Three backends do the same work, and a decoder takes the first that this installation has (`BACKENDS`):

"kernel": a JPEG of grey or RGB goes through the package's own code in C (see `kernel`), and all resizing too.

"simplejpeg": such a JPEG goes through simplejpeg (libjpeg-turbo), which
  - decodes at the smallest of the scales 1, 1/2, 1/4 and 1/8 at which the box still covers the target. The scales
    between them have no vector code in libjpeg-turbo and are slower than decoding in full;
  - stops below the box. simplejpeg has no call for that, so the height in the header of a copy is lowered: entropy
    decoding, two thirds of the time, ends a row of coding units below the last row that is needed;
  - writes four bytes a pixel into memory that this decoder owns, which Pillow then resizes in place: no copy before the
    resize, and one of the small result after it.

"pillow": all other pictures, and JPEGs that the others do not know (CMYK, unusual coding), go through Pillow, whatever
the backend. The scale and the filter are the same everywhere (see `resize`), and so are turning, background and
profiles. All let go of the GIL while they work.

A random crop of an ImageNet-like picture (484 x 416, 130 KB) resized to 224 and flipped costs 1.98 ms of one core: 1.09
decoding (1.18 without the early stop), 0.77 resizing, 0.07 flip and copy, 0.05 Python. Pillow alone needs 2.25 ms.

Whether a picture is whole is decided before decoding (`facts.check_whole`). Damage inside the data is refused when the
decoder reports it in the part that was decoded; harmless oddities, such as a few bytes too many, are not held against
it.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from wds_tools.errors import UsageError
from wds_tools.pictures import turbo
from wds_tools.pictures.cut import cut_pixels
from wds_tools.pictures.facts import Facts, check_size, check_whole, flat, read_facts
from wds_tools.pictures.general import cut_by_pillow, loaded
from wds_tools.pictures.icc import in_srgb
from wds_tools.pictures.jpeg import icc_profile
from wds_tools.pictures.kernel import Kernel, capability
from wds_tools.pictures.options import Pictures
from wds_tools.pictures.orientation import Box, inside, mirrored, stored_box, swaps, turned
from wds_tools.pictures.plugins import translated
from wds_tools.pictures.resize import View, nearest, resized
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["BACKEND", "BACKENDS", "Backend", "Box", "Decoder", "Pixels", "named"]

Pixels: TypeAlias = npt.NDArray[np.uint8]
Backend: TypeAlias = Literal["kernel", "simplejpeg", "pillow"]

_HAS_SIMPLEJPEG = importlib.util.find_spec("simplejpeg") is not None


def _available() -> tuple[Backend, ...]:
    found: dict[Backend, bool] = {"kernel": capability().resize, "simplejpeg": _HAS_SIMPLEJPEG, "pillow": True}
    return tuple(name for name, there in found.items() if there)


def named(backend: Backend) -> str:
    """What a backend is made of here, for reports and states; at most 20 characters."""
    jpeg = "simplejpeg" if _HAS_SIMPLEJPEG and backend != "pillow" else "pillow"
    if backend != "kernel":
        return "pillow" if jpeg == "pillow" else f"{jpeg}+pillow"
    return "kernel+pillow" if capability().jpeg else f"{jpeg}+kernel"


BACKENDS = _available()
"""The backends of this installation, the best one first: what a decoder takes where nothing else is said."""

BACKEND = named(BACKENDS[0])
"""What makes the pixels; backends differ in a grey level here and there, so reports and states name it."""

_BYTE = np.dtype(np.uint8)  # comparing with the type instead costs a microsecond


class Decoder:
    """Decodes pictures, one at a time. One for each thread: it owns the memory that it decodes into.

    Attributes:
        options: what the pictures shall become.
        backend: by what; None in the constructor takes the best one.
        notes: counts of what was odd but did not stop a picture, such as "icc profile ignored".

    Raises:
        UsageError: a backend that is not one of `BACKENDS`.
    """

    def __init__(self, options: Pictures | None = None, backend: Backend | None = None) -> None:
        self.options = options or Pictures()
        self.backend: Backend = BACKENDS[0] if backend is None else backend
        self.notes: Counter[str] = Counter()
        if self.backend not in BACKENDS:
            found = ", ".join(BACKENDS)
            raise UsageError(f"there is no backend {self.backend!r} here but {found}", cure=_cure(backend))
        self._scratch = turbo.Scratch()
        self._kernel = Kernel(huffman=self.options.huffman) if self.backend == "kernel" else None

    def __reduce__(self) -> tuple[Any, ...]:
        # another machine may lack the backend: it is kept only where it was asked for by name
        return type(self), (self.options, None if self.backend == BACKENDS[0] else self.backend)

    def size(self, facts: Facts) -> tuple[int, int]:
        """Width and height of the picture as the user sees it, after turning."""
        swapped = swaps(self._orientation(facts))
        return (facts.height, facts.width) if swapped else (facts.width, facts.height)

    def decode(
        self,
        data: BytesLike,
        *,
        facts: Facts | None = None,
        box: Box | None = None,
        size: tuple[int, int] | None = None,
        flip: bool = False,
        out: Pixels | None = None,
    ) -> Pixels:
        """Decode a part of a picture at a size.

        Args:
            data: the picture's bytes.
            facts: what `read_facts(data)` said, where it was called before.
            box: the part, in coordinates of the upright picture; default all of it.
            size: height and width of the result; default the size of the box in whole pixels.
            flip: mirror left and right.
            out: uint8 (height, width, 3), any strides, to be written into; default a new array.

        Returns:
            uint8 (height, width, 3), RGB; `out` if it was given.

        Raises:
            PictureError: the bytes do not decode; subclasses say truncated, too large, unsupported.
            UsageError: a box outside the picture, an empty size or an `out` of another shape.
        """
        facts, data = self._checked(data, facts)
        part, target = self._placed(facts, box, size)
        out = _memory(target, out)
        orientation = self._orientation(facts)
        turn = mirrored(orientation) if flip else orientation
        stored = target if swaps(orientation) else (target[1], target[0])  # width, height
        if self._kernel and self._jpeg_by_kernel(self._kernel, data, facts, part, (out, turn)):
            return out
        with translated(facts.format):
            view, profile = self._stored(data, facts, part, stored)
            if self._kernel and profile is None:
                _resize_by_kernel(self._kernel, view, out, turn)
            else:
                image = turbo.as_image(view.pixels) if isinstance(view.pixels, np.ndarray) else view.pixels
                small = resized(image, stored, view.box)
                _write(turned(small if profile is None else in_srgb(small, profile, self.notes), turn), out)
        return out

    def decode_mask(
        self,
        data: BytesLike,
        *,
        facts: Facts | None = None,
        box: Box | None = None,
        size: tuple[int, int] | None = None,
        flip: bool = False,
    ) -> npt.NDArray[Any]:
        """Decode a part of a picture whose values are labels: nearest neighbour, values as they are stored.

        Returns:
            (height, width): palette indices, grey and 1-bit values (0, 1) as uint8, 16 bits as uint16, 32 bits as int32
            or float32. Colour pictures keep their channels: uint8 (height, width, channels).

        Raises:
            PictureError, UsageError: as `decode`.
        """
        facts, data = self._checked(data, facts)
        part, (high, wide) = self._placed(facts, box, size)
        orientation = self._orientation(facts)
        with translated(facts.format):
            image = loaded(facts, data)
            ends = (part.left, part.top, part.left + part.width, part.top + part.height)
            small = nearest(image, (high, wide) if swaps(orientation) else (wide, high), ends)
            values = np.array(turned(small, mirrored(orientation) if flip else orientation))
        native = values.dtype.newbyteorder("=")
        return values.astype(np.uint8 if values.dtype == bool else native, copy=False)

    def cut(
        self,
        pixels: Pixels,
        *,
        box: Box | None = None,
        size: tuple[int, int] | None = None,
        flip: bool = False,
        out: Pixels | None = None,
    ) -> Pixels:
        """A part, at a size, of a picture whose pixels are there already; as `decode` gives of a lossless picture.

        Args:
            pixels: uint8 (height, width, 3), or grey as (height, width) or (height, width, 1).
            box: the part; default all of it.
            size: height and width of the result; default the size of the box in whole pixels.
            flip: mirror left and right.
            out: uint8 (height, width, 3), any strides, to be written into; default a new array.

        Returns:
            uint8 (height, width, 3), RGB; `out` if it was given.

        Raises:
            UsageError: as `decode`.
        """
        height, width = pixels.shape[:2]
        box = Box(0, 0, width, height) if box is None else inside(box, width, height)
        out = _memory(_target(box, size), out)
        cut_pixels(pixels, box, out, flip=flip, kernel=self._kernel)
        return out

    def _orientation(self, facts: Facts) -> int:
        return facts.orientation if self.options.orient else 1

    def _checked(self, data: BytesLike, facts: Facts | None) -> tuple[Facts, BytesLike]:
        data = flat(data)
        facts = facts or read_facts(data)
        check_size(facts, self.options.max_pixels)
        check_whole(data, facts)
        return facts, data

    def _placed(self, facts: Facts, box: Box | None, size: tuple[int, int] | None) -> tuple[Box, tuple[int, int]]:
        """The box in stored coordinates, and the result's height and width."""
        width, height = self.size(facts)
        box = Box(0, 0, width, height) if box is None else inside(box, width, height)
        return stored_box(box, facts.width, facts.height, self._orientation(facts)), _target(box, size)

    def _jpeg_by_kernel(
        self, kernel: Kernel, data: BytesLike, facts: Facts, part: Box, target: tuple[Pixels, int]
    ) -> bool:
        """Whether the target, memory and how to turn, is filled; not so for what the kernel does not know."""
        may = facts.format == "jpeg" and capability().jpeg and not self._wants_srgb(facts)
        return may and kernel.jpeg(data, facts, part, *target)

    def _stored(self, data: BytesLike, facts: Facts, part: Box, target: tuple[int, int]) -> tuple[View, bytes | None]:
        """The part, as it lies in the file, before it is resized to a target (width, height): grey, RGB or RGBX.

        And the colour profile from which it is to be converted afterwards; None where it is not.
        """
        if self.backend != "pillow" and _HAS_SIMPLEJPEG and turbo.knows(facts):
            view = turbo.decoded(data, facts, part, target, self._scratch)
            if view is not None:
                return view, icc_profile(data, facts.scan) if self._wants_srgb(facts) else None
        return cut_by_pillow(data, facts, part, target, options=self.options, notes=self.notes), None

    def _wants_srgb(self, facts: Facts) -> bool:
        return self.options.icc == "srgb" and facts.icc


def _target(box: Box, size: tuple[int, int] | None) -> tuple[int, int]:
    target = (max(1, round(box.height)), max(1, round(box.width))) if size is None else size
    if min(target) < 1:
        raise UsageError(f"a picture cannot be made {target[1]} x {target[0]} pixels large")
    return target


def _memory(target: tuple[int, int], out: Pixels | None) -> Pixels:
    if out is None:
        return np.empty((*target, 3), np.uint8)
    if out.shape != (*target, 3) or out.dtype != _BYTE:
        raise UsageError(f"out is uint8 {(*target, 3)}, not {out.dtype} {out.shape}")
    return out


def _cure(backend: str | None) -> str | None:
    return capability().missing if backend == "kernel" else None


def _resize_by_kernel(kernel: Kernel, view: View, out: Pixels, turn: int) -> None:
    left, top, right, bottom = view.box
    pixels = view.pixels if isinstance(view.pixels, np.ndarray) else _array(view.pixels)
    kernel.resize(pixels, Box(left, top, right - left, bottom - top), out, turn)


def _write(image: Image.Image, out: Pixels) -> None:
    if image.mode == "L":
        out[...] = np.frombuffer(image.tobytes(), np.uint8).reshape(*out.shape[:2], 1)
    else:
        out[...] = np.frombuffer(image.tobytes("raw", "RGB"), np.uint8).reshape(out.shape)


def _array(image: Image.Image) -> Pixels:
    pixels: Pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]

"""The decode kernel in C: only the part of a JPEG that is wanted, resized and turned straight into the batch.

`_pixels` (see its source for how) is built when the package is installed, as far as a compiler and libjpeg-turbo are
there; it is never needed. It has two halves: `jpeg`, which needs libjpeg-turbo 2.1 or later, and `resize`, the same
filter as Pillow's within a grey level, in an eighth of the time. The half that knows JPEG writes it too: `encode`, with
the bytes of Pillow where both have the same libjpeg-turbo, and `baseline`, which moves coefficients. All of it runs
without the GIL, which Pillow holds while it encodes a JPEG.

Before a half is used, it must show on this machine that it does what it should (`capability`): resize a pattern as
Pillow does, and decode crops of a small picture as the whole picture says, since the library found at run time need not
be the one of the tests. What fails is not used, and the reason can be told. So it is with the kernel's own Huffman
decoder (`huffman`), with which a crop of a baseline JPEG takes 0.70 of the time, bit by bit the same.
"""

from __future__ import annotations

import base64
import functools
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wds_tools.errors import PictureError, UnsupportedPictureError
from wds_tools.pictures import huffman
from wds_tools.pictures.facts import Facts
from wds_tools.pictures.huffman import BY_LIBJPEG, BY_US
from wds_tools.pictures.orientation import Box
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from wds_tools.pictures import _pixels

__all__ = ["Capability", "Kernel", "capability", "tried"]

_CURE = "Install a C compiler and the headers of libjpeg-turbo (Debian: gcc libjpeg62-turbo-dev), then install again."
_CODINGS = frozenset({"baseline", "sequential", "progressive"})
_NEAR = 3  # grey levels; versions of libjpeg-turbo agree within 1 in the test picture
_WHOLE = (0, 0, 40, 24)

# 40 x 24 pixels, colour sampled 2 x 2, and what Pillow makes of two parts of it: box, shape, pixels
_PICTURE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5a"
    "YVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//"
    "wAARCAAYACgDASIAAhEBAxEB/8QAGgABAQACAwAAAAAAAAAAAAAAAAMEBQECBv/EAB0QAAMBAAIDAQAAAAAAAAAAAAACYQQBAwURE8H/xAAa"
    "AQEAAQUAAAAAAAAAAAAAAAAFAAIDBAYH/8QAIREAAQUAAgEFAAAAAAAAAAAAAgABAwQREiEFFDFh0eH/2gAMAwEAAhEDEQA/APPLnhVc8Ngu"
    "eHXR1/Phb7F7N3iLuynjn9RKMW5v1qx1zwsueEzN8d1/Tnsnr9CTuuXuy2U6r1wc+W58fqmueA2y54DAO32qgsdLhc8KrngBfmkJc5gN1Zc8"
    "LLngAVNISZgN1Vc8AAachalQN8X/2Q=="
)
_IN_FULL = (
    "TE21WUyodEWUfUaIfUuLf02NhkyLUlerbFGamz+CqT1zqEFxpkVzqEVzWl+eglKMwyxo2yNV7RtN7htM6h5MXGqXjFaC2yJX9RlD/BY8"
    "9xo88B47WX6ViWR64CJJ+xg1/Rc09Rw36yE3UJCWf3N52CdB9Bwv+Rk28R486CI7"
)
_AT_AN_EIGHTH = "g1OD2TBQ119UYa2CnKhgya5F"
_PARTS = (((9, 5, 12, 10), (6, 7, 3), _IN_FULL), ((5, 7, 33, 16), (2, 3, 3), _AT_AN_EIGHTH))


class Capability(NamedTuple):
    """What the kernel does here.

    Attributes:
        jpeg: whether it decodes and writes JPEG.
        resize: whether it resizes.
        version: the libjpeg that it was compiled for; "" where there is none.
        missing: why a part is not used, and the cure; "" where all are.
        huffman: whether it decodes the Huffman coding of a JPEG itself, instead of libjpeg.
    """

    jpeg: bool
    resize: bool
    version: str
    missing: str
    huffman: bool = False


@functools.cache
def capability() -> Capability:
    """What the kernel of this installation does, after its self-test; found out once."""
    try:
        module = importlib.import_module("wds_tools.pictures._pixels")
    except (ImportError, SystemError) as error:
        built = not isinstance(error, ModuleNotFoundError)
        why = f"the decode kernel does not load: {error}." if built else "the decode kernel was not built."
        return Capability(False, False, "", f"{why} {_CURE}")
    return tried(module)


def tried(module: Any) -> Capability:
    """What a kernel does, by its self-test."""
    if wrong := _fault(_try_resize, module.Kernel()):
        return Capability(False, False, module.JPEG, f"the decode kernel fails its self-test: {wrong}.")
    if not module.JPEG:
        return Capability(False, True, "", f"the decode kernel was built without libjpeg-turbo. {_CURE}")
    if wrong := _fault(_try_jpeg, module.Kernel()):
        why = f"the decode kernel fails its self-test with the libjpeg of this machine: {wrong}."
        return Capability(False, True, module.JPEG, why)
    if not module.HUFFMAN:
        why = f"the kernel's own Huffman decoder is not used: it was not tried with {module.JPEG} when it was written."
        return Capability(True, True, module.JPEG, why)
    if wrong := _fault(huffman.trial, module.Kernel()):
        why = f"the kernel's own Huffman decoder fails its self-test with the libjpeg of this machine: {wrong}."
        return Capability(True, True, module.JPEG, why)
    return Capability(True, True, module.JPEG, "", huffman=True)


def _fault(trial: Any, kernel: _pixels.Kernel) -> str:
    try:
        return str(trial(kernel))
    except Exception as error:  # noqa: BLE001 - a kernel that fails is not used, however it fails
        return f"{type(error).__name__}: {error}"


def _try_resize(kernel: _pixels.Kernel) -> str:
    pattern = (np.arange(20 * 33 * 3, dtype=np.uint32) * 40503 >> 5).astype(np.uint8).reshape(20, 33, 3)
    same, mean = np.empty((33, 20, 3), np.uint8), np.empty((1, 1, 3), np.uint8)
    kernel.resize(pattern, 0, 0, 33, 20, same, 5)
    if not np.array_equal(same, pattern.transpose(1, 0, 2)):
        return "pixels change when a picture is turned"
    # two by two pixels to one: the filter reaches half a pixel's weight beyond, by 1 : 3 : 3 : 1
    kernel.resize(pattern[:4, :4], 1, 1, 2, 2, mean, 1)
    weights = np.array([1, 3, 3, 1]) / 8
    wanted = np.einsum("yxc,y,x->c", pattern[:4, :4].astype(float), weights, weights)
    return "a resized pixel has the wrong value" if np.abs(mean[0, 0] - wanted).max() > 1 else ""


def _try_jpeg(kernel: _pixels.Kernel) -> str:
    for box, shape, pixels in _PARTS:
        part = np.empty(shape, np.uint8)
        if wrong := kernel.jpeg(_PICTURE, *_WHOLE[2:], *box, part, 1):
            return wrong[1]
        wanted = np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(shape)
        if np.abs(part.astype(int) - wanted).max() > _NEAR:
            return "a decoded part has the wrong pixels"
    whole = np.empty((24, 40, 3), np.uint8)
    kernel.jpeg(_PICTURE, *_WHOLE[2:], *_WHOLE, whole, 1)
    for left, top in ((1, 1), (15, 7), (16, 16), (17, 9), (36, 20)):
        cut = np.empty((24 - top, 40 - left - 3, 3), np.uint8)
        kernel.jpeg(_PICTURE, *_WHOLE[2:], left, top, cut.shape[1], cut.shape[0], cut, 1)
        if not np.array_equal(cut, whole[top:, left:-3]):
            return "a part of a picture differs from the same part of the whole"
    if not kernel.jpeg(_PICTURE[:-60], *_WHOLE[2:], *_WHOLE, whole, 1):
        return "missing bytes go unnoticed"
    return _try_writing(kernel, whole)


def _try_writing(kernel: _pixels.Kernel, whole: npt.NDArray[np.uint8]) -> str:
    again, moved = np.empty_like(whole), kernel.baseline(_PICTURE, *_WHOLE[2:])
    if not isinstance(moved, bytes) or kernel.jpeg(moved, *_WHOLE[2:], *_WHOLE, again, 1) or (again != whole).any():
        return "coefficients change when they are moved"
    made = kernel.encode(whole, 100)
    if not isinstance(made, bytes) or kernel.jpeg(made, *_WHOLE[2:], *_WHOLE, again, 1):
        return "an encoded picture does not decode"
    apart = np.abs(again.astype(int) - whole)
    return "an encoded picture has the wrong pixels" if apart.mean() > _NEAR else ""


class Kernel:
    """One thread's kernel: it owns the memory that it decodes into. `capability` says which methods may be used.

    Args:
        huffman: decode Huffman coding by the kernel's own decoder, where that may be used.
    """

    def __init__(self, *, huffman: bool = True) -> None:
        from wds_tools.pictures import _pixels

        self._kernel = _pixels.Kernel()
        self._entropy = BY_US if huffman and capability().huffman else BY_LIBJPEG

    def jpeg(self, data: BytesLike, facts: Facts, part: Box, out: npt.NDArray[np.uint8], orientation: int) -> bool:
        """Decode a part of a JPEG at the size of `out`, and turn it.

        Args:
            data: a whole JPEG.
            facts: its facts, its size compared with the limit.
            part: in stored coordinates.
            out: uint8 (height, width, 3), of any strides.
            orientation: 1 to 8, by which the stored pixels are turned.

        Returns:
            Whether `out` is filled; where not, it is untouched, and another decoder may read the picture.

        Raises:
            PictureError: damage inside the data.
        """
        if facts.mode not in {"L", "RGB"} or facts.bits != 8 or facts.coding not in _CODINGS:
            return False
        place = _writable(out)
        wrong = self._kernel.jpeg(data, facts.width, facts.height, *part, place, orientation, self._entropy)
        if wrong is not None:
            damage, message = wrong
            if damage:
                raise PictureError(f"JPEG picture with damaged data: {message}")
            return False
        if place is not out:
            out[...] = place
        return True

    def samples(
        self, places: Any, memories: tuple[BytesLike, ...], draws: Any, out: Any, *how: Any
    ) -> tuple[list[Any], int, int, int, int]:
        """Make a chunk of samples; see `batched.Batched`, whose call this is."""
        pictures, wanted, cut, orient, most = how
        return self._kernel.samples(places, memories, draws, out, pictures, wanted, cut, orient, most, self._entropy)

    def arrays(
        self, places: Any, memories: tuple[BytesLike, ...], out: Any, *how: Any
    ) -> tuple[list[Any], int, int, int, int]:
        """Make a chunk of samples with arrays; see `batched.BatchedArrays`, whose call this is."""
        fields, wanted, head, begin = how
        return self._kernel.arrays(places, memories, out, fields, wanted, head, begin)

    @property
    def decoded_itself(self) -> bool:
        """Whether the last JPEG that came so far was decoded by the kernel's own Huffman decoder, to the end."""
        return self._kernel.units() > 0

    def encode(self, pixels: npt.NDArray[np.uint8], quality: int) -> bytes:
        """Encode a baseline JPEG: colour sampled 2 x 2 (4:2:0), accurate DCT.

        Args:
            pixels: uint8 (height, width, 1) of grey or (height, width, 3) of RGB; at most 65,500 a side.
            quality: 1 to 100.

        Raises:
            PictureError: libjpeg refuses to, as it does larger sides.
        """
        made = self._kernel.encode(_gapless(pixels), quality)
        if isinstance(made, bytes):
            return made
        raise PictureError(f"a picture of {pixels.shape[1]} x {pixels.shape[0]} pixels cannot be JPEG: {made[1]}")

    def baseline(self, data: BytesLike, facts: Facts) -> bytes:
        """The same picture in one scan with Huffman coding, no pixel changed, without metadata and what lies behind.

        Args:
            data: a whole JPEG of any coding.
            facts: its facts, its size compared with the limit.

        Raises:
            PictureError: damage inside the data.
            UnsupportedPictureError: not eight bits, or components that do not fit into one scan.
        """
        made = self._kernel.baseline(data, facts.width, facts.height)
        if isinstance(made, bytes):
            return made
        damage, message = made
        if damage:
            raise PictureError(f"JPEG picture with damaged data: {message}")
        raise UnsupportedPictureError(f"{facts.coding} JPEG picture that cannot be made baseline: {message}")

    def resize(
        self, pixels: npt.NDArray[np.uint8], part: Box, out: npt.NDArray[np.uint8], orientation: int = 1
    ) -> None:
        """Resize a part of a picture to the size of `out`, and turn it.

        Args:
            pixels: uint8 (height, width, 1, 3 or 4): grey, RGB or RGBX. What lies beside the part counts as far as the
                filter reaches.
            part: in the pixels' coordinates.
            out: uint8 (height, width, 3), or 1 for grey, of any strides.
            orientation: 1 to 8, by which the pixels are turned.
        """
        place = _writable(out)
        self._kernel.resize(_gapless(pixels), *part, place, orientation)
        if place is not out:
            out[...] = place


def _gapless(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return pixels if pixels.strides[1:] == (pixels.shape[2], 1) else np.ascontiguousarray(pixels)


def _writable(out: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """`out` itself where its rows have no gaps, else memory of the same shape."""
    return out if out.strides[1:] == (out.shape[2], 1) else np.empty(out.shape, np.uint8)

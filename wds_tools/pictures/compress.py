"""From decoded pixels to a picture's bytes, as fast as may be, in the formats that datasets are kept in.

| format | how | quality where nothing is said |
| --- | --- | --- |
| jpg | baseline, colour sampled 2 x 2 (4:2:0), accurate DCT | 90 |
| webp | lossy, method 4, always 4:2:0 | 87 |
| avif | 4:2:0, speed 6 | 76 |
| jxl | effort 7, 4:4:4; needs the package pillow-jxl-plugin | 90 |
| png | every value kept, level 6 | |

The numbers are those at which photographs come out about as near to the original as JPEG of quality 90 (PSNR, see
docs/codecs.md): each encoder counts its qualities in its own way.

`encode.encode_picture` is the other way in, for what users hand to the writer: it guesses nothing and knows more kinds
of pixels. Here pixels come from the decoder. A JPEG goes through the kernel, which lets go of the GIL, else through
Pillow, with the same bytes. All encoders run in the thread that calls them and in no other, so that the bytes do not
depend on the number of cores, and a pool of threads is not multiplied.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wds_tools.errors import UnsupportedPictureError
from wds_tools.pictures import jpeg
from wds_tools.pictures.kernel import Kernel
from wds_tools.pictures.metadata import PNG_XMP, Metadata
from wds_tools.pictures.plugins import translated

if TYPE_CHECKING:
    from PIL import Image, PngImagePlugin

__all__ = ["FORMATS", "Format", "check_encoder", "compress"]

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a format is written.

    Attributes:
        name: as `Facts.format` calls it.
        pillow: as Pillow calls it.
        quality: where nothing else is said; None where nothing is lost.
        alpha: whether it holds transparency.
        grey: whether it holds grey as such, in fewer bytes than colours.
        saving: what else the encoder is told.
    """

    name: str
    pillow: str
    quality: int | None
    alpha: bool = True
    grey: bool = True
    saving: dict[str, Any] = field(default_factory=dict)


FORMATS = {
    "jpg": Format(name="jpeg", pillow="JPEG", quality=90, alpha=False, saving={"subsampling": "4:2:0"}),
    "webp": Format(name="webp", pillow="WEBP", quality=87, grey=False, saving={"method": 4}),
    "avif": Format(name="avif", pillow="AVIF", quality=76, saving={"speed": 6, "max_threads": 1}),
    "jxl": Format(name="jxl", pillow="JXL", quality=90, saving={"effort": 7, "num_threads": 0}),
    "png": Format(name="png", pillow="PNG", quality=None, saving={"compress_level": 6}),
}
"""By the name that a field has."""


def check_encoder(form: str) -> None:
    """Find out now whether this installation writes a format.

    Raises:
        UnsupportedPictureError: it does not; the message names the package.
    """
    from PIL import features

    if form == "jxl":
        try:
            importlib.import_module("pillow_jxl")
        except ImportError as error:
            raise UnsupportedPictureError(
                "JPEG XL is written by a package that is not installed", cure="pip install pillow-jxl-plugin"
            ) from error
    elif form in {"webp", "avif"} and not features.check(form):
        raise UnsupportedPictureError(f"this Pillow was built without {form.upper()}", cure="pip install -U pillow")


def compress(
    picture: Pixels | Image.Image,
    form: str,
    *,
    quality: int | None = None,
    metadata: Metadata | None = None,
    profile: bytes = b"",
    kernel: Kernel | None = None,
) -> bytes:
    """Encode a picture.

    Args:
        picture: uint8 (height, width, 1) of grey or (height, width, 3) of RGB, or an image of mode L, RGB, LA or RGBA.
        form: a key of `FORMATS`.
        quality: 1 to 100, for formats that lose something; default the format's own.
        metadata: goes along.
        profile: a colour profile that goes along.
        kernel: for JPEG; None takes Pillow, which holds the GIL while it encodes one.

    Raises:
        PictureError: a picture that the format does not hold, such as one too large.
    """
    format_, extras = FORMATS[form], metadata or Metadata()
    quality = format_.quality if quality is None else quality
    if form == "jxl":
        check_encoder(form)  # which is what makes Pillow know it
    if form == "jpg":
        data = _jpeg(picture, quality or 1, kernel)
        return jpeg.with_segments(data, exif=extras.exif, xmp=extras.xmp, profile=profile)
    options = dict(format_.saving)
    if quality is not None and format_.quality is not None:
        options["quality"] = quality
    xmp = {"pnginfo": _png_text(extras.xmp)} if form == "png" and extras.xmp else {"xmp": extras.xmp}
    given = {"exif": extras.exif, "icc_profile": profile, **xmp}
    options |= {name: value for name, value in given.items() if value}
    return _saved(_suited(_image(picture), format_), format_, options)


def _jpeg(picture: Pixels | Image.Image, quality: int, kernel: Kernel | None) -> bytes:
    if kernel is not None:
        pixels = np.asarray(picture)
        return kernel.encode(pixels[:, :, None] if pixels.ndim == 2 else pixels, quality)
    format_ = FORMATS["jpg"]
    return _saved(_image(picture), format_, {**format_.saving, "quality": quality})


def _image(picture: Pixels | Image.Image) -> Image.Image:
    from PIL import Image

    if isinstance(picture, Image.Image):
        return picture
    return Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture)


def _png_text(xmp: bytes) -> PngImagePlugin.PngInfo:
    from PIL import PngImagePlugin

    text = PngImagePlugin.PngInfo()
    text.add(b"iTXt", PNG_XMP + xmp)  # Pillow's option of that name is only for other formats
    return text


def _suited(image: Image.Image, format_: Format) -> Image.Image:
    if image.mode == "LA" and format_.pillow in {"WEBP", "AVIF"}:
        return image.convert("RGBA")
    return image


def _saved(image: Image.Image, format_: Format, options: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    with translated(format_.name, f"picture of {image.width} x {image.height} pixels cannot be written"):
        image.save(target, format_.pillow, **options)
    return target.getvalue()

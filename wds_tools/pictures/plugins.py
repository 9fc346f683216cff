"""Pillow's readers, one format at a time, without Pillow's settings and without its surprises.

`Image.open` tries formats by a table that any import may change, warns of large pictures by a limit that is one setting
for the whole process, and parses metadata that nobody asked for. So the format is decided here (see `sniff`), the limit
on pixels is ours and checked before (see `facts`), and the plugin's class is called by name: that is where `Image.open`
would have come to, without the table, the limit and the warnings. Nothing global is read or written, so threads with
different options do not disturb each other (which `warnings.catch_warnings` would: it is one state for all threads).
Two plugins look at Pillow's limit even so: TIFF, whose check is overridden here, and WebP, whose largest picture lies
below the limit unless a program has lowered it.

Metadata that can only do harm is left out before: a PNG comes down to the chunks of its pixels (a comment that inflates
to gigabytes is never inflated), a JPEG loses EXIF and multi-picture directories.
"""

from __future__ import annotations

import functools
import importlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from wds_tools.errors import PictureError, ShardstreamError, TruncatedPictureError, UnsupportedPictureError
from wds_tools.pictures import headers, jpeg
from wds_tools.pictures.exif import read_orientation
from wds_tools.pictures.orientation import swaps
from wds_tools.sample import BytesLike

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Opened", "opened", "translated"]

_ORIENTATION = 0x0112
_PLUGINS = {
    "jpeg": ("PIL.JpegImagePlugin", "JpegImageFile"),
    "png": ("PIL.PngImagePlugin", "PngImageFile"),
    "webp": ("PIL.WebPImagePlugin", "WebPImageFile"),
    "gif": ("PIL.GifImagePlugin", "GifImageFile"),
    "bmp": ("PIL.BmpImagePlugin", "BmpImageFile"),
    "avif": ("PIL.AvifImagePlugin", "AvifImageFile"),
    "ppm": ("PIL.PpmImagePlugin", "PpmImageFile"),
    "jpeg2000": ("PIL.Jpeg2KImagePlugin", "Jpeg2KImageFile"),
    "heic": ("pillow_heif.as_plugin", "HeifImageFile"),
    "jxl": ("pillow_jxl.JpegXLImagePlugin", "JXLImageFile"),
}
_PACKAGES = {"heic": "pillow-heif", "jxl": "pillow-jxl-plugin"}


class Opened(NamedTuple):
    """A picture whose header was read.

    Attributes:
        image: Pillow's image; its pixels are read on first use.
        stored: width and height as stored.
        orientation: 1 to 8, as the format states it.
        upright: whether Pillow will have turned the pixels on its own once they are loaded (TIFF).
    """

    image: Image.Image
    stored: tuple[int, int]
    orientation: int = 1
    upright: bool = False


@contextmanager
def translated(name: str, problem: str = "picture does not decode") -> Iterator[None]:
    """The border where the errors of a decoder or encoder become ours, with the format in the message."""
    try:
        yield
    except (ShardstreamError, MemoryError):
        raise
    except Exception as error:  # decoders meet hostile bytes with every exception that Python has
        words = str(error) or type(error).__name__
        kind = TruncatedPictureError if "truncated" in words.lower() else PictureError
        raise kind(f"{name.upper()} {problem}: {words}") from error


def opened(name: str, data: BytesLike) -> Opened:
    """Open a picture of the format `name` (as `sniff` calls it); pixels are read when the image is used.

    Nothing needs to be closed: the bytes are in memory.

    Raises:
        UnsupportedPictureError: the reader of that format is not installed.
        PictureError: the header does not make sense.
    """
    with translated(name):
        return _described(name, _plugin(name)(io.BytesIO(_content(name, data))))


def _content(name: str, data: BytesLike) -> BytesLike:
    if name == "png":
        return headers.png_pixels_only(data)
    if name == "jpeg":
        return jpeg.without_metadata(data, jpeg.read_header(data).scan)
    return data


@functools.cache
def _plugin(name: str) -> Callable[[io.BytesIO], Any]:
    if name == "tiff":
        return _tiff_plugin()
    module, attribute = _PLUGINS[name]
    try:
        plugin: Callable[[io.BytesIO], Any] = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        package = _PACKAGES.get(name, "pillow")
        raise UnsupportedPictureError(
            f"{name.upper()} picture, for which no reader is installed", cure=f"pip install {package}"
        ) from error
    return plugin


def _tiff_plugin() -> Callable[[io.BytesIO], Any]:
    from PIL import Image, ImageFile, TiffImagePlugin

    class Tiff(TiffImagePlugin.TiffImageFile):
        # The stock method compares the size with Pillow's own limit once more, and warns.
        def load_prepare(self) -> None:
            if self._im is None:
                self.im = Image.core.new(  # type: ignore[attr-defined]
                    self.mode, self._tile_size
                )
            ImageFile.ImageFile.load_prepare(self)

    return Tiff


def _described(name: str, image: Image.Image) -> Opened:
    if name == "tiff":
        image.info.pop("xmp", None)  # by which Pillow would turn the pixels, although no tag says so
        orientation = _orientation(image)
        width, height = image.size  # a picture that lies on its side is announced as it will be seen
        return Opened(image, (height, width) if swaps(orientation) else (width, height), orientation, orientation != 1)
    return Opened(image, image.size, read_orientation(image.info.get("exif", b"")) if name == "avif" else 1)


def _orientation(image: Image.Image) -> int:
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1

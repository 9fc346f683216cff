"""From arrays and Pillow images to picture bytes, without guessing what the caller meant.

| value | becomes |
| --- | --- |
| uint8 (H, W), (H, W, 1) / (H, W, 3) | grey / RGB, in every format |
| uint8 (H, W, 2) / (H, W, 4) | grey / RGB with alpha, in formats that have it; refused for JPEG: what lies below it? |
| bool (H, W) | one bit, in PNG, TIFF and BMP |
| uint16 (H, W) | 16-bit grey, in PNG and TIFF |
| floats, other integers | refused: 0..1 and 0..255 cannot be told apart |
| channels first | refused |
| Pillow image | its own mode where the format has it; for JPEG an opaque palette becomes RGB, one bit grey |

JPEG has quality 95 and 4:2:0 unless told otherwise; WebP and AVIF are lossy at the same number; all other formats keep
every value. A Pillow image with an EXIF orientation is written upright and without EXIF, so that it is turned exactly
once; its colour profile stays. The bytes are a function of the value, the options and Pillow's version.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wds_tools.errors import FieldRefusedError, UsageError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["PICTURE_FIELDS", "encode_picture"]

PICTURE_FIELDS = {
    "jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "avif": "AVIF", "gif": "GIF", "bmp": "BMP",
    "tif": "TIFF", "tiff": "TIFF", "ppm": "PPM", "pgm": "PPM", "jxl": "JXL",
}  # fmt: skip
"""Last part of a field's name, and Pillow's name for the format."""

_MODES = {
    "JPEG": {"L", "RGB"},
    "PNG": {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"},
    "WEBP": {"L", "RGB", "RGBA"},
    "AVIF": {"L", "RGB", "RGBA"},
    "GIF": {"L", "P"},
    "BMP": {"1", "L", "P", "RGB"},
    "TIFF": {"1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"},
    "PPM": {"1", "L", "RGB"},
    "JXL": {"L", "LA", "RGB", "RGBA"},
}
_ARRAY_MODES = {2: "LA", 3: "RGB", 4: "RGBA"}
_SAVING: dict[str, dict[str, Any]] = {"JPEG": {"subsampling": "4:2:0"}, "TIFF": {"compression": "tiff_deflate"}}
_LOSSY = frozenset({"JPEG", "WEBP", "AVIF", "JXL"})


def encode_picture(value: object, field: str, *, quality: int = 95) -> bytes:
    """Encode an array or a Pillow image as the field's name says.

    Args:
        value: an array as in the table above, or a Pillow image.
        field: such as "jpg" or "seg.png".
        quality: 1 to 100, for formats that lose something.

    Raises:
        FieldRefusedError: the format does not hold such a value without loss or guessing.
        UsageError: a quality outside its range.
    """
    if not 1 <= quality <= 100:
        raise UsageError(f"quality is a number from 1 to 100, not {quality!r}")
    name = field.rpartition(".")[2].lower()
    kind = PICTURE_FIELDS.get(name)
    if kind is None:
        raise FieldRefusedError(f"{name!r} is no picture format", field=field)
    image = _suited(_image(value, field), kind, field)
    if name == "pgm" and image.mode != "L":
        raise FieldRefusedError(f"a pgm file holds grey pixels, not {image.mode}", field=field)
    return _saved(image, kind, field, quality)


def _image(value: object, field: str) -> Image.Image:
    from PIL import Image, ImageOps

    if isinstance(value, Image.Image):
        return ImageOps.exif_transpose(value)
    if not hasattr(value, "__array__"):
        raise FieldRefusedError(
            f"a picture is written from bytes, an array or a Pillow image, not {type(value).__name__}", field=field
        )
    array = np.asarray(value)
    return Image.fromarray(np.ascontiguousarray(_checked(array, field)))


def _checked(array: npt.NDArray[Any], field: str) -> npt.NDArray[Any]:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    flat = array.ndim == 2
    if array.size == 0 or not (flat or (array.ndim == 3 and array.shape[2] in _ARRAY_MODES)):
        cure = "Move the channels to the end: array.transpose(1, 2, 0)." if _channels_first(array) else None
        raise FieldRefusedError(
            f"a picture is an array (height, width) or (height, width, channels), not {array.shape}",
            field=field,
            cure=cure,
        )
    if array.dtype == np.uint8 or (flat and array.dtype in {np.dtype(bool), np.dtype(np.uint16)}):
        return array
    if flat and array.dtype == np.dtype(">u2"):
        return array.astype(np.uint16)
    raise FieldRefusedError(
        f"a picture is an array of uint8 (grey also uint16 or bool), not {array.dtype}",
        field=field,
        cure="Scale it to 0..255 and convert it with astype(numpy.uint8), or name the field npy.",
    )


def _channels_first(array: npt.NDArray[Any]) -> bool:
    return array.ndim == 3 and array.shape[0] in {1, 2, 3, 4}


def _suited(image: Image.Image, kind: str, field: str) -> Image.Image:
    """The image in a mode that the format holds, changed only where nothing is lost."""
    if min(image.size) < 1:
        raise FieldRefusedError(f"a picture of {image.width} x {image.height} pixels", field=field)
    if image.mode in _MODES[kind] and (kind not in {"JPEG", "PPM", "BMP"} or not image.has_transparency_data):
        return image
    if image.mode == "P" and "RGBA" in _MODES[kind]:
        return image.convert("RGBA" if image.has_transparency_data else "RGB")
    if image.mode in {"1", "LA"} and kind in {"WEBP", "AVIF", "JXL"}:
        return image.convert("L" if image.mode == "1" else "RGBA")
    if image.mode in {"P", "1"} and "RGB" in _MODES[kind] and not image.has_transparency_data:
        return image.convert("RGB" if image.mode == "P" else "L")
    cure = "Blend it on a background or drop the alpha, or name the field png." if image.has_transparency_data else None
    kept = ", ".join(sorted(_MODES[kind]))
    raise FieldRefusedError(f"{kind} holds pixels of the modes {kept}, not {_words(image)}", field=field, cure=cure)


def _words(image: Image.Image) -> str:
    return (
        f"{image.mode} with transparency"
        if image.mode in {"L", "P", "RGB"} and image.has_transparency_data
        else image.mode
    )


def _saved(image: Image.Image, kind: str, field: str, quality: int) -> bytes:
    options = dict(_SAVING.get(kind, {}))
    if kind in _LOSSY:
        options["quality"] = quality
    if kind == "JXL":
        _load_jxl(field)
    if profile := image.info.get("icc_profile"):
        options["icc_profile"] = profile
    target = io.BytesIO()
    try:
        image.save(target, kind, **options)
    except (OSError, ValueError, SystemError, OverflowError, KeyError) as error:
        size = f"{image.mode} picture of {image.width} x {image.height} pixels"
        raise FieldRefusedError(f"{size} cannot be written as {kind}: {error}", field=field) from error
    return target.getvalue()


def _load_jxl(field: str) -> None:
    import importlib

    try:
        importlib.import_module("pillow_jxl")
    except ImportError as error:
        raise FieldRefusedError("JPEG XL needs a package", field=field, cure="pip install pillow-jxl-plugin") from error

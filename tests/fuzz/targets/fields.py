"""What members are called and what they hold: the name rule, and the codec table."""

from __future__ import annotations

import gzip
import importlib.util
import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.targets.target import Target
from tests.wds_tools.pictures.made import saved, scene
from wds_tools.codec import decode_field, encode_field, kind_of
from wds_tools.errors import SampleError
from wds_tools.names import check_field, check_key, is_litter, is_metadata, near_field, split_name
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.options import Pictures
from wds_tools.tar import member_header, walk
from wds_tools.tar.write import END

__all__ = ["TARGETS"]

_VALUES: dict[str, Any] = {
    "cls": 17,
    "txt": "größer",
    "json": {"a": [1, None, "x", 1.5], "b": {}},
    "jsonl": [1, {"a": 2}],
    "npy": np.arange(6, dtype=np.float32).reshape(2, 3),
    "npz": {"x": np.arange(3), "y": np.zeros((2, 2), np.uint8)},
    "safetensors": {"x": np.arange(3, dtype=np.float32)},
    "mp": {"a": b"x", "b": [1, -1, 1.5]},
    "cbor": {"a": b"x", "b": [1, -1, 1.5]},
}
_HAS_TORCH = importlib.util.find_spec("torch") is not None
_ZIPPED = ["npz", *(f"{name}.gz" for name in _VALUES)]
_FIELDS = [*(name for name in _VALUES if name != "npz"), *(["pt"] if _HAS_TORCH else []), "pkl", "bin", "bin.gz", "gz"]
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
_DECODER = Decoder(Pictures(max_pixels=200_000, icc="srgb"))


def named(data: bytes, folder: Path) -> bool:
    """Names make a key and a field, or none; what the writer takes is read back as it was."""
    key, _, field = data.decode("utf-8", "surrogateescape").partition("\0")
    for name in (key, field, f"{key}.{field}"):
        found = split_name(name)
        assert found is None or (name.startswith(found[0]) and name.lower().endswith(found[1]))
        assert {type(is_metadata(name)), type(is_litter(name))} == {bool}
        near_field(name, [key, field])
    check_key(key)
    check_field(field)
    (member,) = walk(member_header(f"{key}.{field}", 0) + END)
    assert split_name(member.name) == (key, field)
    assert not is_metadata(member.name)
    assert not is_litter(member.name)
    return True


def decoded(fields: Sequence[str]) -> Callable[[bytes, Path], bool]:
    """Any bytes in any field are a value or a SampleError, and bytes pass unchanged where nothing is known."""

    def run(data: bytes, folder: Path) -> bool:
        field, content = fields[(data[0] if data else 0) % len(fields)], data[1:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of old formats
            try:
                value = decode_field(field, content)
            except SampleError as error:
                assert error.field == field  # noqa: PT017
                raise
        assert kind_of(field) != "pickle"
        if kind_of(field) == "bytes":
            assert value == content
        return True

    return run


def pictured(data: bytes, folder: Path) -> bool:
    """Any bytes are a picture within the limit of pixels, or a PictureError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of odd directories
        pixels = _DECODER.decode(data)
    assert pixels.dtype == np.uint8
    assert pixels.size <= 3 * 200_000
    return True


def _named_seeds() -> list[bytes]:
    good = ("a/b\0jpg", "k" * 300 + "\0seg.png", "é/k\0é", "d.1/0 0\0json.gz")
    names = (*good, "__meta__\0json", "._x\0jpg", "../k\0cls", "a.b\0")
    return [name.encode() for name in names]


def _encoded(fields: Sequence[str]) -> list[bytes]:
    values = ((number, field, field.removesuffix(".gz")) for number, field in enumerate(fields))
    return [bytes([number]) + encode_field(field, _VALUES[bare]) for number, field, bare in values if bare in _VALUES]


def _field_seeds() -> list[bytes]:
    found = _encoded(_FIELDS)
    if _HAS_TORCH:
        import torch

        target = io.BytesIO()
        torch.save({"x": torch.arange(3)}, target)
        found.append(bytes([_FIELDS.index("pt")]) + target.getvalue())
    deep = bytes([_FIELDS.index("json")]) + b"[" * 50 + b"{}" + b"]" * 50
    old = bytes([_FIELDS.index("npy")]) + b"\x93NUMPY\x02\0\x10\0\0\0{'descr':'<u1'}\n"
    announced = bytes([_FIELDS.index("mp")]) + b"\xdd\0\0\x01\0" * 50
    return [*found, deep, old, announced]


def _zipped_seeds() -> list[bytes]:
    return [*_encoded(_ZIPPED), bytes([_ZIPPED.index("json.gz")]) + gzip.compress(b"[" * 5000, mtime=0)]


def _picture_seeds() -> list[bytes]:
    pixels = scene(20, 14)
    return [saved(pixels, form) for form in _FORMATS] + [saved(pixels, "JPEG", progressive=True)]


TARGETS = (
    Target(name="names", run=named, seeds=_named_seeds),
    # An empty object of one byte (MessagePack, CBOR) takes 64 and 8 in its list.
    Target(name="fields", run=decoded(_FIELDS), seeds=_field_seeds),
    # Deflate packs 1,032 bytes of the same into one.
    Target(name="zipped", run=decoded(_ZIPPED), seeds=_zipped_seeds, times=1032 * 100),
    Target(name="pictures", run=pictured, seeds=_picture_seeds),
)

"""What the last part of a field's name means: one table for reading and writing, so that the two cannot drift apart.

    jpg jpeg png webp avif gif bmp tif tiff ppm pgm jxl    a picture: uint8 (height, width, 3)
    cls cls2 class index inx id count                      a whole number
    txt text transcript caption                            text
    json jsn / jsonl                                       an object / a list
    npy / npz                                              an array / arrays by name
    pt pth / safetensors                                   tensors / arrays by name
    mp msgpack msg / cbor                                  an object
    pkl pickle pyd                                         refused unless allow_pickle=True
    .gz behind any of these                                unpacked (1 GiB at most), then as the inner name
    anything else                                          bytes

Writing: `bytes`, `bytearray` and `memoryview` are what the member will hold and pass unchanged, whatever the field.
Other values are encoded by the row, or refused with the reason before anything is written: what comes back is equal to
what was given (pictures in formats that lose something aside). Decoders meet hostile bytes: whatever they raise becomes
a `FieldError` or `PictureError` here.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from wds_tools.errors import FieldError, FieldRefusedError, ShardstreamError
from wds_tools.fields import arrays, gzipped, objects, text
from wds_tools.sample import BytesLike

__all__ = ["PICTURE_FIELDS", "Kind", "decode_field", "encode_field", "kind_of", "view_array"]

Kind: TypeAlias = Literal[
    "picture", "int", "text", "json", "jsonl", "npy", "npz", "pt", "safetensors", "msgpack", "cbor", "pickle", "bytes"
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Row:
    kind: Kind
    names: str  # separated by spaces
    decode: Callable[[BytesLike], Any]
    encode: Callable[[Any, str, int], bytes]  # value, field, picture quality


def _simple(encode: Callable[[Any], bytes]) -> Callable[[Any, str, int], bytes]:
    return lambda value, _field, _quality: encode(value)


_PICKLE = "a pickle may run anything when it is read"

_threads = threading.local()  # a picture decoder owns memory, so each thread has its own


def _decode_picture(data: BytesLike) -> Any:
    from wds_tools.pictures.decode import Decoder

    if not hasattr(_threads, "decoder"):
        _threads.decoder = Decoder()
    return _threads.decoder.decode(data)


def _encode_picture(value: object, field: str, quality: int) -> bytes:
    from wds_tools.pictures.encode import encode_picture

    return encode_picture(value, field, quality=quality)


def _decode_pt(data: BytesLike) -> Any:
    return importlib.import_module("wds_tools.torch").decode_pt(data)


def _encode_pt(value: object) -> bytes:
    encoded: bytes = importlib.import_module("wds_tools.torch").encode_pt(value)
    return encoded


def _encode_bytes(value: object) -> bytes:
    raise FieldRefusedError(
        f"bytes are expected, not {type(value).__name__}", cure="Encode it, or choose a field name whose kind is known."
    )


_BYTES = _Row("bytes", "", bytes, _simple(_encode_bytes))
_TABLE = (
    _Row("picture", "jpg jpeg png webp avif gif bmp tif tiff ppm pgm jxl", _decode_picture, _encode_picture),
    _Row("int", "cls cls2 class index inx id count", text.decode_int, _simple(text.encode_int)),
    _Row("text", "txt text transcript caption", text.decode_text, _simple(text.encode_text)),
    _Row("json", "json jsn", text.decode_json, _simple(text.encode_json)),
    _Row("jsonl", "jsonl", text.decode_jsonl, _simple(text.encode_jsonl)),
    _Row("npy", "npy", arrays.decode_npy, _simple(arrays.encode_npy)),
    _Row("npz", "npz", arrays.decode_npz, _simple(arrays.encode_npz)),
    _Row("pt", "pt pth", _decode_pt, _simple(_encode_pt)),
    _Row("safetensors", "safetensors", arrays.decode_safetensors, _simple(arrays.encode_safetensors)),
    _Row("msgpack", "mp msgpack msg", objects.decode_msgpack, _simple(objects.encode_msgpack)),
    _Row("cbor", "cbor", objects.decode_cbor, _simple(objects.encode_cbor)),
    _Row("pickle", "pkl pickle pyd", objects.decode_pickle, _simple(objects.encode_pickle)),
)
PICTURE_FIELDS = tuple(_TABLE[0].names.split())
_ROWS = {name: row for row in _TABLE for name in row.names.split()}


@functools.lru_cache(maxsize=1024)  # a loader asks for the same few names with every sample
def _row(field: str) -> tuple[_Row, bool, str]:
    """The row, whether gzip lies around it, and the name without `.gz`."""
    inner, dot, last = field.lower().rpartition(".")
    if last == "gz" and dot:
        row = _ROWS.get(inner.rpartition(".")[2])
        return (row, True, inner) if row else (_BYTES, False, field)
    return _ROWS.get(last, _BYTES), False, field


def kind_of(field: str) -> Kind:
    """What a field holds, by the last part of its name: "picture" for `jpg`, `seg.png` and `jpg.gz`."""
    return _row(field)[0].kind


def decode_field(field: str, data: BytesLike, *, allow_pickle: bool = False) -> object:
    """Decode a field's bytes as its name says.

    Args:
        field: such as "cls" or "seg.png".
        data: the member's bytes.
        allow_pickle: read pickles, which run code of whoever made the shard.

    Raises:
        FieldError: bytes that do not decode to that kind, or a pickle.
        PictureError: a picture that does not decode.
    """
    row, gzip, _ = _row(field)
    if row.kind == "pickle" and not allow_pickle:
        raise FieldError(_PICKLE, field=field, cure="For shards of your own: allow_pickle=True.")
    return _decoded(
        field, row.kind, (lambda packed: row.decode(gzipped.decompress(packed))) if gzip else row.decode, data
    )


def view_array(field: str, data: BytesLike) -> arrays.Array:
    """The array of an `npy` field, not copied: a view on the bytes, whatever these become.

    Args:
        field: its name, for messages.
        data: the member's bytes.

    Raises:
        FieldError: as `decode_field`.
    """
    return _decoded(field, "npy", arrays.view_npy, data)


def _decoded(field: str, kind: Kind, decode: Callable[[BytesLike], _T], data: BytesLike) -> _T:
    try:
        return decode(data)
    except ShardstreamError as error:
        error.at(field=field)
        raise
    except MemoryError:
        raise
    except Exception as error:
        words = str(error) or type(error).__name__
        raise FieldError(f"{kind} does not decode: {words:.200}", field=field) from error


def encode_field(field: str, value: object, *, allow_pickle: bool = False, quality: int = 95) -> bytes:
    """Encode a value as the field's name says.

    Args:
        field: such as "cls" or "seg.png".
        value: bytes-like (unchanged), or what the table above says.
        allow_pickle: write pickles.
        quality: of pictures in formats that lose something, 1 to 100.

    Raises:
        FieldRefusedError: a value that would not come back as it is; the message names its type and the way out.
    """
    row, gzip, inner = _row(field)
    if isinstance(value, bytes | bytearray | memoryview):
        return _as_they_are(bytes(value), field, gzip=gzip)
    if value is None:
        raise FieldRefusedError("None cannot be written", field=field, cure="Leave the field out.")
    if row.kind == "pickle" and not allow_pickle:
        raise FieldRefusedError(_PICKLE, field=field, cure="Use json, npy or msgpack.")
    try:
        encoded = row.encode(value, inner, quality)
        return gzipped.compress(encoded) if gzip else encoded
    except ShardstreamError as error:
        error.field = field
        raise
    except MemoryError:
        raise
    except Exception as error:
        words = f"{type(value).__name__} cannot be written as {row.kind}: {error!s:.200}"
        raise FieldRefusedError(words, field=field) from error


def _as_they_are(value: bytes, field: str, *, gzip: bool) -> bytes:
    if gzip and value[:2] != b"\x1f\x8b":
        words = "bytes pass unchanged, and these are not gzip data"
        raise FieldRefusedError(words, field=field, cure="Pack them with gzip.compress().")
    return value

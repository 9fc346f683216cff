"""Objects in binary form: MessagePack, CBOR and, only where the caller says so, pickle.

numpy scalars are written as numbers and arrays as lists, as in JSON. A pickle runs whatever its maker wanted when it is
read: refused in both directions unless `allow_pickle=True` was given for shards that the caller made.
"""

from __future__ import annotations

import pickle  # nosec B403  # only behind allow_pickle
from typing import Any

import numpy as np

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.fields.optional import package
from wds_tools.sample import BytesLike

__all__ = [
    "decode_cbor",
    "decode_msgpack",
    "decode_pickle",
    "encode_cbor",
    "encode_msgpack",
    "encode_pickle",
]


def decode_msgpack(data: BytesLike) -> Any:
    """The object, keys of any type."""
    msgpack = package("msgpack", "msgpack", FieldError)
    # It makes room for as many entries as an array announces, and arrays in arrays for as many again: 4 KB a byte. A
    # look that makes nothing shows first whether they are there: 2 microseconds more for an object of 1 KB.
    look = msgpack.Unpacker(max_buffer_size=len(data))
    look.feed(data)
    look.skip()
    return msgpack.unpackb(data, raw=False, strict_map_key=False)


def encode_msgpack(value: object) -> bytes:
    """Write an object of dicts, lists, numbers, text and bytes."""
    packed: bytes = package("msgpack", "msgpack", FieldRefusedError).packb(value, use_bin_type=True, default=_plain)
    return packed


def decode_cbor(data: BytesLike) -> Any:
    """The object."""
    return package("cbor2", "cbor2", FieldError).loads(bytes(data))


def encode_cbor(value: object) -> bytes:
    """Write an object of dicts, lists, numbers, text and bytes."""

    def default(encoder: Any, unknown: object) -> None:
        encoder.encode(_plain(unknown))

    packed: bytes = package("cbor2", "cbor2", FieldRefusedError).dumps(value, default=default)
    return packed


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written")


def decode_pickle(data: BytesLike) -> Any:
    """The object; runs whatever the pickle says."""
    return pickle.loads(data)  # nosec B301  # noqa: S301 - the caller allowed it for these shards


def encode_pickle(value: object) -> bytes:
    """Write any object that pickles."""
    return pickle.dumps(value, protocol=4)

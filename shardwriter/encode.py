"""One sample to the pieces of its members, wholly checked and encoded before anything of it is written.

The order of the fields is the order in the dict. Names are checked once and remembered; bytes pass unchanged and
uncopied, and so do views on memory that nobody can write to (bytes, and arrays that are read-only themselves);
everything else goes through the codec table of wds_tools, which readers use too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wds_tools.codec import encode_field
from wds_tools.errors import FieldRefusedError, KeyRefusedError, ShardstreamError, UsageError
from wds_tools.names import check_field, check_key
from wds_tools.sample import KEY, SPECIAL, BytesLike
from wds_tools.tar.write import member_header, padding

__all__ = ["Encoded", "Encoder", "Frozen"]

_MOST_PLAIN = 1000


class Frozen(np.ndarray[Any, Any]):
    """Bytes in memory that nobody writes to as long as this array or a view on it is alive, whoever owns the memory."""


class Encoded(NamedTuple):
    """A sample that is ready to be written.

    Attributes:
        key: the sample's key.
        fields: its field names, in order.
        values: the data of each.
        pieces: header, data and padding of each member in turn, in as many pieces as it may be.
        size: bytes of all pieces, a multiple of 512.
    """

    key: str
    fields: tuple[str, ...]
    values: Sequence[BytesLike]
    pieces: list[BytesLike]
    size: int


class Encoder:
    """Encodes samples; remembers which field names are good.

    Args:
        quality: of JPEG, WebP and AVIF pictures that are made from arrays, 1 to 100.
        allow_pickle: whether fields such as pkl may be written.
    """

    def __init__(self, *, quality: int = 95, allow_pickle: bool = False) -> None:
        self._quality = quality
        self._allow_pickle = allow_pickle
        self._good: set[str] = set()
        self._plain: set[tuple[str, ...]] = set()
        """Fields that samples have together, all good, and none whose data has to be looked at."""

    def encode(self, sample: Mapping[str, object]) -> Encoded:
        """The pieces of one sample.

        Raises:
            KeyRefusedError: no key, or one that is no safe member name or would be split in another place.
            FieldRefusedError: no fields, a field name that would not come back, or a value that its field cannot hold.
        """
        key = self._key(sample)
        fields = _fields(key, sample)
        values: list[BytesLike] = []
        pieces: list[BytesLike] = []
        size = 0
        for field in fields:
            data = self._data(key, field, sample[field])
            header = member_header(f"{key}.{field}", len(data))
            pad = padding(len(data))
            values.append(data)
            pieces += (header, data, pad)
            size += len(header) + len(data) + len(pad)
        return Encoded(key, fields, values, pieces, size)

    def taken(self, sample: Mapping[str, object], members: memoryview) -> Encoded:
        """The pieces of one sample that lies somewhere as it would be written here: of one piece, and as `encode`.

        Args:
            sample: its key, and its fields as views on `members`, in their order.
            members: headers, data and padding, of which `wds_tools.tar.runs.as_written` is true; nobody may change it.

        Raises:
            KeyRefusedError, FieldRefusedError: as `encode`.
        """
        key = self._key(sample)
        fields = _fields(key, sample)
        if fields not in self._plain:
            encoded = self.encode(sample)
            if not any(field.endswith(".gz") for field in fields) and len(self._plain) < _MOST_PLAIN:
                self._plain.add(fields)
            return encoded
        return Encoded(key, fields, [sample[field] for field in fields], [members], len(members))  # type: ignore[misc]

    def _key(self, sample: Mapping[str, object]) -> str:
        if not isinstance(sample, Mapping):
            raise UsageError(
                f"a sample is a dict, not a {type(sample).__name__}", cure='{"__key__": "a", "jpg": data}.'
            )
        key = sample.get(KEY)
        if type(key) is not str:
            found = f"{KEY} is a {type(key).__name__}" if KEY in sample else f"the sample has no {KEY}"
            raise KeyRefusedError(f"{found}, expected a str", cure='Write {"__key__": "n01440764/00001", ...}.')
        check_key(key)
        return key

    def _data(self, key: str, field: str, value: object) -> BytesLike:
        try:
            if field not in self._good:
                check_field(field)
                self._good.add(field)
            if not field.endswith(".gz"):  # whether those are gzip data is the table's to say
                if type(value) is bytes:
                    return value
                if type(value) is memoryview and _is_frozen(value):
                    return value
            data = encode_field(field, value, allow_pickle=self._allow_pickle, quality=self._quality)
        except ShardstreamError as error:
            raise error.at(key=key, field=str(field)) from error.__cause__
        # The caller may change or reuse a bytearray or a view as soon as write returns; the piece is written later.
        return data if type(data) is bytes else bytes(data)


def _fields(key: str, sample: Mapping[str, object]) -> tuple[str, ...]:
    fields = tuple([field for field in sample if field not in SPECIAL])  # of a list: twice as fast as of a generator
    if not fields:
        raise FieldRefusedError(
            "a sample without fields would leave nothing behind", key=key, cure="Give it at least one field."
        )
    return fields


def _is_frozen(view: memoryview) -> bool:
    """Whether nobody can change what a view shows: one that is read-only may still lie on memory that others write."""
    owner = view.obj
    frozen = type(owner) is bytes
    if isinstance(owner, np.ndarray):
        frozen = not owner.flags.writeable and (owner.flags.owndata or isinstance(owner, Frozen))
    return frozen and view.format == "B" and view.contiguous and view.ndim == 1

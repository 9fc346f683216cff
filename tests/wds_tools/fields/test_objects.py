from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.codec import decode_field
from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.fields import objects

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXT | st.binary()
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.integers(0, 9), inner, max_size=4),
)


@given(VALUES)
def test_objects_come_back(value: Any) -> None:
    assert objects.decode_msgpack(objects.encode_msgpack(value)) == value
    assert objects.decode_cbor(objects.encode_cbor(value)) == value
    assert objects.decode_pickle(objects.encode_pickle(value)) == value


def test_numpy_values_become_numbers_and_lists() -> None:
    value = {"a": np.float64(1.5), "b": [np.int8(2)], "c": np.arange(3)}
    plain = {"a": 1.5, "b": [2], "c": [0, 1, 2]}
    assert objects.decode_msgpack(objects.encode_msgpack(value)) == plain
    assert objects.decode_cbor(objects.encode_cbor(value)) == plain


def test_bytes_like_of_any_kind_are_read() -> None:
    for encode, decode in (
        (objects.encode_msgpack, objects.decode_msgpack),
        (objects.encode_cbor, objects.decode_cbor),
    ):
        data = encode({"a": b"x"})
        assert decode(memoryview(data)) == decode(bytearray(data)) == {"a": b"x"}


@pytest.mark.parametrize("package", ["msgpack", "cbor2"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    decode = objects.decode_msgpack if package == "msgpack" else objects.decode_cbor
    encode = objects.encode_msgpack if package == "msgpack" else objects.encode_cbor
    with pytest.raises(FieldError, match=f"pip install {package}"):
        decode(b"\x01")
    with pytest.raises(FieldRefusedError, match=f"pip install {package}"):
        encode(1)


def test_no_room_is_made_for_entries_that_are_only_announced() -> None:
    announced = b"\xdd\x00\x01\x00\x00" * 500 + bytes(65_536)  # 500 arrays of 65,536 entries, each in the one before
    tracemalloc.start()
    try:
        with pytest.raises(FieldError, match="msgpack"):
            decode_field("mp", announced)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(announced)
    finally:
        tracemalloc.stop()

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.errors import FieldError, FieldRefusedError
from wds_tools.fields import text

TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(st.integers(-(10**200), 10**200))
def test_whole_numbers_come_back(value: int) -> None:
    assert text.decode_int(text.encode_int(value)) == value


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_numpy_integers_are_written(kind: type[np.integer[Any]]) -> None:
    assert text.encode_int(kind(7)) == b"7"


@pytest.mark.parametrize(("data", "value"), [(b"3", 3), (b" 3\r\n", 3), (b"\t-12 ", -12), (b"+4", 4), (b"007", 7)])
def test_white_space_around_a_number_is_tolerated(data: bytes, value: int) -> None:
    assert text.decode_int(data) == text.decode_int(memoryview(data)) == value


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"1.0", b"1e3", b"cat", b"True", b"None", b"1 2", b"1_000", b"0x10", "\u0663".encode(), b"9" * 5000],
)
def test_what_is_no_whole_number_is_an_error_that_shows_it(data: bytes) -> None:
    with pytest.raises(FieldError, match="a whole number is expected, found b'"):
        text.decode_int(data)


@pytest.mark.parametrize("value", [True, False, np.True_, 1.0, 1.5, np.float32(1), "1", [1], np.array([1])])
def test_what_is_no_whole_number_is_not_written(value: object) -> None:
    with pytest.raises(FieldRefusedError, match=f"not {type(value).__name__}"):
        text.encode_int(value)


@given(TEXT)
def test_text_comes_back_but_for_a_byte_order_mark(value: str) -> None:
    assert text.decode_text(text.encode_text(value)) == value.removeprefix("\ufeff")


def test_odd_text() -> None:
    assert text.decode_text(b"") == ""
    assert text.decode_text(b"\xef\xbb\xbfcaf\xc3\xa9") == "café"
    assert text.decode_text(memoryview(b"a\0b")) == "a\0b"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"caf\xe9", "byte 0xe9 at 3.*Latin-1"),
        ("café".encode("utf-16"), "byte order mark of UTF-16"),
        ("é".encode("utf-16-be"), "byte 0xe9 at 1"),
        (b"\xfe\xff\0a", "byte order mark of UTF-16"),
        ("café".encode("utf-32"), "byte order mark of UTF-32"),
    ],
)
def test_other_encodings_are_errors_that_name_them(data: bytes, words: str) -> None:
    with pytest.raises(FieldError, match=words):
        text.decode_text(data)


@pytest.mark.parametrize("value", [b"bytes", 3, None, ["a"], "lone \ud800"])
def test_what_is_no_text_is_not_written(value: object) -> None:
    with pytest.raises(FieldRefusedError, match="text"):
        text.encode_text(value)


@given(JSON)
def test_json_comes_back(value: Any) -> None:
    assert text.decode_json(text.encode_json(value)) == value


@given(st.lists(JSON))
def test_json_lines_come_back(value: list[Any]) -> None:
    assert text.decode_jsonl(text.encode_jsonl(value)) == value


def test_numpy_values_in_json() -> None:
    value = {"a": np.float32(1.5), "b": np.int64(2), "c": np.bool_(True), "d": np.arange(3), "e": [np.uint8(1)]}
    assert text.decode_json(text.encode_json(value)) == {"a": 1.5, "b": 2, "c": True, "d": [0, 1, 2], "e": [1]}


def test_nan_is_read_but_not_written() -> None:
    assert math.isnan(text.decode_json(b'{"a": NaN}')["a"])
    for value in (math.nan, np.float32("nan"), {"a": [math.inf]}):
        with pytest.raises(FieldRefusedError, match="JSON"):
            text.encode_json(value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"{'a': 1}", b"caf\xe9", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, '{"a": 1}'.encode("utf-16")],
    ids=["empty", "half", "single quotes", "latin-1", "deep lists", "deep dicts", "long number", "utf-16"],
)
def test_what_is_no_json_is_an_error(data: bytes) -> None:
    with pytest.raises(FieldError):
        text.decode_json(data)


def test_json_as_python_reads_it() -> None:
    assert text.decode_json(b'\xef\xbb\xbf{"a": 1, "a": 2}') == {"a": 2}
    assert text.decode_json(b"1" + b"0" * 400) == 10**400


def test_what_json_does_not_have_is_not_written() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ({1, 2}, b"bytes", {"a": object()}, circle, deep, {(1, 2): 3}, 1j, "\ud800"):
        with pytest.raises(FieldRefusedError, match="JSON"):
            text.encode_json(value)


def test_json_lines_name_the_line() -> None:
    assert text.decode_jsonl(b'1\n\n{"a": 2}\r\n') == [1, {"a": 2}]
    assert text.decode_jsonl(b"") == []
    with pytest.raises(FieldError, match="line 3"):
        text.decode_jsonl(b"1\n\nx\n")
    for value in ({"a": 1}, "text", 3):
        with pytest.raises(FieldRefusedError, match="list"):
            text.encode_jsonl(value)

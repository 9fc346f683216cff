from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.errors import FieldError
from wds_tools.fields.gzipped import compress, decompress


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=4), st.integers(0, 5))
def test_parts_come_back_in_order(parts: list[bytes], padding: int) -> None:
    data = b"".join(gzip.compress(part) for part in parts) + bytes(padding)
    assert decompress(data) == decompress(memoryview(data)) == b"".join(parts)


def test_the_same_bytes_every_time() -> None:
    assert compress(b"abc") == compress(b"abc")
    assert compress(b"abc")[4:8] == bytes(4)  # no time


def test_data_cut_anywhere_is_an_error() -> None:
    data = compress(bytes(range(256)) * 4)
    for length in range(len(data)):
        with pytest.raises(FieldError, match=r"cut off|does not unpack"):
            decompress(data[:length])


@pytest.mark.parametrize("data", [b"no gzip data", compress(b"abc") + b"junk", compress(b"abc")[:-1] + b"\1"])
def test_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(FieldError):
        decompress(data)


def test_a_bomb_ends_at_the_limit() -> None:
    bomb = gzip.compress(bytes(1_000_001))
    assert len(decompress(bomb, 1_000_001)) == 1_000_001
    with pytest.raises(FieldError, match="more than 1,000,000 bytes"):
        decompress(bomb, 1_000_000)
    with pytest.raises(FieldError, match="more than 1,000,000 bytes"):
        decompress(gzip.compress(bytes(600_000)) * 2, 1_000_000)

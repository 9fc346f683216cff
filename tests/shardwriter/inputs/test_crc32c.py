import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.crc32c import crc32c, masked


def by_bits(data: bytes) -> int:
    """The definition, a bit at a time."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next three from RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, value: int) -> None:
    assert crc32c(data) == value


@given(st.binary(max_size=64), st.integers(0, 70))
def test_long_data_give_what_the_definition_says(piece: bytes, times: int) -> None:
    data = (piece + b"x") * times
    assert crc32c(data) == crc32c(memoryview(data)) == by_bits(data)


def test_data_of_every_length_around_the_strips() -> None:
    data = bytes(range(251)) * 30
    for size in (2047, 2048, 2049, 3071, 3072, 5000, 7000):
        assert crc32c(data[:size]) == by_bits(data[:size])


def test_the_mask_of_records() -> None:
    assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF

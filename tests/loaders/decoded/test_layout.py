"""The file of decoded pictures as bytes: what was packed is unpacked, and nothing else is believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.decoded import layout
from loaders.decoded.small import Small, mapped, small_shape
from wds_tools.pictures.orientation import Box

BIRTH = bytes(range(16))


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    sample: dict[str, Any] = {"__key__": draw(st.text(st.characters(), max_size=20))}
    for name in draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=4)):
        if draw(st.booleans()):
            sample[name] = draw(st.binary(max_size=200))
        else:
            shape = (draw(st.integers(1, 9)), draw(st.integers(1, 9)), 3)
            pixels = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, shape, dtype=np.uint8)
            pixels = np.asfortranarray(pixels) if draw(st.booleans()) else pixels
            sample[name] = Small(draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6)), pixels)
    return sample


def packed(sample: dict[str, Any], number: int = 7, written: int = -3) -> bytes:
    names = [name for name in sample if name != "__key__"]
    return b"".join(map(bytes, layout.pack_record(BIRTH, number, written, sample, names)))


@given(sample=samples(), number=st.integers(0, 2**40), written=st.integers(-(2**63), 2**63 - 1))
def test_a_record_comes_back_as_it_was(sample: dict[str, Any], number: int, written: int) -> None:
    record = memoryview(packed(sample, number, written))
    assert len(record) % 64 == 0
    assert layout.is_sound(BIRTH, number, record)
    when, found = layout.unpack_record(record)
    assert when == written
    assert list(found) == list(sample)
    for name, value in sample.items():
        if isinstance(value, Small):
            assert found[name][:2] == value[:2]
            assert np.array_equal(found[name].pixels, value.pixels)
        else:
            assert found[name] == value


@given(sample=samples(), data=st.data())
def test_no_changed_cut_or_foreign_record_is_sound(sample: dict[str, Any], data: st.DataObject) -> None:
    record = packed(sample)
    at, bit = data.draw(st.integers(0, len(record) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(record)
    damaged[at] ^= 1 << bit
    assert not layout.is_sound(BIRTH, 7, memoryview(damaged))
    assert not layout.is_sound(BIRTH, 7, memoryview(record)[: data.draw(st.integers(0, len(record) - 1))])
    assert not layout.is_sound(BIRTH, 8, memoryview(record))
    assert not layout.is_sound(BIRTH[::-1], 7, memoryview(record))


@given(begin=st.integers(1, 2**39), length=st.integers(1, 2**24 - 1))
def test_an_entry_says_where_and_how_long(begin: int, length: int) -> None:
    entry = layout.pack_entry(begin * 64, length * 64)
    assert 0 < entry < 2**64
    assert layout.unpack_entry(entry) == (begin * 64, length * 64)
    assert entry < layout.pack_entry((begin + 1) * 64, 64)


@pytest.mark.parametrize("samples_", [0, 1, 512, 513, 20_000_000])
def test_the_header_comes_back_and_no_other_is_believed(samples_: int) -> None:
    header = layout.Header(BIRTH, bytes(32), samples_)
    block = layout.pack_header(header)
    assert len(block) == 4096
    assert layout.unpack_header(block) == header
    assert layout.unpack_header(block[:-1]) is None
    for at in (0, 25, 50, 75, 84):
        assert layout.unpack_header(block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]) is None
    plan = layout.Layout(samples_)
    assert plan.records_at % 4096 == 0
    assert plan.records_at - plan.table_at >= 8 * samples_


@given(width=st.integers(1, 5000), height=st.integers(1, 5000), size=st.integers(1, 600))
def test_the_shorter_side_is_the_one_that_was_asked_for(width: int, height: int, size: int) -> None:
    high, wide = small_shape(width, height, size)
    if min(width, height) <= size:
        assert (wide, high) == (width, height)
    else:
        assert min(wide, high) == size
        assert abs(wide / high - width / height) <= width / height / size
    assert small_shape(width, height, (size, 7)) == (size, 7)


@given(width=st.integers(2, 3000), height=st.integers(2, 3000), share=st.tuples(*[st.floats(0, 0.9)] * 4))
def test_a_box_is_the_same_share_of_the_small_picture(
    width: int, height: int, share: tuple[float, float, float, float]
) -> None:
    small = Small(width, height, np.zeros((30, 40, 3), np.uint8))
    left, top = share[0] * width, share[1] * height
    box = Box(left, top, (width - left) * (1 - share[2]), (height - top) * (1 - share[3]))
    found = mapped(box, small)
    assert found is not None
    assert np.allclose(np.array(found) / [40, 30, 40, 30], np.array(box) / [width, height, width, height])
    assert mapped(None, small) is None
    assert mapped(box, small._replace(width=40, height=30)) is box

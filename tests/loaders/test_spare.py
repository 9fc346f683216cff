"""Memory is used again, and never by two at once."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loaders.spare import Spare


def test_what_is_given_back_is_taken_again() -> None:
    spare = Spare()
    first = spare.take(400_000)
    first[:] = b"x" * 400_000
    spare.give(first, room=1 << 30)
    assert spare.nbytes
    again = spare.take(300_000)
    assert bytes(again) == b"x" * 300_000  # the same memory
    assert not spare.nbytes


def test_little_does_not_take_the_memory_of_much() -> None:
    spare = Spare()
    spare.give(spare.take(8 << 20), room=1 << 30)
    spare.take(1 << 20)
    assert spare.nbytes == 8 << 20
    spare.take(4 << 20)
    assert not spare.nbytes


def test_small_ranges_take_no_more_than_they_are() -> None:
    tracemalloc.start()
    try:
        spare = Spare()
        taken = [spare.take(1000) for _ in range(200)]
        assert tracemalloc.get_traced_memory()[0] < 400_000
        spare.give(taken.pop(), room=1 << 30)
        assert not spare.nbytes
    finally:
        tracemalloc.stop()


def test_what_has_no_room_is_let_go() -> None:
    spare = Spare()
    taken = [spare.take(1 << 20) for _ in range(5)]
    for each in taken:
        spare.give(each, room=2 << 20)
    assert spare.nbytes == 2 << 20
    spare.shrink(-5)
    assert not spare.nbytes


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3 << 20)), max_size=40))
def test_no_memory_is_lent_twice(steps: list[tuple[bool, int]]) -> None:
    spare, lent = Spare(), list[memoryview]()
    for gives, size in steps:
        if gives and lent:
            spare.give(lent.pop(size % len(lent)), room=4 << 20)
        else:
            lent.append(spare.take(size))
            assert len(lent[-1]) == size
        assert spare.nbytes <= 4 << 20
    arrays = [np.frombuffer(each, np.uint8) for each in lent]
    assert not any(np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])

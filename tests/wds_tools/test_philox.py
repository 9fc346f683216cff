"""The vectorised Philox equals numpy's, in C and without."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools import philox

compiled = pytest.mark.skipif(importlib.util.find_spec("wds_tools._philox") is None, reason="nothing was compiled")
WORDS = st.integers(0, 2**64 - 1)


@given(key=st.tuples(WORDS, WORDS), place=WORDS, other=WORDS, steps=st.integers(0, 5))
def test_the_words_are_numpys(key: tuple[int, int], place: int, other: int, steps: int) -> None:
    counter = np.array([0, place, other, 0], dtype=np.uint64)
    theirs = np.random.Philox(key=np.array(key, dtype=np.uint64), counter=counter).random_raw(4 * steps)
    columns = (
        np.full(steps, place, np.uint64),
        np.full(steps, other, np.uint64),
        np.arange(1, steps + 1, dtype=np.uint64),
    )
    assert philox.words(key, *columns).T.ravel().tolist() == theirs.tolist()
    assert philox.by_numpy(key, *columns).T.ravel().tolist() == theirs.tolist()


@given(st.integers(0, 300), WORDS)
def test_both_ways_are_alike_at_many_places(count: int, seed: int) -> None:
    place, other, step = np.random.Philox(key=seed).random_raw(3 * count).reshape(3, count)
    found = philox.words((seed, 5), place[::-1], other, step)
    assert found.shape == (4, count)
    assert np.array_equal(found, philox.by_numpy((seed, 5), place[::-1], other, step))


@compiled
def test_it_is_the_one_in_c_where_that_was_built() -> None:
    assert philox.COMPILED


@compiled
def test_wrong_arguments_are_refused() -> None:
    from wds_tools import _philox

    good = np.zeros(3, np.uint64)
    place: Any
    for place, out in [(np.zeros(2, np.uint64), (4, 3)), (np.zeros(6, np.uint32), (4, 3)), (good, (3, 3))]:
        with pytest.raises(ValueError, match="place, other and step are"):
            _philox.fill(0, 0, place, good, good, np.zeros(out, np.uint64))
    for key in (-1, 2**64):
        with pytest.raises(OverflowError):
            _philox.fill(0, key, good, good, good, np.zeros((4, 3), np.uint64))
    read_only = np.zeros((4, 3), np.uint64)
    read_only.setflags(write=False)
    with pytest.raises((BufferError, ValueError)):
        _philox.fill(0, 0, good, good, good, read_only)

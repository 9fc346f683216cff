"""Permutations hold each number once, and never change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.errors import UsageError
from wds_tools.permutation import check_seed, permutation

words = st.integers(0, 2**64 - 1)


@given(n=st.integers(0, 5000), key=st.tuples(words, words))
def test_each_number_once(n: int, key: tuple[int, int]) -> None:
    assert sorted(permutation(n, key).tolist()) == list(range(n))


def test_keys_differ() -> None:
    assert len({tuple(permutation(50, key).tolist()) for key in ((0, 0), (1, 0), (0, 1), (1, 1))}) == 4


@pytest.mark.parametrize("n", [2, 100, 65_537, 262_144, 262_145, 600_001])
def test_it_is_the_order_of_raw_draws_however_it_is_sorted(n: int) -> None:
    draws = np.random.Philox(key=np.array((7, n), dtype=np.uint64)).random_raw(n)
    low = np.uint64((1 << (n - 1).bit_length()) - 1)
    expected = np.lexsort((np.arange(n), draws & ~low))
    assert np.array_equal(permutation(n, (7, n)), expected)


def test_numbers_are_pinned() -> None:
    assert permutation(12, (7, 3)).tolist() == [2, 5, 9, 7, 3, 0, 6, 8, 4, 1, 11, 10]


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0", None])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(UsageError, match="seed is"):
        check_seed(seed)  # type: ignore[arg-type]

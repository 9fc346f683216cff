import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.order import check_seed, shuffled
from wds_tools.errors import UsageError


@given(st.integers(0, 3000), st.integers(0, (1 << 64) - 1))
def test_is_a_permutation(count: int, seed: int) -> None:
    assert sorted(shuffled(count, seed).tolist()) == list(range(count))


def test_is_the_same_for_ever() -> None:
    assert shuffled(10, 0).tolist() == [0, 2, 8, 9, 1, 4, 7, 5, 6, 3]
    assert shuffled(10, (1 << 64) - 1).tolist() == [2, 0, 7, 3, 8, 4, 6, 5, 9, 1]


def test_differs_with_the_seed() -> None:
    assert not np.array_equal(shuffled(1000, 0), shuffled(1000, 1))


def test_moves_everything_everywhere() -> None:
    """The mean distance of a random permutation of n is n/3."""
    moved = np.abs(shuffled(100_000, 3).astype(np.int64) - np.arange(100_000)).mean()
    assert 0.32 < moved / 100_000 < 0.35


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.0, True, "0", None])
def test_refuses_what_is_no_seed(seed: object) -> None:
    with pytest.raises(UsageError, match="seed"):
        check_seed(seed)  # type: ignore[arg-type]

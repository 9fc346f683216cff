"""Random numbers by place: permutations are permutations, all is repeatable."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.draws import Purpose, check_seed, key_of, permutation, uniforms
from wds_tools.errors import UsageError

words = st.integers(0, 2**64 - 1)


@given(n=st.integers(0, 5000), seed=words, epoch=st.integers(0, 1000))
def test_a_permutation_holds_each_number_once(n: int, seed: int, epoch: int) -> None:
    assert np.sort(permutation(n, key_of(seed, epoch, Purpose.BLOCKS))).tolist() == list(range(n))


def test_permutations_differ_by_seed_epoch_and_purpose() -> None:
    keys = [key_of(0, 0, Purpose.BLOCKS), key_of(1, 0, Purpose.BLOCKS), key_of(0, 1, Purpose.BLOCKS)]
    keys.append(key_of(0, 0, Purpose.DEAL))
    assert len({tuple(permutation(50, key).tolist()) for key in keys}) == 4


def test_the_order_is_pinned() -> None:
    # These numbers are part of the format of a state: a change would make every saved run go on elsewhere.
    assert permutation(12, key_of(7, 3, Purpose.BLOCKS)).tolist() == [2, 5, 9, 7, 3, 0, 6, 8, 4, 1, 11, 10]


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_nothing_depends_on_hash_randomisation(hash_seed: str) -> None:
    program = "from loaders.draws import *; print(permutation(12, key_of(7, 3, Purpose.BLOCKS)).tolist())"
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[2, 5, 9, 7, 3, 0, 6, 8, 4, 1, 11, 10]"


def test_uniforms_belong_to_their_place() -> None:
    key = key_of(5, 0, Purpose.AUGMENT)
    all_rows = uniforms(key, np.arange(100), 3)
    assert all_rows.shape == (100, 12)
    assert np.array_equal(uniforms(key, np.array([17, 3]), 3), all_rows[[17, 3]])


def test_uniforms_are_uniform() -> None:
    rows = uniforms(key_of(5, 0, Purpose.AUGMENT), np.arange(5000), 2)
    assert rows.min() >= 0
    assert rows.max() < 1
    assert np.abs(rows.mean(axis=0) - 0.5).max() < 0.02
    assert np.abs(np.corrcoef(rows.T) - np.eye(8)).max() < 0.06


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0"])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(UsageError, match="seed is"):
        check_seed(seed)  # type: ignore[arg-type]

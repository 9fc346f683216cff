"""Many strings in two arrays behave as a list of them."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.index.packed import PackedStrings

texts = st.lists(st.text(st.characters(codec=None), max_size=8), max_size=20)


@given(texts, st.integers(-25, 25), st.integers(-25, 25))
def test_as_a_list(strings: list[str], begin: int, end: int) -> None:
    packed = PackedStrings(strings)
    assert list(packed) == strings
    assert packed == strings
    assert len(packed) == len(strings)
    assert list(packed[begin:end]) == strings[begin:end]
    assert list(packed[::-1]) == strings[::-1]
    again = pickle.loads(pickle.dumps(packed))
    assert again == packed
    assert hash(again) == hash(packed)


def test_lone_surrogates_survive() -> None:
    assert PackedStrings(["\udce9.tar", "é", ""])[0] == "\udce9.tar"


def test_indexes() -> None:
    packed = PackedStrings(["a", "bc", "d"])
    assert (packed[0], packed[-1], packed[-3]) == ("a", "d", "a")
    for at in (3, -4):
        with pytest.raises(IndexError):
            packed[at]
    assert packed.index("bc") == 1
    assert packed != ["a", "bc"]
    assert packed != "abcd"


def test_a_pickle_costs_bytes_not_objects() -> None:
    strings = [f"/data/train-{at:06d}.tar" for at in range(20_000)]
    assert len(pickle.dumps(PackedStrings(strings))) < sum(map(len, strings)) + 8 * len(strings) + 500

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.split import Splits, place
from wds_tools.errors import UsageError


def test_places_never_change() -> None:
    """Written down once: a dataset that grows must be split as it was."""
    assert [round(place(key), 6) for key in ("cat/1", "dog/7", "größe")] == PLACES


PLACES = [0.944418, 0.586378, 0.039296]


@given(st.text())
def test_every_key_has_a_place(key: str) -> None:
    assert 0 <= place(key) < 1


def test_names_that_are_not_utf8_have_one_too() -> None:
    assert 0 <= place(b"caf\xe9".decode("utf-8", "surrogateescape")) < 1


def test_shares_are_kept_in_the_mean() -> None:
    splits = Splits("train", {"val": 0.05, "test": 0.2})
    counts = Counter(splits.names[splits.of(f"{number:06d}")] for number in range(20_000))
    assert counts["val"] == pytest.approx(1000, abs=100)
    assert counts["test"] == pytest.approx(4000, abs=200)
    assert counts["train"] == 20_000 - counts["val"] - counts["test"]


@given(st.lists(st.text(min_size=1), unique=True), st.floats(0.01, 0.4), st.floats(0.01, 0.4))
def test_a_larger_last_share_keeps_what_it_had(keys: list[str], small: float, more: float) -> None:
    before, after = Splits("train", {"val": small}), Splits("train", {"val": small + more})
    assert all(after.of(key) == 0 for key in keys if before.of(key) == 0)


def test_without_shares_all_is_the_main_dataset() -> None:
    splits = Splits("train", None)
    assert not splits
    assert splits.names == ("train",)
    assert splits.of("a") == 0


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"": 0.1}, "name of a folder"),
        ({"a/b": 0.1}, "name of a folder"),
        ({"..": 0.1}, "name of a folder"),
        ({"train": 0.1}, "is called already"),
        ({"val": 0}, "a fraction"),
        ({"val": 1}, "a fraction"),
        ({"val": 5}, "a fraction"),
        ({"val": "0.1"}, "a fraction"),
        ({"val": 0.5, "test": 0.5}, "leaves none for 'train'"),
    ],
)
def test_what_cannot_be_is_refused(shares: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Splits("train", shares)

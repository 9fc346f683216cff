"""Which samples are looked at: a function of the seed, spread over the dataset; classes by name or number."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.view.choice import chosen, label_field, numbers_of_label
from tests.builders import write_shard
from wds_tools.dataset import open_dataset
from wds_tools.errors import UsageError


@given(st.integers(0, 10**12), st.integers(0, 60), st.integers(0, 2**64))
def test_numbers_differ_rise_and_are_spread_evenly(samples: int, count: int, seed: int) -> None:
    numbers = chosen(samples, count, seed)
    assert len(numbers) == min(samples, count)
    assert numbers == sorted(set(numbers))
    assert all(samples * at // len(numbers) <= number < samples * (at + 1) // len(numbers)
               for at, number in enumerate(numbers))  # fmt: skip


def test_the_seed_decides() -> None:
    assert chosen(10_000, 4, 0) == [2046, 3800, 7262, 9090] == chosen(10_000, 4, 0)
    assert chosen(10_000, 4, 0) != chosen(10_000, 4, 1)


def test_a_class_by_name_and_by_number(hostile: Path) -> None:
    dataset = open_dataset(hostile)
    assert numbers_of_label(dataset, "cls", "owl").tolist() == [2, 5, 8, 11, 14]
    assert numbers_of_label(dataset, "cls", "2").tolist() == [2, 5, 8, 11, 14]


def test_a_class_that_is_not_there_is_told_the_nearest(hostile: Path) -> None:
    with pytest.raises(UsageError, match=r"no sample is of the class 'owls' \(field cls\)\. The nearest is 'owl'\."):
        numbers_of_label(open_dataset(hostile), "cls", "owls")


def test_words_as_classes(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [(str(n), {"txt": word}) for n, word in enumerate([b"cat", b"dog", b"cat"])])
    assert numbers_of_label(open_dataset(tmp_path), "txt", "cat").tolist() == [0, 2]


def test_the_field_with_the_class_is_what_the_listing_counted(hostile: Path) -> None:
    assert label_field(open_dataset(hostile)) == "cls"

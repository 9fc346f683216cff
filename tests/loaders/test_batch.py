"""What values of a column become, and that batches are plain NamedTuples."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from loaders.batch import Batch, batch_of, column
from wds_tools.errors import BatchError


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], np.array([1, 2], dtype=np.int64)),
        ([np.int32(1), 2], np.array([1, 2], dtype=np.int64)),
        ([1.5, 2.0], np.array([1.5, 2.0])),
        ([np.ones((2, 3), np.float32)] * 2, np.ones((2, 2, 3), np.float32)),
    ],
)
def test_numbers_and_arrays_become_arrays(values: list[Any], expected: Any) -> None:
    result = column("x", values, ["a", "b"])
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [{"a": 1}, {}], [True, False], [1, None], [1, 2.5], []])
def test_everything_else_stays_a_list(values: list[Any]) -> None:
    assert column("x", values, ["a"] * len(values)) == values


@pytest.mark.parametrize("other", [np.ones((2, 4)), np.ones((2, 3), np.float32)])
def test_unequal_arrays_name_both_samples_the_field_and_the_cure(other: Any) -> None:
    with pytest.raises(BatchError, match=r"'first'.*'odd'.*field jpg.*collate") as caught:
        column("jpg", [np.ones((2, 3)), np.ones((2, 3)), other], ["first", "second", "odd"])
    assert (caught.value.key, caught.value.field) == ("odd", "jpg")


def test_a_number_beyond_64_bits_names_the_sample() -> None:
    with pytest.raises(BatchError, match=r"18446744073709551616.*key b, field id"):
        column("id", [1, 2**64], ["a", "b"])


def test_a_batch_is_a_named_tuple() -> None:
    batch: Any = batch_of(("jpg", "cls"), [np.zeros((2, 3)), [1, 2]])
    images, labels = batch
    assert images is batch.jpg
    assert labels is batch.cls
    assert isinstance(batch, Batch)
    kind: Any = type(batch)
    assert kind(*batch).cls == [1, 2]  # as torch's pin_memory rebuilds it
    assert repr(batch) == "Batch(jpg=float64(2, 3), cls=list of 2)"


def test_a_batch_pickles() -> None:
    batch = batch_of(("jpg", "cls"), [np.zeros((2, 3)), [1, 2]])
    copy = pickle.loads(pickle.dumps(batch))
    assert type(copy) is type(batch)
    assert copy.cls == [1, 2]

"""The epoch that workers agree on: whichever come first, miss an iteration, or belong to another DataLoader."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.torch.epochs import MAX_WORKERS, Epochs
from wds_tools.errors import UsageError

# One iteration: how many workers, in which order they begin, and which of them are ended before they do.
iterations = st.lists(
    st.integers(1, 5).flatmap(
        lambda workers: st.tuples(
            st.just(workers), st.permutations(range(workers)), st.integers(1, workers), st.booleans()
        )
    ),
    min_size=1,
    max_size=8,
)


@given(iterations)
def test_workers_of_an_iteration_agree_and_every_iteration_is_a_new_epoch(plan: list[Any]) -> None:
    epochs = Epochs()
    times = 0
    for number, (workers, order, begin, persistent) in enumerate(plan):
        times = times + 1 if persistent else 0
        begun = [
            epochs.begin(worker=worker, workers=workers, seed=1000 + number, times=times) for worker in order[:begin]
        ]
        assert {b.number for b in begun} == {number}
        assert epochs.latest().number == number


@given(st.integers(2, 5), st.integers(2, 6))
def test_the_same_seed_each_time_is_no_reason_to_stay(workers: int, count: int) -> None:
    epochs = Epochs()
    for number in range(count):
        assert {epochs.begin(worker=w, workers=workers, seed=7, times=1).number for w in range(workers)} == {number}


def test_the_parent_sets_the_place() -> None:
    epochs = Epochs()
    assert epochs.latest() == (-1, 0, 0, 0, 0)
    epochs.begin(worker=0, workers=1, seed=1, times=1)
    epochs.move(5, 640)
    epochs.adopt(960, 3)
    assert epochs.latest() == (-1, 5, 640, 960, 3)
    assert epochs.begin(worker=0, workers=1, seed=2, times=1) == (0, 5, 640, 960, 3)


def test_a_worker_that_comes_late_to_what_was_broken_off_counts_nothing() -> None:
    epochs = Epochs()
    epochs.begin(worker=0, workers=2, seed=1, times=1)
    epochs.move(3)
    epochs.begin(worker=1, workers=2, seed=1, times=1)
    assert epochs.latest().number == -1
    assert {epochs.begin(worker=w, workers=2, seed=1, times=2)[:2] for w in range(2)} == {(0, 3)}


@given(late=st.lists(st.integers(0, 3), max_size=4), position=st.integers(0, 10**6))
def test_where_it_is_pinned_nothing_is_counted(late: list[int], position: int) -> None:
    epochs = Epochs()
    epochs.pin(2, 0)
    epochs.move(3, position)
    for worker in late:  # to an iteration that was broken off before any of them came
        epochs.begin(worker=worker, workers=4, seed=1, times=1)
    assert {epochs.begin(worker=w, workers=4, seed=1, times=2)[:3] for w in range(4)} == {(0, 3, position)}
    epochs.move(4)
    assert epochs.latest()[:3] == (-1, 4, 0)


def test_a_pickled_copy_has_its_own_counts() -> None:
    epochs = Epochs()
    epochs.begin(worker=0, workers=1, seed=1, times=1)
    copy = pickle.loads(pickle.dumps(epochs))
    copy.begin(worker=0, workers=1, seed=2, times=1)
    assert (epochs.latest().number, copy.latest().number) == (0, 1)


def test_too_many_workers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"num_workers is 2000, expected at most"):
        Epochs().begin(worker=MAX_WORKERS, workers=2000, seed=0, times=1)

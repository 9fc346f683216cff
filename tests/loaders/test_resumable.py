"""A DataLoader that resumes by itself: the same batches as a ShardLoader, from every place, whoever asks how often."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from loaders.torch import ShardDataset, ShardLoader, resumable, to_device
from loaders.torch.resumable import ResumableLoader
from tests.builders import settle, write_labels
from wds_tools.errors import UsageError

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # newer Pythons, of a parent with threads
]

OPTIONS: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "lanes": 6, "threads": 1}
WAYS = [
    pytest.param({}, id="here"),
    pytest.param({"num_workers": 2}, id="two"),
    pytest.param({"num_workers": 3, "persistent_workers": True}, id="kept"),
]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 40, 3, 0, 23])


@pytest.fixture(scope="module")
def epochs(labels: str) -> list[list[list[int]]]:
    with ShardLoader(labels, **OPTIONS) as loader:
        return [[batch.cls.tolist() for batch in loader] for _ in range(4)]


def made(labels: str, way: dict[str, Any], **own: Any) -> ResumableLoader:
    return resumable(DataLoader(ShardDataset(labels, **{**OPTIONS, **own}), batch_size=None, **way))


def drained(loader: Any) -> list[list[int]]:
    return [batch.cls.tolist() for batch in loader]


@pytest.mark.parametrize("way", WAYS)
def test_epochs_are_the_loaders(labels: str, epochs: list[list[list[int]]], way: dict[str, Any]) -> None:
    with made(labels, way) as loader:
        assert len(loader) == 10
        for number in range(3):
            assert loader.epoch == number
            assert drained(loader) == epochs[number]
        loader.set_epoch(1)
        assert loader.epoch == 1
        assert drained(loader) == epochs[1]


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_on_from_its_state(labels: str, epochs: list[list[list[int]]], way: dict[str, Any]) -> None:
    for taken in (0, 1, 7, 10):
        with made(labels, way) as loader, ShardLoader(labels, **OPTIONS) as plain:
            drained(loader)
            batches = iter(loader)
            for _ in range(taken):
                next(batches)
            state = loader.state_dict()
            plain.load_state_dict(state)
            assert drained(plain) == (epochs[1][taken:] or epochs[2])
        with made(labels, way) as loader:
            loader.load_state_dict(state)
            loader.set_epoch(loader.epoch)
            assert drained(loader) == (epochs[1][taken:] or epochs[2])
            assert loader.state_dict()["position"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_that_is_broken_off_is_over(labels: str, epochs: list[list[list[int]]], way: dict[str, Any]) -> None:
    with made(labels, way) as loader:
        for batch in loader:
            assert loader.epoch == 0
            assert batch.cls.tolist() == epochs[0][0]
            break
        assert loader.epoch == 1
        assert drained(loader) == epochs[1]
        batches = iter(loader)
        assert next(batches).cls.tolist() == epochs[2][0]
        assert drained(loader) == epochs[3]  # while the iteration before is held
        with pytest.raises(UsageError, match="one iteration at a time"):
            next(batches)


@pytest.mark.parametrize("way", WAYS)
def test_iterators_that_nobody_uses_count_for_nothing(
    labels: str, epochs: list[list[list[int]]], way: dict[str, Any]
) -> None:
    with made(labels, way) as loader:
        for expected in epochs[:3]:
            iter(loader)
            iter(loader)
            assert drained(loader) == expected


def test_it_goes_to_a_device(labels: str, epochs: list[list[list[int]]]) -> None:
    with made(labels, {"num_workers": 1}) as loader:
        moved = to_device(loader, torch.device("cpu"))
        assert drained(moved) == epochs[0]
        next(iter(moved))
        assert moved.state_dict()["position"] == 8


def test_no_worker_is_left_behind(labels: str) -> None:
    settle()
    before = set(os.listdir("/proc/self/fd"))
    for close in (True, False):
        loader = made(labels, {"num_workers": 2})
        batches = iter(loader)
        next(batches)
        workers = loader._batches._workers  # type: ignore[union-attr]
        if close:
            loader.close()
        else:
            batches.close()  # type: ignore[attr-defined]
        assert [worker.is_alive() for worker in workers] == [False, False]
        del loader, batches, workers
    settle()
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0


def test_persistent_workers_end_with_the_loader_and_others_begin_anew(
    labels: str, epochs: list[list[list[int]]]
) -> None:
    loader = made(labels, {"num_workers": 2, "persistent_workers": True})
    for number in range(2):
        assert drained(loader) == epochs[number]
        assert len(multiprocessing.active_children()) == 2
        loader.close()
        loader.close()
        assert multiprocessing.active_children() == []


def refuse(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["cls"] == 50:
        raise ValueError("not this one")
    return sample


def test_no_worker_is_left_behind_by_an_error_that_somebody_keeps(labels: str) -> None:
    with made(labels, {"num_workers": 2}, transform=refuse) as loader:
        batches = iter(loader)
        with pytest.raises(ValueError, match="not this one") as kept:
            while True:
                next(batches)
        assert multiprocessing.active_children() != []  # one that has no more batches ends before the other
    assert multiprocessing.active_children() == []
    assert kept.tb is not None


def test_other_loaders_are_refused(labels: str) -> None:
    with pytest.raises(UsageError, match="expected a ShardDataset"):
        resumable(DataLoader([1, 2, 3]))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="batch_size=None"):
        resumable(DataLoader(ShardDataset(labels, **OPTIONS), batch_size=4))


def test_it_says_what_it_is(labels: str) -> None:
    assert repr(made(labels, {"num_workers": 2})).endswith("num_workers=2)")
    assert list(itertools.islice(made(labels, {}), 0)) == []

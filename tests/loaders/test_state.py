"""Resume: at every batch, across epochs, with other world sizes; and states that do not fit are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loaders import Reading, ShardLoader
from tests.builders import write_labels
from wds_tools.errors import StateError


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 40, 3, 0, 23])


def loader_of(urls: str, **options: Any) -> ShardLoader:
    return ShardLoader(urls, **{"batch_size": 12, "fields": ("cls",), "threads": 2, "lanes": 6, **options})


def run(loader: ShardLoader, batches: int) -> list[list[int]]:
    """The next batches, over as many epochs as it takes; each sorted, since ranks interleave."""
    taken: list[list[int]] = []
    while len(taken) < batches:
        for batch in loader:
            taken.append(sorted(batch.cls.tolist()))
            if len(taken) == batches:
                break
    return taken


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("tail", ["drop", "pad", "exact"])
def test_a_run_goes_on_from_every_batch(labels: str, tail: Any, shuffle: bool) -> None:
    with loader_of(labels, tail=tail, shuffle=shuffle) as loader:
        per_epoch, states, whole = len(loader), [json.dumps(loader.state_dict())], []
        for _ in range(2):
            for batch in loader:
                whole.append(sorted(batch.cls.tolist()))
                states.append(json.dumps(loader.state_dict()))
    assert max(map(len, states)) < 400
    for done, state in enumerate(states):
        with loader_of(labels, tail=tail, shuffle=shuffle, threads=1, read=Reading(prefetch=3)) as loader:
            loader.load_state_dict(json.loads(state))
            loader.set_epoch(done // per_epoch)  # as frameworks do first thing
            left = per_epoch - done % per_epoch
            assert run(loader, min(left, 2)) == whole[done : done + min(left, 2)] or done == len(whole)
            if done % 5 == 0 and done + left + 1 <= len(whole):
                loader.load_state_dict(json.loads(state))
                assert run(loader, left + 1) == whole[done : done + left + 1]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_world_size_may_change(labels: str, world_size: int) -> None:
    with loader_of(labels) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        rest = [sorted(batch.cls.tolist()) for batch in iterator]
    ranks: list[list[list[int]]] = []
    for rank in range(world_size):
        with loader_of(labels, batch_size=12 // world_size, rank=rank, world_size=world_size) as loader:
            loader.load_state_dict(state)
            ranks.append([batch.cls.tolist() for batch in loader])
    assert [sorted(sum(parts, [])) for parts in zip(*ranks, strict=True)] == rest


def test_the_batch_size_may_change(labels: str) -> None:
    with loader_of(labels, tail="exact") as loader:
        iterator = iter(loader)
        seen = [n for _ in range(3) for n in next(iterator).cls.tolist()]
        state = loader.state_dict()
    with loader_of(labels, tail="exact", batch_size=7) as loader:
        loader.load_state_dict(state)
        seen += [n for batch in loader for n in batch.cls.tolist()]
    assert sorted(seen) == list(range(83))


def test_less_than_one_batch_left_goes_on_with_the_next_epoch(labels: str) -> None:
    with loader_of(labels) as loader:
        iterator = iter(loader)
        for _ in range(6):
            state = loader.state_dict()
            next(iterator, None)
    with loader_of(labels, batch_size=40) as loader:
        loader.load_state_dict(state)
        assert len(list(loader)) == 2
    with loader_of(labels, batch_size=40) as fresh:
        fresh.set_epoch(1)
        second = [batch.cls.tolist() for batch in fresh]
    with loader_of(labels, batch_size=40) as loader:
        loader.load_state_dict(state)
        assert [batch.cls.tolist() for batch in loader] == second


def test_after_the_last_batch_the_state_is_the_next_epochs_start(labels: str) -> None:
    with loader_of(labels) as loader:
        list(loader)
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 0)


def test_a_state_counts_what_was_handed_out_and_not_what_is_ahead(labels: str) -> None:
    with loader_of(labels, read=Reading(prefetch=6)) as loader:
        iterator = iter(loader)
        assert loader.state_dict()["position"] == 0
        next(iterator)
        assert loader.state_dict()["position"] == 12


def test_all_ranks_have_the_same_state(labels: str) -> None:
    states = []
    for rank in range(3):
        with loader_of(labels, batch_size=4, rank=rank, world_size=3) as loader:
            next(iter(loader))
            states.append(loader.state_dict())
    assert states[0] == states[1] == states[2]


def test_lanes_and_blocks_are_taken_from_the_state(labels: str) -> None:
    with loader_of(labels, lanes=2, read=Reading(block_bytes=4096)) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = [batch.cls.tolist() for batch in iterator]
    assert state["block"] > 1
    with loader_of(labels, lanes=None) as loader:
        next(iter(loader))  # a session that had begun with other lanes
        loader.load_state_dict(state)
        assert [batch.cls.tolist() for batch in loader] == rest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "seed was 0, now 1"),
        ({"lanes": 5}, "lanes was 6, now 5"),
        ({"read": Reading(block_bytes=1)}, "samples per block was 3, now 1"),
        ({"shuffle": False}, "shuffle was True, now False"),
        ({"tail": "pad"}, "tail was 'drop', now 'pad'"),
    ],
)
def test_another_order_is_refused_with_what_changed(labels: str, options: dict[str, Any], message: str) -> None:
    with loader_of(labels) as loader:
        state = loader.state_dict()
    with loader_of(labels, **options) as loader, pytest.raises(StateError, match=message):
        loader.load_state_dict(state)


def test_other_data_is_refused_with_what_changed(labels: str, tmp_path: Path) -> None:
    with loader_of(labels) as loader:
        state = loader.state_dict()
    other = write_labels(tmp_path, [17, 40, 3, 0, 24])
    with loader_of(other) as loader, pytest.raises(StateError, match=r"samples was 83, now 84.*fingerprint"):
        loader.load_state_dict(state)


def test_a_copy_of_the_data_elsewhere_is_accepted(labels: str, tmp_path: Path) -> None:
    with loader_of(labels) as loader:
        iterator = iter(loader)
        next(iterator)
        state, expected = loader.state_dict(), next(iterator).cls.tolist()
    copy = write_labels(tmp_path, [17, 40, 3, 0, 23])
    with loader_of(copy) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader)).cls.tolist() == expected


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"epoch": -1}, {"seed": "0"}, {"shuffle": 1}, {"more": 1}],
)
def test_a_state_that_is_none_is_refused(labels: str, change: dict[str, Any]) -> None:
    with loader_of(labels) as loader:
        state = {**loader.state_dict(), **change}
        with pytest.raises(StateError):
            loader.load_state_dict(state)
        with pytest.raises(StateError, match="expected"):
            loader.load_state_dict({})
        assert len(list(loader)) == 6  # and the loader is as it was


def test_a_script_that_goes_on_counts_on_from_the_loaders_epoch(labels: str) -> None:
    with loader_of(labels) as loader:
        list(loader)
        next(iter(loader))
        middle = loader.state_dict()
    with loader_of(labels) as loader:
        loader.load_state_dict(middle)
        assert loader.epoch == 1
        assert [(epoch, loader.epoch, len(list(loader))) for epoch in range(loader.epoch, 3)] == [(1, 1, 5), (2, 2, 6)]
        assert loader.epoch == 3
    with loader_of(labels, batch_size=80) as loader:  # more than what is left of the epoch
        loader.load_state_dict(middle)
        assert loader.epoch == 2
        assert len(list(loader)) == 1
        assert loader.epoch == 3


def test_a_state_that_is_refused_changes_nothing(labels: str) -> None:
    with loader_of(labels, lanes=3) as other:
        state = other.state_dict()
    with loader_of(labels, lanes=None) as loader:
        loader.load_state_dict(state)
        next(iter(loader))
        before = loader.state_dict()
        with pytest.raises(StateError):
            loader.load_state_dict({**state, "seed": 5})
        loader.close()
        assert (loader.plan.lanes, loader.state_dict()) == (3, before)

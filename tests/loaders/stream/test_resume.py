"""A state goes on exactly where it was taken: at every batch, at an epoch's end, in the next one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loaders
from loaders import RandomResizedCrop, ShardLoader, StreamLoader
from tests.builders import write_pictures
from wds_tools.errors import StateError


def stream(labels: str, **options: Any) -> StreamLoader:
    options = {"batch_size": 8, "fields": ("cls",), "threads": 1, **options}
    return StreamLoader(f"{labels}/*.tar.gz", **options)


def two_epochs(loader: StreamLoader) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """Batches of two epochs, and the state after each."""
    batches, states = [], []
    for _ in range(2):
        for batch in loader:
            batches.append(batch.cls.tolist())
            states.append(json.loads(json.dumps(loader.state_dict())))
    return batches, states


def rest_of(loader: StreamLoader, state: dict[str, Any]) -> list[list[int]]:
    loader.load_state_dict(state)
    batches: list[list[int]] = []
    while loader.state_dict()["epoch"] < 2:
        batches += [batch.cls.tolist() for batch in loader]
    return batches


@pytest.mark.long
@settings(max_examples=15)
@given(
    batch_size=st.integers(3, 30),
    shuffle=st.booleans(),
    shuffle_bytes=st.sampled_from([1, 3_000, 9_000, 1 << 20]),
    interleave=st.integers(1, 6),
    epoch_samples=st.sampled_from([None, 60, 83, 150]),
    ranks=st.sampled_from([(0, 1), (0, 2), (1, 2), (5, 7)]),
    on_error=st.sampled_from(["raise", "skip"]),
)
def test_a_state_resumes_at_every_batch(labels: str, ranks: tuple[int, int], **options: Any) -> None:
    rank, world_size = ranks
    if world_size > 1:
        options["epoch_samples"] = 300
        options["batch_size"] = min(options["batch_size"], 300 // world_size)
    with stream(labels, rank=rank, world_size=world_size, **options) as loader:
        batches, states = two_epochs(loader)
    with stream(labels, rank=rank, world_size=world_size, **options, threads=2, prefetch=1) as other:
        for done, state in enumerate(states[:-1], start=1):
            assert rest_of(other, state) == batches[done:]


def test_states_are_small_and_equal_on_all_ranks(labels: str) -> None:
    options: Any = {"world_size": 3, "epoch_samples": 2**62, "seed": 2**64 - 1, "shuffle_bytes": 2**40}
    states = []
    for rank in range(3):
        with stream(labels, rank=rank, **options) as loader:
            loader.set_epoch(2**55)
            for _ in zip(range(3), loader, strict=False):
                pass
            states.append(json.dumps(loader.state_dict()))
    assert states[0] == states[1] == states[2]
    assert len(states[0]) < 400


def test_crops_go_on_exactly(tmp_path_factory: pytest.TempPathFactory) -> None:
    urls = write_pictures(tmp_path_factory.mktemp("pictures"), [10, 11])
    options: Any = {"batch_size": 5, "image": RandomResizedCrop(24), "shuffle_bytes": 4000, "interleave": 2}
    with StreamLoader(urls, **options) as loader:
        batches, states = [], []
        for batch in loader:
            batches.append(batch.jpg)
            states.append(loader.state_dict())
    with StreamLoader(urls, **options) as other:
        other.load_state_dict(states[1])
        other.set_epoch(0)  # as frameworks do first thing
        assert all(np.array_equal(a, b.jpg) for a, b in zip(batches[2:], other, strict=True))


def test_another_batch_size_and_nothing_left_of_the_epoch(labels: str) -> None:
    with stream(labels, batch_size=20) as loader:
        batches = iter(loader)
        states = [loader.state_dict() for _ in zip(range(3), batches, strict=False)]
    with stream(labels, batch_size=8) as loader:
        expected, _ = two_epochs(loader)
        whole = sum(expected, [])
        loader.load_state_dict(states[1])
        assert [batch.cls.tolist() for batch in loader] == [whole[at : at + 8] for at in range(40, 73, 8)]
    with stream(labels, batch_size=30) as loader:
        loader.load_state_dict(states[2])  # 23 are left
        assert len(list(loader)) == 2
        assert loader.state_dict()["epoch"] == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rank": 0, "world_size": 2}, "number of ranks was 1, now 2"),
        ({"seed": 1}, "seed was 0, now 1"),
        ({"shuffle_bytes": 77}, "shuffle_bytes was 134217728, now 77"),
        ({"interleave": 3}, "interleave was 8, now 3"),
        ({"epoch_samples": 60}, "epoch_samples was 40, now 60"),
        ({"shuffle": False}, "shuffle was True, now False"),
        ({"fields": ("cls", "txt?")}, "fingerprint of fields="),
    ],
)
def test_a_changed_run_is_refused_with_what_changed(labels: str, options: dict[str, Any], problem: str) -> None:
    with stream(labels, epoch_samples=40) as loader:
        state = loader.state_dict()
    with (
        stream(labels, **{"epoch_samples": 40, **options}) as other,
        pytest.raises(StateError, match=f"{problem}.*same"),
    ):
        other.load_state_dict(state)


def test_other_shards_are_refused(labels: str) -> None:
    with stream(labels) as loader:
        state = loader.state_dict()
    with loaders.StreamLoader(f"{labels}/*.zst", batch_size=8, fields=("cls",)) as other:
        with pytest.raises(StateError, match="fingerprint of the shards' names"):
            other.load_state_dict(state)


def test_states_of_the_shard_loader_and_damaged_ones_are_refused(labels: str) -> None:
    with ShardLoader(f"{labels}/*.tar", batch_size=8, fields=("cls",)) as plain, stream(labels) as loader:
        with pytest.raises(StateError, match="StreamLoader"):
            loader.load_state_dict(plain.state_dict())
        with pytest.raises(StateError):
            plain.load_state_dict(loader.state_dict())
        for change in ({"epoch": -1}, {"epoch": "0"}, {"stream": 2}):
            with pytest.raises(StateError):
                loader.load_state_dict({**loader.state_dict(), **change})


def test_breaking_off_goes_on_with_the_next_epoch(labels: str) -> None:
    with stream(labels) as loader:
        batches, _ = two_epochs(loader)
    with stream(labels) as loader:
        for _ in loader:
            break
        assert [batch.cls.tolist() for batch in loader] == batches[10:]


def test_asking_for_an_iterator_begins_nothing(labels: str) -> None:
    with stream(labels) as loader:
        batches, _ = two_epochs(loader)
    with stream(labels) as loader:
        iter(loader)
        assert [batch.cls.tolist() for batch in loader] == batches[:10]
        for _ in loader:
            break
        iter(loader)
        assert loader.state_dict()["epoch"] == 2
        iter(loader)
        assert loader.state_dict()["epoch"] == 2


def test_the_epoch_is_that_of_the_next_iteration_or_of_the_running_one(labels: str) -> None:
    with stream(labels) as loader:
        assert loader.epoch == 0
        assert {loader.epoch for _ in loader} == {0}
        assert loader.epoch == 1
        for _ in loader:
            assert loader.epoch == 1
            state = loader.state_dict()
            break
        assert loader.epoch == 2
        loader.load_state_dict(state)
        assert loader.epoch == 1
        next(held := iter(loader))
        loader.close()
        assert loader.epoch == 2
        del held

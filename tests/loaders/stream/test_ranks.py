"""Several ranks on one stream: as many batches on each, every shard read, and errors before the first step."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from loaders import StreamLoader
from wds_tools.errors import TooFewSamplesError, UsageError


def ranks(urls: Any, world_size: int, **options: Any) -> list[StreamLoader]:
    options = {"batch_size": 5, "fields": ("cls",), "threads": 1, "allow_pipe": True, **options}
    return [StreamLoader(urls, rank=rank, world_size=world_size, **options) for rank in range(world_size)]


def epoch_of(loader: StreamLoader) -> list[list[int]]:
    with loader:
        return [batch.cls.tolist() for batch in loader]


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_as_many_batches_on_every_rank_as_len_says(labels: str, world_size: int) -> None:
    loaders = ranks(f"{labels}/*.tar.gz", world_size, epoch_samples=100)
    lengths = [len(loader) for loader in loaders]
    assert lengths == [100 // (5 * world_size)] * world_size
    for loader, length in zip(loaders, lengths, strict=True):
        for _ in range(2):
            assert [len(batch) for batch in epoch_of(loader)] == [5] * length


def test_ranks_share_the_shards(labels: str) -> None:
    # Both have all they read in one batch; the shard without a sample is somebody's too.
    urls = [f"{labels}/s-0001.tar.gz", f"{labels}/s-0004.tar.gz", f"{labels}/s-0003.tar.gz"]
    seen = [sum(epoch_of(loader), []) for loader in ranks(urls, 2, epoch_samples=46, batch_size=23)]
    assert set(seen[0]).isdisjoint(seen[1])
    assert all(len(set(numbers)) == 23 for numbers in seen)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_fewer_shards_than_ranks_are_shared_by_sample(
    labels: str, world_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        loaders = ranks(f"pipe:cat {labels}/s-0001.tar.gz", world_size, epoch_samples=40, batch_size=1)
        seen = [sum(epoch_of(loader), []) for loader in loaders]
    assert f"1 shards for {world_size} ranks: each is read by {world_size} ranks" in caplog.text
    everything = Counter(sum(seen, []))
    assert set(everything.values()) == {1}
    assert len(everything) == 40 - 40 % world_size


def test_a_rank_whose_shards_are_used_up_begins_them_again(labels: str) -> None:
    found = []
    for loader in ranks([f"{labels}/s-0001.tar.gz", f"{labels}/s-0002.tar.gz"], 2, epoch_samples=80):
        with loader:
            numbers = [number for batch in loader for number in batch.cls.tolist()]
            found.append((len(numbers), len(set(numbers)), loader.report().shards_again))
    assert sorted(found) == [(40, 3, 13), (40, 40, 0)]


def test_a_rank_of_empty_shards_reads_what_the_others_read(labels: str, caplog: pytest.LogCaptureFixture) -> None:
    urls = [f"{labels}/s-0001.tar.gz", f"{labels}/s-0003.tar.gz"]
    with caplog.at_level(logging.WARNING):
        seen = [sum(epoch_of(loader), []) for loader in ranks(urls, 2, epoch_samples=80, batch_size=40)]
    assert [sorted(numbers) for numbers in seen] == [list(range(17, 57))] * 2
    assert caplog.text.count("has a sample for it") == 1
    for loader in ranks([f"{labels}/s-0003.tar.gz"], 2, epoch_samples=80):
        with pytest.raises(TooFewSamplesError, match=r"none of the 1 shards.*s-0003"):
            epoch_of(loader)


def test_shards_change_ranks_from_epoch_to_epoch(labels: str) -> None:
    (loader, _) = ranks([f"{labels}/s-0001.tar.gz", f"{labels}/s-0004.tar.gz"], 2, epoch_samples=40)
    firsts = set()
    for _ in range(8):
        firsts.add(min(min(batch) for batch in epoch_of(loader)) >= 60)
    assert firsts == {False, True}


@pytest.mark.parametrize("rank", [0, 1])
def test_an_unknown_length_is_refused_on_every_rank_alike(labels: str, rank: int) -> None:
    for begin in (iter, len):
        with pytest.raises(UsageError, match=r"unknown length over 2 ranks.*epoch_samples=.*ShardLoader"):
            begin(ranks(f"{labels}/*.tar.gz", 2)[rank])


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_epoch_without_a_batch_for_each_is_refused_on_every_rank_alike(labels: str, rank: int) -> None:
    with pytest.raises(TooFewSamplesError, match="epoch_samples is 14, less than one batch of 5 on each of 3 ranks"):
        iter(ranks(f"{labels}/*.tar.gz", 3, epoch_samples=14)[rank])


def test_standard_input_cannot_be_split() -> None:
    with pytest.raises(UsageError, match="standard input cannot be split over 2 ranks"):
        iter(ranks("-", 2, epoch_samples=100)[1])


def test_rank_and_world_size_of_the_environment(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch_of(ranks(f"{labels}/*.tar.gz", 4, epoch_samples=80)[2])
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = StreamLoader(f"{labels}/*.tar.gz", batch_size=5, fields=("cls",), epoch_samples=80)
    assert epoch_of(loader) == expected

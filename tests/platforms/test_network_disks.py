"""Habits of network file systems: handles that go stale, short reads, no mapping of shards."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import loaders
from loaders import CenterCrop, ShardLoader
from tests.builders import write_pictures
from wds_tools.errors import ShardstreamError, UnavailableError

Preadv = Callable[[int, Sequence[memoryview], int], int]


@pytest.fixture
def urls(tmp_path: Path) -> str:
    return write_pictures(tmp_path / "d", [20, 20])


def epoch(urls: str) -> list[list[int]]:
    with ShardLoader(urls, batch_size=8, image=CenterCrop(8), threads=2, seed=1) as loader:
        return [batch.cls.tolist() for batch in loader]


def stale(real: Preadv, *, times: int) -> Preadv:
    """The server forgets the handle before each read; after so many answers it knows the file that is opened anew."""
    refused = threading.local()

    def preadv(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        refused.count = getattr(refused, "count", 0) + 1
        if refused.count <= times:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        refused.count = 0
        return real(descriptor, buffers, offset)

    return preadv


def test_a_stale_handle_is_opened_again(urls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch(urls)
    monkeypatch.setattr(os, "preadv", stale(os.preadv, times=1))
    assert epoch(urls) == expected
    with loaders.samples(urls) as samples:
        assert sum(1 for _ in samples) == 40


def test_one_that_stays_stale_is_an_error_by_name(urls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch(urls)  # the index is kept by now
    assert expected
    monkeypatch.setattr(os, "preadv", stale(os.preadv, times=2))
    with pytest.raises(UnavailableError, match=r"Stale file handle") as caught:
        epoch(urls)
    assert caught.value.url is not None
    assert caught.value.url.endswith(".tar")


def test_short_reads_are_continued(urls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = epoch(urls)
    real = os.preadv

    def short(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        return real(descriptor, [buffers[0][: min(len(buffers[0]), 700)]], offset)

    monkeypatch.setattr(os, "preadv", short)
    assert epoch(urls) == expected


def test_no_shard_is_ever_mapped(urls: str) -> None:
    """A file that shrinks, or a server that goes away, would be a SIGBUS."""
    with ShardLoader(urls, batch_size=8, image=CenterCrop(8)) as loader:
        for _ in loader:
            assert ".tar" not in Path("/proc/self/maps").read_text()


def test_a_shard_that_shrinks_while_it_is_read_is_an_error(urls: str) -> None:
    path = Path(urls) / "s-0001.tar"
    with ShardLoader(urls, batch_size=4, image=CenterCrop(8), shuffle=False, threads=1) as loader:
        batches = iter(loader)
        next(batches)
        with path.open("r+b") as file:
            file.truncate(2048)
        with pytest.raises(ShardstreamError) as caught:
            list(batches)
        assert caught.value.url == str(path)

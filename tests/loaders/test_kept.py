"""What the cache of decoded pictures has is neither announced nor fetched; what it has not is, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loaders import DecodedCache, RandomResizedCrop, Reading, Remote, ShardLoader
from tests.builders import write_pictures
from tests.loaders.decoded.ranks import digests
from tests.loaders.remote_data import asked_bytes, indexed, served
from wds_tools.dataset import open_dataset
from wds_tools.sources.http import close_idle
from wds_tools.sources.local import LocalFile


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return indexed(write_pictures(tmp_path_factory.mktemp("pictures"), [30, 41, 9], width=160, height=120))


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


def loader(urls: Any, folder: Path, count: int | str = "20MB", **more: Any) -> ShardLoader:
    options: dict[str, Any] = {"batch_size": 8, "image": RandomResizedCrop(48), "threads": 2, "lanes": 12, "seed": 3}
    return ShardLoader(urls, **{**options, "decoded_cache": DecodedCache(folder, count, size=64), **more})


@pytest.mark.parametrize("options", [{}, {"read": Reading(block_bytes=1 << 14, remote=Remote(in_flight=2))}])
@pytest.mark.parametrize("count", ["20MB", "1MiB"])
def test_a_host_is_asked_for_what_is_missing(
    pictures: str, tmp_path: Path, count: str, options: dict[str, Any]
) -> None:
    with loader(pictures, tmp_path / "local", **options) as local:
        expected = digests(local, 3)
    with served(pictures) as server:
        url = server.url("/d/dataset.json")
        for run in range(2):
            del server.requests[:]
            with loader(url, tmp_path / "remote", count, **options) as remote:
                assert digests(remote, 3) == expected
                report = remote.report()
            asked = sum(len(part) for parts in asked_bytes(server).values() for part in parts)
            whole = int(open_dataset(pictures).sizes.sum())
            if count == "1MiB":  # half of the pictures have no room
                assert 0.5 * whole < asked
                assert report.cache_hits > 60
            elif run:
                assert asked == 0
                assert report.cache_misses == 0
            else:  # an epoch is announced while the one before is decoded, so this small one is asked for again
                assert whole * 0.8 < asked <= 3.5 * whole  # and what a busy host is late with, once more


def test_a_disk_is_told_of_what_is_missing(pictures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loader(pictures, tmp_path, "1MiB", shuffle=False) as first:
        digests(first, 2)
    told: list[tuple[str, int, int]] = []
    announce = LocalFile.announce

    def noted(self: LocalFile, offset: int, length: int) -> None:
        told.append((self.url, offset, length))
        announce(self, offset, length)

    monkeypatch.setattr(LocalFile, "announce", noted)
    with loader(pictures, tmp_path, "1MiB", shuffle=False, read=Reading(prefetch=1)) as second:
        digests(second)
        report = second.report()
    dataset = open_dataset(pictures)
    shards, begins, ends = dataset.locate(np.arange(len(dataset)))
    samples = {
        (dataset.urls[shard], begin, end - begin) for shard, begin, end in zip(shards, begins, ends, strict=True)
    }
    assert set(told) <= samples, "each by itself"
    assert 0 < len(set(told)) < 60
    assert report.cache_hits > 20

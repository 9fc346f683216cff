"""The loader over http gives what it gives from a disk, and asks for no more than it needs."""

from __future__ import annotations

import gc
import itertools
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from torch.utils.data import DataLoader

import loaders
from loaders import CenterCrop, Reading, Remote, ShardLoader, StreamLoader, mix
from loaders.plan import REMOTE_BLOCK_BYTES, REMOTE_LANES
from loaders.torch import ShardDataset
from tests.builders import settle, write_labels, write_pictures, write_shard
from tests.loaders.remote_data import asked_bytes, indexed, served
from tests.servers.faulty import Behaviour, says, stalls
from wds_tools.errors import FieldError, ShardChangedError, UnavailableError, UsageError
from wds_tools.sources.http import close_idle

HASTY = Remote(attempts=2)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return indexed(write_pictures(tmp_path_factory.mktemp("pictures"), [30, 0, 41, 9]))


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return indexed(write_labels(tmp_path_factory.mktemp("labels"), [400, 300, 37]))


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


def epochs(urls: Any, count: int = 2, **options: Any) -> list[Any]:
    """The batches of some epochs of all ranks, as lists."""
    world_size = options.pop("world_size", 1)
    found = []
    for rank in range(world_size):
        options = {"batch_size": 8, "fields": ("cls",), "threads": 2, "seed": 3, "lanes": 12, **options}
        with ShardLoader(urls, rank=rank, world_size=world_size, **options) as loader:
            found += [[column.tolist() for column in batch] for _ in range(count) for batch in loader]
    return found


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_the_batches_of_every_rank_are_those_of_local_shards(pictures: str, world_size: int) -> None:
    options: dict[str, Any] = {"fields": ("jpg", "cls"), "image": CenterCrop(16), "world_size": world_size}
    with served(pictures) as server:
        assert epochs(server.url("/d/dataset.json"), **options) == epochs(pictures, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"world_size": 5},  # does not divide 12 lanes
        {"shuffle": False},
        {"shuffle": False, "world_size": 2},
        {"tail": "pad", "world_size": 3},
        {"tail": "exact", "batch_size": 7},
        {"read": Reading(block_bytes=1)},
        {"read": Reading(block_bytes=1 << 20, prefetch=1)},
        {"lanes": 1},
        {"lanes": 64},
    ],
    ids=str,
)
def test_so_they_are_with_any_options(labels: str, options: dict[str, Any]) -> None:
    with served(labels) as server:
        assert epochs(server.url("/d/"), **options) == epochs(labels, **options)


def test_mixes_of_local_and_remote_datasets(labels: str, tmp_path: Path) -> None:
    other = indexed(write_labels(tmp_path / "other", [50, 20]))
    parts = [(labels, 3), (other, 1)]
    with served(labels) as server, served(other) as second:
        for urls in ([server.url("/d/"), second.url("/d/")], [labels, second.url("/d/")]):
            remote = [(url, weight) for url, (_, weight) in zip(urls, parts, strict=True)]
            assert epochs(mix(remote)) == epochs(mix(parts))
        assert epochs(loaders.balanced(server.url("/d/"))) == epochs(loaders.balanced(labels))


def test_a_run_goes_on_in_the_middle_of_an_epoch(labels: str) -> None:
    options: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "seed": 3}
    with served(labels) as server, ShardLoader(labels, **options) as local:
        whole = [batch.cls.tolist() for batch in local]
        for at in (1, 60):
            with ShardLoader(server.url("/d/"), **options) as loader:
                list(itertools.islice(loader, at))
                state = json.loads(json.dumps(loader.state_dict()))
            with ShardLoader(server.url("/d/"), **options) as loader:
                loader.load_state_dict(state)
                assert [batch.cls.tolist() for batch in loader] == whole[at:]


def test_a_state_of_local_shards_is_one_of_the_remote_copy(tmp_path: Path, labels: str) -> None:
    """Also where the remote default would be other lanes."""
    shuffled = tmp_path / "shuffled"
    shuffled.mkdir()
    for path in Path(labels).iterdir():
        (shuffled / path.name).write_bytes(path.read_bytes())
    facts = json.loads((shuffled / "dataset.json").read_text())
    (shuffled / "dataset.json").write_text(json.dumps({**facts, "shuffled": True}))
    with served(shuffled) as server:
        options: dict[str, Any] = {"batch_size": 8, "fields": ("cls",)}
        with ShardLoader(str(shuffled), **options) as local, ShardLoader(server.url("/d/"), **options) as remote:
            assert (remote.plan.lanes, local.plan.lanes) == (REMOTE_LANES, 960)
            batches = iter(local)
            list(itertools.islice(batches, 5))
            remote.load_state_dict(local.state_dict())
            assert remote.plan.lanes == 960
            assert [batch.cls.tolist() for batch in remote] == [batch.cls.tolist() for batch in batches]


def test_bad_samples_are_skipped_listed_and_excluded_alike(tmp_path: Path) -> None:
    samples = [(f"{n:06d}", {"cls": b"bad" if n % 31 == 5 else b"%d" % n}) for n in range(200)]
    write_shard(tmp_path / "data" / "s.tar", samples)
    folder = indexed(str(tmp_path / "data"))
    with served(folder) as server:
        found = {}
        for name, urls in (("near", folder), ("far", server.url("/d/"))):
            listed = tmp_path / f"{name}.jsonl"
            found[name] = epochs(urls, on_error="skip", quarantine=listed), epochs(urls, exclude=listed)
        assert found["near"] == found["far"]
        assert found["far"][0] == found["far"][1]
        with pytest.raises(FieldError, match=r"s\.tar"):
            epochs(server.url("/d/"))


@pytest.mark.parametrize("world_size", [1, 3, 5])
def test_the_ranks_ask_for_each_byte_of_an_epoch_once_between_them(labels: str, world_size: int) -> None:
    """Five ranks do not divide twelve lanes: then each asks for its own samples alone."""
    with served(labels) as server, ShardLoader(labels, batch_size=8) as local:
        ends = local.dataset.offsets[local.dataset.starts[1:] + np.arange(3)].tolist()
        options: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "tail": "exact", "lanes": 12}
        for rank in range(world_size):
            # A dataset without workers makes one epoch, and nothing of the next.
            with ShardDataset(server.url("/d/"), rank=rank, world_size=world_size, **options) as dataset:
                list(dataset)
        for at, end in enumerate(ends):
            spans = asked_bytes(server)[f"/d/s-{at:04d}.tar"]
            assert sorted(itertools.chain(*spans)) == list(range(end))


def test_starting_asks_for_the_listing_and_no_shard(labels: str) -> None:
    with served(labels) as server:
        for urls in (server.url("/d/dataset.json"), server.url("/d/s-{0000..0002}.tar"), server.url("/d/")):
            server.requests.clear()
            with ShardLoader(urls, batch_size=8, fields=("cls",)) as loader:
                assert len(loader) == 737 // 8
            assert sorted(request.path for request in server.requests) == ["/d/dataset.json", "/d/dataset.offsets.npy"]


def test_a_loader_that_is_pickled_or_forked_asks_by_itself(labels: str) -> None:
    with served(labels) as server:
        read = Reading(remote=Remote(in_flight=3))
        with ShardLoader(server.url("/d/"), batch_size=8, fields=("cls",), read=read) as loader:
            batches = iter(loader)
            next(batches)
            with pickle.loads(pickle.dumps(loader)) as again:
                assert next(iter(again)).cls.tolist() == next(batches).cls.tolist()
        with loaders.open(server.url("/d/"), remote=read.remote) as opened, loaders.open(labels) as local:
            copy = pickle.loads(pickle.dumps(opened))
            assert [copy[n]["cls"] for n in (0, 400, 736)] == [local[n]["cls"] for n in (0, 400, 736)]
            copy.close()


def test_a_shard_that_was_replaced_is_an_error_that_names_it(labels: str) -> None:
    with served(labels) as server:
        with ShardLoader(server.url("/d/"), batch_size=8, fields=("cls",)) as loader:
            len(loader)
            server.put("/d/s-0001.tar", bytes(10240))
            with pytest.raises(ShardChangedError) as caught:
                list(loader)
            assert caught.value.url == server.url("/d/s-0001.tar")


def test_an_error_comes_in_its_batch_and_names_the_place(labels: str) -> None:
    with served(labels) as server:
        server.routes["/d/s-0002.tar"] = Behaviour(says(403))
        options: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "shuffle": False, "threads": 3}
        got = []
        with ShardLoader(server.url("/d/"), read=Reading(remote=HASTY), **options) as loader:
            with pytest.raises(UnavailableError) as caught:
                got += [batch.cls.tolist() for batch in loader]
        assert got == []
        assert caught.value.url == server.url("/d/s-0002.tar")
        assert caught.value.offset is not None
        with ShardLoader(server.url("/d/"), read=Reading(remote=HASTY), **options) as loader:
            for batch in itertools.islice(loader, 700 // 8):
                got += batch.cls.tolist()
    assert got == list(range(696))


def leftovers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream")]


@pytest.mark.parametrize("how", ["close", "break", "forget", "interrupt"])
def test_nothing_is_left_while_the_host_keeps_silent(labels: str, how: str) -> None:
    settle()
    with served(labels) as server:
        loader = ShardLoader(server.url("/d/"), batch_size=8, fields=("cls",), shuffle=False)
        len(loader)
        server.routes["/d/s-0001.tar"] = Behaviour(deliver=stalls(0))
        batches: Any = iter(loader)
        next(batches)
        while not any(request.path == "/d/s-0001.tar" for request in server.requests):
            next(batches)  # until the silent shard is asked for, far ahead of its turn
        if how == "interrupt":
            with pytest.raises(KeyboardInterrupt):
                batches.throw(KeyboardInterrupt)
        if how == "break":
            del batches
        if how == "forget":
            del batches, loader
            gc.collect()
            settle()
        else:
            loader.close()
        assert leftovers() == []


def test_raw_samples_and_streams_over_http(labels: str) -> None:
    with served(labels) as server:
        near = [(sample["__key__"], bytes(sample["cls"])) for sample in loaders.samples(labels)]
        far = [(sample["__key__"], bytes(sample["cls"])) for sample in loaders.samples(server.url("/d/"))]
        assert far == near
        tars = [request for request in server.requests if request.path.endswith(".tar")]
        assert [request.range for request in tars] == [None] * 3
        options: dict[str, Any] = {"batch_size": 10, "fields": ("cls",), "tail": "exact"}
        with StreamLoader(server.url("/d/"), read=Reading(remote=HASTY), **options) as stream:
            streamed = sorted(label for batch in stream for label in batch.cls.tolist())
        assert streamed == list(range(737))


def test_a_store_in_place_of_a_web_server(labels: str, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    for path in Path(labels).iterdir():
        system.pipe_file(f"/loader-tests/{path.name}", path.read_bytes())
    try:
        for urls in ("memory://loader-tests/", "memory://loader-tests/*.tar"):
            assert epochs(urls) == epochs(labels)
            assert epochs(urls, read=Reading(cache_dir=tmp_path)) == epochs(labels)
        near = [bytes(sample["cls"]) for sample in loaders.samples(labels)]
        assert [bytes(sample["cls"]) for sample in loaders.samples("memory://loader-tests/")] == near
    finally:
        system.rm("/loader-tests", recursive=True)


def test_the_report_counts_what_was_fetched(labels: str) -> None:
    with served(labels) as server, ShardLoader(server.url("/d/"), batch_size=8, fields=("cls",)) as loader:
        for _ in loader:
            pass
        report = loader.report()
    assert report.fetched_bytes >= 737 * 1024
    assert 0 < report.requests < 3 * 737, "and what was read ahead of the next epoch"
    assert 0 <= report.fetch_wait_share <= 1
    assert "requests" in str(report)


def test_requests_that_the_cache_answers_are_not_counted(labels: str, tmp_path: Path) -> None:
    read = Reading(cache_dir=tmp_path)
    with served(labels) as server:
        for first in (True, False):
            with ShardLoader(server.url("/d/"), batch_size=8, fields=("cls",), read=read) as loader:
                for _ in loader:
                    pass
                report = loader.report()
            if first:  # whole extents, and each of these shards is one
                assert report.requests == len(list(Path(labels).glob("*.tar")))
            else:
                assert (report.requests, report.fetched_bytes) == (0, 0)


def test_defaults_of_remote_shards_in_shuffled_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = Path(indexed(write_labels(tmp_path / "d", [2000])))
    facts = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**facts, "shuffled": True}))
    with served(folder) as server:
        for urls in (server.url("/d/"), server.url("/d/s-0000.tar")):
            with ShardLoader(urls, batch_size=4, fields=("cls",), rank=0, world_size=7) as loader:
                assert loader.plan.lanes == REMOTE_LANES
                assert loader.plan.block == min(REMOTE_BLOCK_BYTES // 1024, 2000 // (4 * REMOTE_LANES))
                next(iter(loader))
        assert "lanes=238 avoids that" in caplog.text


def test_workers_over_remote_shards_need_a_place_that_they_share(labels: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 8, "fields": ("cls",), "seed": 3, "lanes": 12}
    with served(labels) as server, ShardLoader(labels, **options) as local:
        expected = [batch.cls.tolist() for batch in local]
        dataset = ShardDataset(server.url("/d/"), **options)
        with pytest.raises(UsageError, match="cache_dir"):
            next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))
        dataset = ShardDataset(server.url("/d/"), read=Reading(cache_dir=tmp_path / "cache"), **options)
        server.requests.clear()
        for _ in range(2):
            got = [batch.cls.tolist() for batch in DataLoader(dataset, batch_size=None, num_workers=2)]
            dataset.set_epoch(0)
            assert got == expected
        for spans in asked_bytes(server).values():
            asked = [span for span in spans if len(span) > 1]  # and not who asks for the version
            assert sum(map(len, asked)) == len(set(itertools.chain(*asked)))


def test_in_the_main_process_no_cache_is_needed(labels: str) -> None:
    with served(labels) as server:
        with ShardDataset(server.url("/d/"), batch_size=8, fields=("cls",)) as dataset:
            assert len(next(iter(dataset)).cls) == 8


def test_random_access_through_the_cache_asks_once(labels: str, tmp_path: Path) -> None:
    with served(labels) as server:
        with loaders.open(server.url("/d/"), cache_dir=tmp_path / "cache") as opened:
            first = [opened[n]["cls"] for n in range(0, 737, 50)]
            asked = len(server.requests)
            assert [opened[n]["cls"] for n in range(0, 737, 50)] == first
            assert len(server.requests) == asked
        assert first == list(range(0, 737, 50))

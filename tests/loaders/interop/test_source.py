"""Our source under the real webdataset's pipelines: the same samples, each once, however many ranks and workers."""

from __future__ import annotations

import io
import itertools
import logging
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset as wds
from torch.utils.data import DataLoader

from loaders import ShardLoader
from loaders.interop import source
from shardwriter import ShardWriter
from tests.builders import settle, write_labels, write_pictures, write_shard
from wds_tools.errors import HeaderError, NoShardsError, TooManyFailuresError, UsageError
from wds_tools.serve import serve

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than this machine has cores
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # newer Pythons, of a parent with threads
]

COUNTS = [17, 40, 3, 0, 23]


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), COUNTS)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [20, 21, 9])


def theirs(folder: str, **options: Any) -> list[dict[str, Any]]:
    """What webdataset gives, in the order of the shards."""
    urls = sorted(map(str, Path(folder).glob("*.tar")))
    pipeline = wds.DataPipeline(wds.SimpleShardList(urls), wds.tarfile_to_samples(**options))
    found = list(pipeline)
    # webdataset leaves its files to the collector.
    settle()
    return found


def numbers(samples: Any) -> list[int]:
    return [int(sample["cls"]) for sample in samples]


# One process


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_in_order_it_gives_what_webdataset_gives(pictures: str) -> None:
    ours = list(source(pictures, shuffle=False))
    assert ours == theirs(pictures)
    assert {type(value) for sample in ours for value in sample.values()} == {str, bytes}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_names_that_people_have_are_read_alike(tmp_path: Path) -> None:
    names = [
        "__meta__.json", "__info__/a.json", "a.jpg", "a.seg.jpg", "a.CLS", "dir.v1/a.jpg", "./b.jpg", ".hidden.jpg",
        "Case/KEY.TXT", "Case/key.txt", "noext", "dir/noext", "Track 2.0 (Clean).mp3", "ünï/ö.jpg", "k" * 90 + ".jpg",
        "f" * 120 + "/" + "g" * 90 + ".jpg",
    ]  # fmt: skip
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = number * 100
            archive.addfile(info, io.BytesIO(bytes(number * 100)))
        folder = tarfile.TarInfo("folder.d")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    found = theirs(str(tmp_path))
    assert {sample["__key__"] for sample in found} >= {"a", "dir.v1/a", "Case/KEY", "Track 2", "ünï/ö"}
    assert list(source(tmp_path / "a.tar", shuffle=False)) == found


def test_it_is_the_first_stage_of_a_pipeline(pictures: str) -> None:
    urls = f"{pictures}/s-{{0000..0001}}.tar::{pictures}/s-0002.tar"
    first = source(urls)
    pipeline = wds.DataPipeline(
        first, wds.shuffle(10), wds.decode("rgb8"), wds.to_tuple("png;jpg", "cls"), wds.batched(8)
    )
    epochs = [list(pipeline) for _ in range(2)]
    for batches in epochs:
        assert [images.shape for images, _ in batches] == [(8, 36, 48, 3)] * 6 + [(2, 36, 48, 3)]
        assert batches[0][0].dtype == np.uint8
        assert sorted(int(label) for _, batch in batches for label in batch) == list(range(50))
    assert [list(batch) for _, batch in epochs[0]] != [list(batch) for _, batch in epochs[1]]
    fluid = wds.FluidWrapper(first).decode("rgb8").to_tuple("jpg;png cls").batched(8)
    assert sorted(int(label) for _, batch in fluid for label in batch) == list(range(50))
    pipeline.close()


def test_shuffled_it_has_the_loaders_order(labels: str) -> None:
    with ShardLoader(labels, batch_size=1, fields=("cls",), seed=7, tail="exact") as loader:
        expected = [[int(batch.cls[0]) for batch in loader] for _ in range(3)]
    ours = source(labels, seed=7)
    assert [numbers(ours) for _ in range(3)] == expected
    ours.set_epoch(1)
    assert [numbers(ours), numbers(ours)] == expected[1:]
    assert numbers(source(labels, seed=8)) != expected[0]


def test_an_epoch_that_is_broken_off_is_over_and_leaves_nothing_open(labels: str) -> None:
    ours = source(labels)
    whole = [numbers(ours) for _ in range(2)]
    again = source(labels)
    settle()
    before = len(os.listdir("/proc/self/fd"))
    batches = iter(again)
    assert int(next(batches)["cls"]) == whole[0][0]
    batches.close()  # type: ignore[attr-defined]
    settle()
    assert len(os.listdir("/proc/self/fd")) == before
    assert numbers(again) == whole[1]


# Ranks and workers


def split(labels: str, workers: int, **options: Any) -> list[list[int]]:
    loader: Any = DataLoader(source(labels, **options), batch_size=None, num_workers=workers)
    return [numbers(loader) for _ in range(2)]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("world_size", [1, 3])
def test_ranks_and_workers_share_an_epoch(labels: str, world_size: int, shuffle: bool) -> None:
    for workers in (0, 1, 3):
        ranks = [split(labels, workers, rank=r, world_size=world_size, shuffle=shuffle) for r in range(world_size)]
        for epoch in range(2):
            assert sorted(itertools.chain(*(rank[epoch] for rank in ranks))) == list(range(83))
        alone = [split(labels, 0, rank=r, world_size=world_size, shuffle=shuffle) for r in range(world_size)]
        assert [list(map(sorted, rank)) for rank in ranks] == [list(map(sorted, rank)) for rank in alone]


def test_dropping_makes_all_workers_of_all_ranks_even(labels: str) -> None:
    def batches(rank: int) -> list[int]:
        pipeline = wds.DataPipeline(source(labels, rank=rank, world_size=2, tail="drop"), wds.batched(4))
        return [len(batch["cls"]) for batch in DataLoader(pipeline, batch_size=None, num_workers=3)]

    assert batches(0) == batches(1) == [4] * 9 + [1] * 3  # 83 div 6 = 13 samples a worker


@pytest.mark.parametrize(("context", "persistent"), [("fork", True), ("spawn", True), ("fork", False)])
def test_workers_agree_on_the_epoch(labels: str, context: str, persistent: bool) -> None:
    alone = source(labels)
    epochs = [sorted(numbers(alone)[:10]) for _ in range(4)]
    first = source(labels)
    loader: Any = DataLoader(
        first, batch_size=None, num_workers=2, multiprocessing_context=context, persistent_workers=persistent
    )
    found = [numbers(loader) for _ in range(2)]
    first.set_epoch(3)
    found.append(numbers(loader))
    for epoch, samples in zip((0, 1, 3), found, strict=True):
        assert sorted(samples) == list(range(83))
        assert sorted(samples[:10]) == epochs[epoch]  # the workers' samples come in turn


def test_a_copy_is_another_source(labels: str) -> None:
    ours = source(labels, seed=3)
    expected = [numbers(ours), numbers(ours)]
    copy = pickle.loads(pickle.dumps(source(labels, seed=3)))
    assert [numbers(copy), numbers(copy)] == expected


def test_ranks_come_from_the_environment(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = numbers(source(labels))
    assert found == numbers(source(labels, rank=1, world_size=2))
    assert len(found) == 41


# What goes wrong


def damaged(folder: Path, bad: int) -> str:
    """Shards of 40 samples, the header of one of which is damaged after the index was made."""
    urls = write_labels(folder, [20, 20])
    numbers(source(urls))  # scans and keeps the index
    path = folder / f"s-{bad // 20:04d}.tar"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(bad % 20 * 1024 + 100)
        file.write(b"9")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return urls


def test_a_damaged_sample_is_named(tmp_path: Path) -> None:
    urls = damaged(tmp_path, 5)
    with pytest.raises(HeaderError, match=r"right checksum.*s-0000\.tar, offset 5120"):
        list(source(urls))


@pytest.mark.parametrize("handler", ["skip", wds.warn_and_continue, wds.ignore_and_continue])
def test_a_damaged_sample_is_left_out_or_replaced(
    tmp_path: Path, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    urls = damaged(tmp_path, 5)
    with caplog.at_level(logging.WARNING):
        assert sorted(numbers(source(urls, on_error=handler))) == [n for n in range(40) if n != 5]
    assert "skipped a sample (HeaderError" in caplog.text
    even = numbers(source(urls, on_error=handler, tail="drop", lanes=4))
    assert len(even) == 40
    assert set(even) == set(range(40)) - {5}
    with ShardLoader(urls, batch_size=1, fields=("cls",), lanes=4, on_error="skip") as loader:
        assert even == [int(batch.cls[0]) for batch in loader]


def test_when_all_are_bad_it_ends(tmp_path: Path) -> None:
    urls = write_labels(tmp_path, [3])
    numbers(source(urls))
    path = tmp_path / "s-0000.tar"
    before = path.stat()
    with path.open("r+b") as file:
        for number in range(3):
            file.seek(number * 1024 + 100)
            file.write(b"9")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert numbers(source(urls, on_error="skip")) == []
    with pytest.raises(TooManyFailuresError, match="3 bad samples in a row"):
        list(source(urls, on_error="skip", tail="drop"))


def test_what_does_not_decode_is_for_their_handlers(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [("a", {"cls": b"1"}), ("b", {"cls": b"words"}), ("c", {"cls": b"3"})])
    pipeline = wds.DataPipeline(source(tmp_path / "a.tar", shuffle=False), wds.decode(handler=wds.ignore_and_continue))
    assert [sample["cls"] for sample in pipeline] == [1, 3]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: source("a.tar::"), "an empty url beside"),
        (lambda: source("a.tar", tail="pad"), "tail is 'pad', expected one of exact, drop"),  # type: ignore[arg-type]
        (lambda: source("a.tar", seed=-1), "seed"),
        (lambda: source("a.tar", rank=1), "only one of rank and world_size"),
    ],
)
def test_what_cannot_be_is_said_at_once(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


def test_commands_and_what_is_not_there_are_said_when_it_is_iterated(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"StreamLoader\(\.\.\., allow_pipe=True\)"):
        next(iter(source("pipe:cat a.tar")))
    with pytest.raises(NoShardsError):
        next(iter(source(str(tmp_path / "*.tar"))))


# Remote, and what we write


def test_remote_shards_are_read_ahead(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "s-%04d.tar", max_samples=30) as writer:
        for number in range(100):
            writer.write({"__key__": f"{number:03d}", "cls": number, "bin": bytes(3000)})
    with serve(tmp_path) as server:
        ours = source(f"{server.url}/dataset.json", lanes=4)
        for _ in range(2):
            assert sorted(numbers(ours)) == list(range(100))
        some = iter(ours)
        assert len(list(itertools.islice(some, 20))) == 20
        some.close()  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_and_decodes_what_we_write(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    written: list[dict[str, Any]] = [
        {
            "__key__": f"n{number}/{number:05d}",
            "png": rng.integers(0, 256, (9, 7, 3), dtype=np.uint8),
            "cls": number,
            "txt": f"Größe {number}",
            "json": {"a": [1, 2.5, None], "n": number},
            "npy": rng.random((3, 4)),
            "mp": {"b": [number, "x"]},
        }
        for number in range(25)
    ]
    with ShardWriter(tmp_path / "s-%04d.tar", max_samples=10) as writer:
        for sample in written:
            writer.write(sample)
    dataset = wds.WebDataset(
        str(tmp_path / "s-{0000..0002}.tar"), shardshuffle=False, handler=wds.reraise_exception
    ).decode("rgb8")
    found = list(dataset)
    settle()
    assert [sample["__key__"] for sample in found] == [sample["__key__"] for sample in written]
    for theirs_, ours in zip(found, written, strict=True):
        assert set(theirs_) - {"__url__", "__local_path__"} == set(ours)
        for field in ("png", "npy"):
            assert np.array_equal(theirs_[field], ours[field])
            assert theirs_[field].dtype == ours[field].dtype
        for field in ("cls", "txt", "json", "mp"):
            assert theirs_[field] == ours[field]

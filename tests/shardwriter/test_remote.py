"""Shards written into stores: whole or not there, the listing last, and nothing left behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from shardwriter import ShardWriter
from shardwriter.target import Claim
from tests.s3 import Store, running
from wds_tools.errors import KeyRefusedError, TargetError, UnavailableError, UsageError
from wds_tools.index.listing import parse_listing
from wds_tools.sources.options import Remote


@pytest.fixture(scope="session")
def server() -> Iterator[Store]:
    with running() as store:
        yield store


@pytest.fixture
def bucket(server: Store, request: pytest.FixtureRequest) -> str:
    return server.bucket(f"bucket-{abs(hash(request.node.nodeid))}")


@pytest.fixture(autouse=True)
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, empty, and to be left so."""
    folder = tmp_path / "staging"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def write(target: str, remote: Remote, count: int = 7, **options: Any) -> None:
    with ShardWriter(target, max_samples=3, remote=remote, **options) as writer:
        for number in range(count):
            writer.write({"__key__": f"{number:04d}", "cls": number, "txt": f"sample {number}"})


def local(folder: Path, count: int = 7) -> dict[str, bytes]:
    """The same as files."""
    write(str(folder / "train-%06d.tar"), Remote(), count)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_bytes_as_in_a_folder(server: Store, bucket: str, tmp_path: Path, staging: Path) -> None:
    told: list[str] = []
    write(f"{bucket}/a/train-%06d.tar", server.remote, on_shard=told.append)
    files = local(tmp_path / "local")
    assert server.keys(bucket) == sorted(f"a/{name}" for name in files)
    assert {name: server.get(f"{bucket}/a/{name}") for name in files} == files
    assert told == [f"{bucket}/a/train-{number:06d}.tar" for number in range(3)]
    assert list(staging.iterdir()) == []
    assert server.unfinished(bucket) == []


def test_others_read_it(
    server: Store, bucket: str, tmp_path: Path, webdataset_samples: Callable[..., list[dict[str, Any]]]
) -> None:
    write(f"{bucket}/train-%06d.tar", server.remote)
    names = [f"train-{number:06d}.tar" for number in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(server.get(f"{bucket}/{name}"))
    with tarfile.open(tmp_path / names[0]) as archive:
        assert archive.getnames() == ["0000.cls", "0000.txt", "0001.cls", "0001.txt", "0002.cls", "0002.txt"]
    samples = webdataset_samples(*(tmp_path / name for name in names))
    assert [int(sample["cls"]) for sample in samples] == list(range(7))
    listing = parse_listing(server.get(f"{bucket}/dataset.json"), f"{bucket}/dataset.json")
    assert listing.urls == [f"{bucket}/{name}" for name in names]
    assert listing.sizes.tolist() == [(tmp_path / name).stat().st_size for name in names]


def test_memory(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    try:
        write("memory://out/train-%06d.tar", Remote())
        files = local(tmp_path / "local")
        assert {path.rpartition("/")[2]: memory.cat_file(path) for path in memory.ls("/out", detail=False)} == files
    finally:
        memory.rm("/out", recursive=True)


def test_nothing_is_made_before_the_first_sample(server: Store, bucket: str, staging: Path) -> None:
    write(f"{bucket}/train-%06d.tar", server.remote, count=0)
    assert server.keys(bucket) == []
    assert list(staging.iterdir()) == []


def test_what_lies_there_is_refused(server: Store, bucket: str) -> None:
    write(f"{bucket}/train-%06d.tar", server.remote)
    before = {key: server.get(f"{bucket}/{key}") for key in server.keys(bucket)}
    with pytest.raises(TargetError, match=f"{bucket}/ already holds 3 shards of train-%06d.tar.*overwrite=True"):
        write(f"{bucket}/train-%06d.tar", server.remote)
    with pytest.raises(TargetError, match="the listing of other shards"):
        write(f"{bucket}/val-%06d.tar", server.remote)
    assert {key: server.get(f"{bucket}/{key}") for key in server.keys(bucket)} == before


def test_overwriting_removes_what_was_there(server: Store, bucket: str) -> None:
    write(f"{bucket}/train-%06d.tar", server.remote)
    server.put(f"{bucket}/other.txt", b"kept")
    write(f"{bucket}/train-%06d.tar", server.remote, count=3, overwrite=True)
    assert server.keys(bucket) == ["dataset.json", "dataset.offsets.npy", "other.txt", "train-000000.tar"]
    assert json.loads(server.get(f"{bucket}/dataset.json"))["samples"] == 3


def test_a_name_that_is_taken_meanwhile_is_an_error(server: Store, bucket: str, staging: Path) -> None:
    with pytest.raises(TargetError, match="taken in the meantime"):
        with ShardWriter(f"{bucket}/train-%06d.tar", max_samples=1, remote=server.remote) as writer:
            writer.write({"__key__": "a", "cls": 1})
            server.put(f"{bucket}/train-000000.tar", b"another writer's")
            writer.sync()
    assert server.get(f"{bucket}/train-000000.tar") == b"another writer's"
    assert server.keys(bucket) == ["train-000000.tar"]
    assert list(staging.iterdir()) == []


def test_an_exception_leaves_whole_shards_and_no_listing(server: Store, bucket: str, staging: Path) -> None:
    with pytest.raises(RuntimeError):
        with ShardWriter(f"{bucket}/train-%06d.tar", max_samples=2, remote=server.remote) as writer:
            for number in range(5):
                writer.write({"__key__": str(number), "cls": number})
            raise RuntimeError
    assert server.keys(bucket) == ["train-000000.tar", "train-000001.tar"]
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize("options", [{"endpoint_url": "http://127.0.0.1:9"}])
def test_a_store_that_cannot_be_reached(server: Store, options: dict[str, Any], staging: Path) -> None:
    with pytest.raises(UnavailableError, match=r"given up after 2 attempts.*Check the server"):
        write("s3://bucket/train-%06d.tar", server.options(attempts=2, **options))
    assert list(staging.iterdir()) == []


def test_a_bucket_that_is_missing_and_keys_that_are_wrong(server: Store, bucket: str, staging: Path) -> None:
    with pytest.raises(UnavailableError, match="no such bucket"):
        write("s3://no-such-bucket-here/train-%06d.tar", server.remote)
    with server.checking_keys(), pytest.raises(UnavailableError, match="aws configure"):
        write(f"{bucket}/train-%06d.tar", server.remote)
    assert server.keys(bucket) == []
    assert list(staging.iterdir()) == []


def test_a_store_that_keeps_too_little_is_an_error(server: Store, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wds_tools.sources.fsspec.places.size", lambda *_: 512)
    with pytest.raises(UnavailableError, match=r"has kept 512 of [\d,]+ bytes"):
        write(f"{bucket}/train-%06d.tar", server.remote)


def test_a_refused_sample_does_not_end_the_writer(server: Store, bucket: str) -> None:
    with ShardWriter(f"{bucket}/train-%06d.tar", remote=server.remote) as writer:
        writer.write({"__key__": "a", "cls": 1})
        with pytest.raises(KeyRefusedError):
            writer.write({"__key__": "a", "cls": 1})
    assert "train-000000.tar" in server.keys(bucket)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("http://host/train-%06d.tar", "web servers are not written to"),
        ("s3://bucket/train.tar", "one number"),
        ("s3://bucket/train-%06d.tar.gz", "end in .tar"),
        ("file:///tmp/train-%06d.tar", "not a url"),
    ],
)
def test_patterns_that_cannot_be(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ShardWriter(pattern)


_KILLED = """
import os, sys
from shardwriter import ShardWriter
from wds_tools.sources.options import Remote
writer = ShardWriter(sys.argv[1], max_samples=2, remote=Remote(storage={"s3": {
    "endpoint_url": sys.argv[2], "key": "a", "secret": "b", "client_kwargs": {"region_name": "us-east-1"}}}))
for number in range(5):
    writer.write({"__key__": str(number), "cls": number})
    print(number, flush=True)
sys.stdin.read()
"""


def test_a_killed_writer_leaves_whole_objects_and_what_the_next_one_removes(
    server: Store, bucket: str, staging: Path
) -> None:
    target = f"{bucket}/train-%06d.tar"
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, target, server.endpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert "train-000000.tar" in server.keys(bucket)  # written before the third shard was begun
    for key in server.keys(bucket):
        with tarfile.open(fileobj=io.BytesIO(server.get(f"{bucket}/{key}"))) as archive:
            assert len(archive.getnames()) == 2
    assert "dataset.json" not in server.keys(bucket)
    assert server.unfinished(bucket) == []
    (abandoned,) = staging.iterdir()
    os.utime(abandoned, (1, 1))
    alive = staging / "shardstream-write-alive"
    alive.mkdir()
    with Claim(alive, ["shards"]):
        os.utime(alive, (1, 1))
        write(target, server.remote, overwrite=True)
        assert list(staging.iterdir()) == [alive]
    assert len([key for key in server.keys(bucket) if key.endswith(".tar")]) == 3

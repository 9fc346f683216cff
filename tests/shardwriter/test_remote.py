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

from shardwriter import ShardWriter, pack
from shardwriter.pack import check_target
from shardwriter.target import Claim
from tests.s3 import Store, running
from wds_tools.errors import KeyRefusedError, TargetError, TooManyFailuresError, UnavailableError, UsageError
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


@pytest.fixture
def cache() -> Path:
    """The user's cache directory, where a run that was stopped is remembered."""
    return Path(os.environ["XDG_CACHE_HOME"])


@pytest.fixture
def pictures(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    for number in range(20):
        file = tmp_path / "pictures" / ("cat", "dog")[number % 2] / f"{number:02d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number))
    return tmp_path / "pictures"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def objects(server: Store, bucket: str) -> dict[str, bytes]:
    return {key: server.get(f"{bucket}/{key}") for key in server.keys(bucket)}


def test_packing_gives_the_same_files_as_into_a_folder(
    server: Store, bucket: str, pictures: Path, tmp_path: Path, staging: Path, cache: Path
) -> None:
    (pictures / "cat" / "broken.jpg").write_bytes(b"no picture")
    options: dict[str, Any] = {"max_samples": 3, "split": {"val": 0.3}}
    summary = pack(pictures, f"{bucket}/out", remote=server.remote, **options)
    pack(pictures, tmp_path / "local", **options)
    files = contents(tmp_path / "local")
    assert objects(server, bucket) == {f"out/{name}": data for name, data in files.items()}
    assert summary.listing == f"{bucket}/out/train/dataset.json"
    assert list(staging.iterdir()) == []
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_packing_refuses_and_replaces_what_lies_there(server: Store, bucket: str, pictures: Path) -> None:
    pack(pictures, f"{bucket}/out/", remote=server.remote, max_samples=5)
    before = objects(server, bucket)
    with pytest.raises(TargetError, match=f"{bucket}/out/ already holds 4 shards"):
        pack(pictures, f"{bucket}/out/", remote=server.remote, max_samples=5)
    with pytest.raises(TargetError, match=f"{bucket}/out/ already holds"):
        check_target(pictures, f"{bucket}/out", remote=server.remote)
    pack(pictures, f"{bucket}/out/", remote=server.remote, max_samples=10, overwrite=True)
    after = objects(server, bucket)
    assert sum(name.endswith(".tar") for name in after) == 2
    assert after.keys() < before.keys()


_PACK = """
import os, signal, sys
from shardwriter import pack
from wds_tools.sources.fsspec import places
from wds_tools.sources.options import Remote
calls, at, after = [], int(sys.argv[4]), sys.argv[5] == "after"
put = places.put
def stop(url, path, remote):
    calls.append(url)
    if len(calls) == at and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    put(url, path, remote)
    if len(calls) == at:
        os.kill(os.getpid(), signal.SIGKILL)
import wds_tools.sources.fsspec
wds_tools.sources.fsspec.put = stop
pack(sys.argv[1], sys.argv[2], max_samples=3, jobs=1, remote=Remote(storage={"s3": {
    "endpoint_url": sys.argv[3], "key": "a", "secret": "b", "client_kwargs": {"region_name": "us-east-1"}}}))
"""


SOME = [(1, "before"), (4, "after"), (9, "after"), (10, "before")]
ALL = [(at, when) for at in range(1, 11) for when in ("before", "after")]


@pytest.mark.parametrize(
    ("at", "when"), [*SOME, *(pytest.param(*case, marks=pytest.mark.long) for case in ALL if case not in SOME)]
)
def test_packing_goes_on_after_a_kill_around_any_upload(
    server: Store, bucket: str, pictures: Path, tmp_path: Path, cache: Path, at: int, when: str
) -> None:
    """7 shards, classes.txt, offsets, listing: ten uploads."""
    done = subprocess.run(
        [sys.executable, "-c", _PACK, str(pictures), f"{bucket}/out", server.endpoint, str(at), when],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    if when == "before" or at < 10:
        assert "out/dataset.json" not in server.keys(bucket)
    summary = pack(pictures, f"{bucket}/out", max_samples=3, remote=server.remote)
    assert summary.resumed == 3 * min(at - 1, 6) + (2 if at > 7 else 0)
    pack(pictures, tmp_path / "local", max_samples=3)
    assert objects(server, bucket) == {f"out/{name}": data for name, data in contents(tmp_path / "local").items()}
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_packing_with_other_settings_does_not_go_on(server: Store, bucket: str, pictures: Path) -> None:
    (pictures / "cat" / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises(TooManyFailuresError):
        pack(pictures, f"{bucket}/out", max_samples=1, max_failures=0, shuffle=False, remote=server.remote)
    assert "out/failures.jsonl" in server.keys(bucket)
    with pytest.raises(TargetError, match=f"{bucket}/out/ holds the beginning of another run: max_samples was 1, is 2"):
        pack(pictures, f"{bucket}/out", max_samples=2, shuffle=False, remote=server.remote)
    pack(pictures, f"{bucket}/out", max_samples=2, shuffle=False, remote=server.remote, overwrite=True)
    assert sum(key.endswith(".tar") for key in server.keys(bucket)) == 10


def test_a_shard_that_went_away_in_the_store_is_missed(server: Store, bucket: str, pictures: Path) -> None:
    (pictures / "dog" / "broken.jpg").write_bytes(b"no picture")
    settings: dict[str, Any] = {"max_samples": 3, "shuffle": False, "remote": server.remote}
    with pytest.raises(TooManyFailuresError):
        pack(pictures, f"{bucket}/out", max_failures=0, **settings)
    server.client.delete_object(Bucket=bucket.removeprefix("s3://"), Key="out/train-000001.tar")
    with pytest.raises(TargetError, match=r"train-000001.tar is gone"):
        pack(pictures, f"{bucket}/out", **settings)

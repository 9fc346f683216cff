"""Objects in stores as sources: whole reads or errors, over a real S3 protocol and over file systems that misbehave."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.s3 import SECRET, Store, read
from wds_tools.errors import (
    ShardChangedError,
    ShardMissingError,
    ShardstreamError,
    TruncatedShardError,
    UnavailableError,
    UsageError,
)
from wds_tools.sources.fsspec import FsspecFile
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source, open_stream

DATA = bytes(range(256)) * 1000
QUICK = Remote(attempts=3, give_up_s=5.0)


class Odd(MemoryFileSystem):  # type: ignore[misc]
    """A memory file system that does what the test wants with the next calls."""

    protocol = "odd"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    plan: ClassVar[list[Callable[[bytes], bytes]]] = []
    asked: ClassVar[int] = 0

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.removeprefix("odd://"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data: bytes = super().cat_file(path, start=start, end=end)
        Odd.asked += 1
        return Odd.plan.pop(0)(data) if Odd.plan else data


@pytest.fixture
def odd() -> type[Odd]:
    fsspec.register_implementation("odd", Odd, clobber=True)
    Odd.store, Odd.plan, Odd.asked = {}, [], 0
    Odd().pipe_file("/a.tar", DATA)
    return Odd


def failing(error: BaseException) -> Callable[[bytes], bytes]:
    def fail(data: bytes) -> bytes:
        raise error

    return fail


@pytest.fixture
def shard(server: Store, bucket: str) -> str:
    server.put(f"{bucket}/a/x.tar", DATA)
    return f"{bucket}/a/x.tar"


def test_reads_anywhere_in_any_order(server: Store, shard: str) -> None:
    with open_source(shard, remote=server.remote) as source:
        assert isinstance(source, FsspecFile)
        assert source.version is None
        buffer = bytearray(1000)
        for first in (200_000, 3, 255_000, 0):
            source.read_into(first, memoryview(buffer))
            assert buffer == DATA[first : first + 1000]
        source.read_into(256_000, memoryview(b""))
        source.announce(0, 1 << 40)
        assert (source.size(), source.url) == (len(DATA), shard)
        assert source.version == server.client.head_object(Bucket=shard.split("/")[2], Key="a/x.tar")["ETag"]


def test_as_a_stream(server: Store, shard: str) -> None:
    buffer = memoryview(bytearray(100_000))
    with open_stream(shard, remote=server.remote) as stream:
        got = b"".join(bytes(buffer[:count]) for count in iter(lambda: stream.readinto(buffer), 0))
        assert stream.shows_cuts
    assert got == DATA


def test_opening_asks_nothing() -> None:
    remote = Remote(attempts=1, storage={"s3": {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}})
    with open_source("s3://bucket/a.tar", remote=remote) as source:
        with pytest.raises(UnavailableError, match="given up after 1 attempt"):
            source.size()


def test_threads_share_one_source(server: Store, shard: str) -> None:
    source = open_source(shard, remote=server.remote)
    wrong: list[int] = []

    def work(begin: int) -> None:
        buffer = bytearray(5000)
        for first in range(begin, begin + 20_000, 1999):
            source.read_into(first, memoryview(buffer))
            if buffer != DATA[first : first + 5000]:
                wrong.append(first)

    threads = [threading.Thread(target=work, args=(at * 20_000,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_object_that_is_replaced_is_an_error(server: Store, shard: str) -> None:
    source = open_source(shard, remote=server.remote)
    buffer = memoryview(bytearray(100))
    source.read_into(0, buffer)
    server.put(shard, DATA[::-1])
    with pytest.raises(ShardChangedError, match="another object") as got:
        source.read_into(100, buffer)
    assert (got.value.url, got.value.offset) == (shard, 100)
    assert bytes(buffer) == DATA[:100]


def test_an_object_of_another_size_or_version_than_known(server: Store, shard: str) -> None:
    buffer = memoryview(bytearray(10))
    for source in (
        FsspecFile(shard, remote=server.remote, size=len(DATA) + 1),
        FsspecFile(shard, remote=server.remote, version='"another"'),
        FsspecFile(shard, remote=server.remote).expect(size=7000),
    ):
        with pytest.raises(ShardChangedError):
            source.read_into(0, buffer)
    known = FsspecFile(shard, remote=server.remote)
    known.read_into(0, buffer)
    FsspecFile(shard, remote=server.remote, size=len(DATA), version=known.version).read_into(0, buffer)


@pytest.mark.parametrize("first", [len(DATA) - 5, len(DATA), len(DATA) + 1000])
def test_the_end_inside_a_read_is_an_error(server: Store, shard: str, first: int) -> None:
    with pytest.raises(TruncatedShardError, match="ends after 256,000 bytes") as got:
        read(open_source(shard, remote=server.remote), first, 10)
    assert got.value.offset == len(DATA)


@pytest.mark.parametrize(
    ("url", "message"),
    [("{}/a/none.tar", "nothing lies there"), ("s3://no-such-bucket-{0}/x.tar", "no such bucket")],
)
def test_what_is_missing(server: Store, bucket: str, url: str, message: str) -> None:
    place = url.format(bucket if url.startswith("{}") else 7)
    with pytest.raises(ShardMissingError, match=message):
        open_source(place, remote=server.remote).size()
    with pytest.raises(ShardMissingError, match=message):
        read(open_source(place, remote=server.remote), 0, 1)


def test_a_folder_is_no_shard(server: Store, shard: str) -> None:
    with pytest.raises(UsageError, match="not a file but a folder"):
        open_source(shard.removesuffix("/x.tar"), remote=server.remote).size()


def test_wrong_keys_are_an_error_with_a_cure_and_are_not_tried_again(server: Store, shard: str) -> None:
    with server.checking_keys():
        for ask in (
            lambda: open_source(shard, remote=server.options(attempts=1000)).size(),
            lambda: read(open_source(shard, remote=server.options(attempts=1000)), 0, 1),
        ):
            with pytest.raises(UnavailableError, match=r"access is refused.*aws configure.*anon") as got:
                ask()
            assert SECRET not in str(got.value)


def test_no_secret_is_shown(server: Store, shard: str) -> None:
    source = open_source(f"{shard}?token=hidden", remote=server.remote)
    with pytest.raises(ShardstreamError) as got:
        source.size()
    for text in (repr(source), repr(server.remote), str(got.value)):
        assert SECRET not in text
        assert "hidden" not in text


def test_a_description_pickles_with_what_is_known(server: Store, shard: str) -> None:
    source = open_source(shard, remote=server.remote)
    assert source.size() == len(DATA)
    copy = pickle.loads(pickle.dumps(source))
    server.put(shard, DATA + b"more")
    with pytest.raises(ShardChangedError):
        read(copy, 0, 10)


def test_a_spawned_process_reads(server: Store, shard: str) -> None:
    source = open_source(shard, remote=server.remote)
    read(source, 0, 10)
    copy = pickle.loads(pickle.dumps(source))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(read, (copy, 1000, 500)) == DATA[1000:1500]
        pool.close()
        pool.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_makes_its_own_connections(server: Store, shard: str) -> None:
    source = open_source(shard, remote=server.remote)
    buffer = memoryview(bytearray(500))
    source.read_into(0, buffer)
    children = []
    for at in range(3):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for first in range(at, 20_000 + at, 1000):
                    source.read_into(first, buffer)
                    os.write(writing, buffer)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        children.append((at, child, reading))
    for first in range(0, 20_000, 1000):  # the parent goes on meanwhile
        source.read_into(first, buffer)
        assert buffer == DATA[first : first + 500]
    for at, child, reading in children:
        with open(reading, "rb") as pipe:
            assert pipe.read() == b"".join(DATA[first : first + 500] for first in range(at, 20_000 + at, 1000))
        assert os.waitpid(child, 0)[1] == 0


def test_a_short_answer_is_asked_for_again(odd: type[Odd]) -> None:
    odd.plan = [lambda data: data[:7], lambda data: b""]
    assert read(open_source("odd://a.tar", remote=QUICK), 100, 5000) == DATA[100:5100]
    assert odd.asked == 3


def test_answers_that_stay_short_are_an_error(odd: type[Odd]) -> None:
    odd.plan = [lambda data: data[:-1]] * 3
    with pytest.raises(UnavailableError, match="sends 4,999 bytes in place of 5,000; given up after 3 attempts") as got:
        read(open_source("odd://a.tar", remote=QUICK), 100, 5000)
    assert got.value.offset == 100
    odd.plan = [lambda data: data + b"?"] * 3
    with pytest.raises(UnavailableError, match="sends 5,001 bytes"):
        read(open_source("odd://a.tar", remote=QUICK), 100, 5000)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("slow"),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        OSError(errno.EBUSY, "Please reduce your request rate"),
        RuntimeError("a library's own"),
        EOFError(),
    ],
)
def test_what_may_pass_is_tried_again(odd: type[Odd], error: Exception) -> None:
    odd.plan = [failing(error)] * 2
    assert read(open_source("odd://a.tar", remote=QUICK), 5, 10) == DATA[5:15]
    odd.plan = [failing(error)] * 3
    with pytest.raises(UnavailableError, match="given up after 3 attempts") as got:
        read(open_source("odd://a.tar", remote=QUICK), 5, 10)
    assert got.value.__cause__ is error


def test_a_busy_store_is_known_as_one(odd: type[Odd]) -> None:
    source = FsspecFile("odd://busy/a.tar", remote=QUICK)
    odd().pipe_file("/busy/a.tar", DATA)
    assert not source.limited
    odd.plan = [failing(OSError(errno.EBUSY, "SlowDown"))]
    source.read_into(0, memoryview(bytearray(10)))
    assert source.limited


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (PermissionError(errno.EACCES, "no"), UnavailableError, "access is refused"),
        (
            type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"),
            UnavailableError,
            "access is refused",
        ),
        (OSError(errno.EINVAL, "bad request"), UnavailableError, "does not take the request"),
        (ValueError("bad"), UnavailableError, "does not take the request"),
        (FileNotFoundError("a.tar"), ShardMissingError, "nothing lies there"),
        (NotImplementedError("parts"), UsageError, "cannot do that"),
        (type("HttpError", (Exception,), {"code": 404})("gone"), ShardMissingError, "nothing lies there"),
        (type("HttpError", (Exception,), {"status": 403})("no"), UnavailableError, "access is refused"),
        (type("HttpError", (Exception,), {"status_code": 400})("no"), UnavailableError, "does not take"),
    ],
)
def test_what_would_come_again_is_said_at_once(
    odd: type[Odd], error: Exception, kind: type[Exception], message: str
) -> None:
    odd.plan = [failing(error)]
    with pytest.raises(kind, match=message):
        read(open_source("odd://a.tar", remote=QUICK), 5, 10)
    assert odd.asked == 1


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(odd: type[Odd]) -> None:
    """A file system without conditions: what was read is believed only where the facts are the same after it."""

    def replace(data: bytes) -> bytes:
        odd().pipe_file("/a.tar", DATA[::-1])
        return data

    source = open_source("odd://a.tar", remote=QUICK)
    buffer = memoryview(bytearray(10))
    source.read_into(0, buffer)
    odd.plan = [replace]
    with pytest.raises(ShardChangedError, match="its version was"):
        source.read_into(10, buffer)


def test_an_object_that_goes_away_is_missing(odd: type[Odd]) -> None:
    source = open_source("odd://a.tar", remote=QUICK)
    assert source.size() == len(DATA)
    odd().rm_file("/a.tar")
    with pytest.raises(ShardMissingError):
        source.read_into(0, memoryview(bytearray(10)))


def test_closing_ends_the_waits_of_other_threads(odd: type[Odd]) -> None:
    source = open_source("odd://a.tar", remote=Remote(attempts=10_000, give_up_s=3600.0))
    begun = threading.Event()

    def fail(data: bytes) -> bytes:
        begun.set()
        raise TimeoutError

    odd.plan = [fail] * 10_000
    found: list[BaseException] = []

    def work() -> None:
        try:
            source.read_into(0, memoryview(bytearray(10)))
        except UnavailableError as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(20)
    source.close()
    source.close()
    thread.join(20)
    assert not thread.is_alive()
    assert "not open" in str(found[0])
    with pytest.raises(UnavailableError, match="not open"):
        source.read_into(0, memoryview(bytearray(10)))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense://a/b.tar", "nonsense:// is no kind of address that is known"),
        ("gs://bucket/a.tar", r"needs a package that is not installed.*pip install 'shardstream\[gcs\]'"),
        ("az://bucket/a.tar", r"pip install 'shardstream\[azure\]'"),
        ("gdrive://a.tar", "needs a package that is not installed"),
    ],
)
def test_schemes_that_cannot_be_opened_say_what_to_install(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_source(url)


def test_options_that_are_none_are_a_usage_error(server: Store) -> None:
    remote = Remote(storage={"s3": {"key": SECRET, "username": "b"}})
    with pytest.raises(UsageError, match=r"does not take its options \(given: key, username\)") as got:
        open_source("s3://bucket/a.tar", remote=remote).size()
    assert SECRET not in str(got.value)


def test_each_set_of_options_has_its_own_file_system(server: Store, shard: str) -> None:
    good, bad = server.remote, server.options(attempts=1, endpoint_url="http://127.0.0.1:9")
    for remote in itertools.chain.from_iterable([(good, bad)] * 2):
        if remote is good:
            assert read(open_source(shard, remote=remote), 0, 3) == DATA[:3]
        else:
            with pytest.raises(UnavailableError):
                read(open_source(shard, remote=remote), 0, 3)


def test_memory() -> None:
    fsspec.filesystem("memory").pipe_file("/shards/a.tar", DATA)
    try:
        assert read(open_source("memory://shards/a.tar"), 10, 20) == DATA[10:30]
        with pytest.raises(ShardMissingError):
            open_source("memory://shards/b.tar").size()
    finally:
        fsspec.filesystem("memory").rm("/shards", recursive=True)

"""What lies where in stores, and whole objects put there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.s3 import SECRET, Store
from wds_tools.errors import ShardMissingError, TargetError, UnavailableError, UsageError
from wds_tools.sources.fsspec import exists, glob, names, places, put, remove, size, sizes
from wds_tools.sources.options import Remote


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.pipe_file("/shards/a.tar", b"a")
    yield system
    system.rm("/shards", recursive=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.tar"
    path.write_bytes(os.urandom(300_000))
    return path


def test_patterns_in_a_bucket(server: Store, bucket: str) -> None:
    for key in ("t/b-1.tar", "t/b-0.tar", "t/b.json", "t/deep/b-2.tar", "b-3.tar"):
        server.put(f"{bucket}/{key}", b"x")
    assert glob(f"{bucket}/t/*.tar", server.remote) == [f"{bucket}/t/b-0.tar", f"{bucket}/t/b-1.tar"]
    assert glob(f"{bucket}/t/b-[1-9].tar", server.remote) == [f"{bucket}/t/b-1.tar"]
    assert glob(f"{bucket}/*.tar", server.remote) == [f"{bucket}/b-3.tar"]
    assert glob(f"{bucket}/t/**/*.tar", server.remote) == [
        f"{bucket}/t/{name}" for name in ("b-0.tar", "b-1.tar", "deep/b-2.tar")
    ]
    with pytest.raises(UsageError, match="no pattern"):
        glob(f"{bucket}/t/**.tar", server.remote)
    assert glob(f"{bucket}/t/*", server.remote) == [f"{bucket}/t/{name}" for name in ("b-0.tar", "b-1.tar", "b.json")]
    assert glob(f"{bucket}/none/*.tar", server.remote) == []
    server.put(f"{bucket}/t/b-9.tar", b"x")  # no listing is remembered
    assert len(glob(f"{bucket}/t/*.tar", server.remote)) == 3


def test_patterns_keep_how_the_url_was_written(memory: Any) -> None:
    assert glob("memory://shards/*.tar") == ["memory://shards/a.tar"]
    assert glob("memory:///shards/*.tar") == ["memory:///shards/a.tar"]


def test_sizes_in_a_folder(server: Store, bucket: str) -> None:
    for key in ("t/b.tar", "t/a.json", "t/deep/c.tar", "u.tar"):
        server.put(f"{bucket}/{key}", key.encode())
    for url in (f"{bucket}/t", f"{bucket}/t/"):
        assert list(sizes(url, server.remote).items()) == [("a.json", 8), ("b.tar", 7)]
    assert sizes(f"{bucket}/", server.remote) == {"u.tar": 5}
    assert names(f"{bucket}/t", server.remote) == ["a.json", "b.tar"]
    assert sizes(f"{bucket}/none", server.remote) == {}
    with pytest.raises(ShardMissingError, match="no such bucket"):
        sizes("s3://there-is-no-such-bucket/t", server.remote)


def test_what_exists(server: Store, bucket: str) -> None:
    server.put(f"{bucket}/t/a.tar", b"12345")
    assert exists(f"{bucket}/t/a.tar", server.remote)
    assert not exists(f"{bucket}/t/b.tar", server.remote)
    assert not exists(f"{bucket}/t", server.remote)
    assert size(f"{bucket}/t/a.tar", server.remote) == 5
    with pytest.raises(ShardMissingError):
        size(f"{bucket}/t/b.tar", server.remote)
    with server.checking_keys(), pytest.raises(UnavailableError, match="access is refused"):
        exists(f"{bucket}/t/a.tar", server.remote)


def test_put_and_remove(server: Store, bucket: str, file: Path) -> None:
    put(f"{bucket}/out/x.tar", file, server.remote)
    assert server.get(f"{bucket}/out/x.tar") == file.read_bytes()
    with pytest.raises(TargetError, match="taken in the meantime"):
        put(f"{bucket}/out/x.tar", file, server.remote)
    remove(f"{bucket}/out/x.tar", server.remote)
    remove(f"{bucket}/out/x.tar", server.remote)
    assert server.keys(bucket) == []


def test_an_empty_object(server: Store, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    put(f"{bucket}/empty", tmp_path / "empty", server.remote)
    assert server.get(f"{bucket}/empty") == b""


def test_an_answer_that_is_lost_is_no_failure(
    server: Store, bucket: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = places._put_object
    lost: list[bool] = []

    async def lose_the_first(*arguments: Any) -> None:
        await original(*arguments)
        if not lost:
            lost.append(True)
            raise ConnectionResetError

    monkeypatch.setattr(places, "_put_object", lose_the_first)
    put(f"{bucket}/x.tar", file, server.remote)
    assert lost
    assert server.get(f"{bucket}/x.tar") == file.read_bytes()


def test_an_upload_that_breaks_begins_again_at_its_first_byte(
    server: Store, bucket: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(os.urandom(5_000_000))
    with Dam(server, after=1_000_000) as dam:
        remote = server.options(endpoint_url=f"http://127.0.0.1:{dam.port}")
        thread = threading.Thread(target=put, args=(f"{bucket}/x.tar", file, remote))
        thread.start()
        assert dam.full.wait(30)
        dam.break_()
        thread.join(60)
    assert server.get(f"{bucket}/x.tar") == file.read_bytes()


class Dam:
    """A relay to the server that stops in the midst of the first upload, until it is broken."""

    def __init__(self, server: Store, *, after: int) -> None:
        self._to = int(server.endpoint.rpartition(":")[2])
        self._after = after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.full = threading.Event()
        self._broken = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._broken.set()
        for each in (self._listener, *self._sockets):
            self._shut(each)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def break_(self) -> None:
        """Reset the connection that stands, and let later ones pass."""
        self._broken.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self._to))
            self._sockets += [client, there]
            self._run(self._pass_on, client, there, self._after)
            self._run(self._pass_on, there, client, 1 << 60)

    def _pass_on(self, source: socket.socket, sink: socket.socket, most: int) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                passed += len(data)
                if passed > most and not self._broken.is_set():
                    self.full.set()
                    self._broken.wait(60)
                    break
                sink.sendall(data)
        except OSError:
            pass
        self._shut(source)
        self._shut(sink)

    def _run(self, target: Any, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    @staticmethod
    def _shut(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


_PUT = f"""
import sys
from pathlib import Path
from wds_tools.sources.fsspec import put
from wds_tools.sources.options import Remote
put(sys.argv[1], Path(sys.argv[2]), Remote(storage={{"s3": {{
    "endpoint_url": sys.argv[3], "key": "a", "secret": "{SECRET}", "client_kwargs": {{"region_name": "us-east-1"}}}}}}))
"""


def test_a_kill_in_the_midst_of_an_upload_leaves_nothing(server: Store, bucket: str, file: Path) -> None:
    file.write_bytes(os.urandom(5_000_000))
    with Dam(server, after=1_000_000) as dam:
        with subprocess.Popen(
            [sys.executable, "-c", _PUT, f"{bucket}/x.tar", str(file), f"http://127.0.0.1:{dam.port}"],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
        ) as process:
            assert dam.full.wait(60)
            process.kill()
    assert server.keys(bucket) == []
    assert server.unfinished(bucket) == []


def test_a_store_that_stops_taking_bytes_is_given_up(file: Path) -> None:
    file.write_bytes(bytes(50_000_000))  # more than the buffers of two sockets
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        s3 = {"endpoint_url": endpoint, "key": "a", "secret": "b", "client_kwargs": {"region_name": "us-east-1"}}
        remote = Remote(attempts=2, stall_s=0.3, storage={"s3": s3})
        with pytest.raises(UnavailableError, match="given up after 2 attempts"):
            put("s3://bucket/x.tar", file, remote)


class Growing(MemoryFileSystem):  # type: ignore[misc]
    """A file system that shows a file while it grows, as sftp does, and fails in the midst of it when told to."""

    protocol = "growing"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    fails: ClassVar[bool] = False
    seen: ClassVar[list[list[str]]] = []

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path.removeprefix("growing://"))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self.pipe_file(rpath, b"half")
        Growing.seen.append(sorted(self.store))
        if Growing.fails:
            raise ConnectionResetError
        super().put_file(lpath, rpath, **options)


@pytest.fixture
def growing() -> type[Growing]:
    fsspec.register_implementation("growing", Growing, clobber=True)
    Growing.store, Growing.fails, Growing.seen = {}, False, []
    return Growing


def test_a_file_that_would_be_seen_growing_has_a_temporary_name(growing: type[Growing], file: Path) -> None:
    put("growing://out/x.tar", file)
    assert list(growing.store) == ["/out/x.tar"]
    assert growing().cat_file("/out/x.tar") == file.read_bytes()
    ((seen,),) = growing.seen
    assert seen.startswith("/out/.x.tar.")
    assert seen.endswith(".tmp")
    with pytest.raises(TargetError):
        put("growing://out/x.tar", file)


def test_a_failure_leaves_no_temporary_file(growing: type[Growing], file: Path) -> None:
    growing.fails = True
    with pytest.raises(UnavailableError, match="given up after 2 attempts"):
        put("growing://out/x.tar", file, Remote(attempts=2))
    assert growing.store == {}

"""The server over real sockets: hand-written requests, http.client, urllib3; what it serves and what it keeps."""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
import urllib3

from wds_tools.errors import ShardChangedError, UsageError
from wds_tools.serve import Served, Server, serve
from wds_tools.serve.connection import Limits
from wds_tools.sources.resolve import open_source, open_stream

DATA = bytes(range(256)) * 4096  # 1 MiB


class Reply(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "served"
    (root / "sub").mkdir(parents=True)
    (root / "a.tar").write_bytes(DATA)
    (root / "empty.tar").touch()
    (root / "sub" / "b c%é.json").write_text("{}")
    return root


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serve(folder) as server:
        yield server


class Client:
    """One raw connection; replies are read as RFC 9112 section 6.3 says, by Content-Length."""

    def __init__(self, server: Server) -> None:
        self.sock = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        self.received = self.sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.received.close()
        self.sock.close()

    def send(self, text: str | bytes) -> None:
        self.sock.sendall(text.encode("latin-1") if isinstance(text, str) else text)

    def ask(self, method: str, target: str, *fields: str) -> Reply:
        lines = "".join(f"{field}\r\n" for field in ("Host: localhost", *fields))
        self.send(f"{method} {target} HTTP/1.1\r\n{lines}\r\n")
        return self.reply(body=method != "HEAD")

    def reply(self, *, body: bool = True) -> Reply:
        status = int(self.received.readline().split()[1])
        fields: dict[str, str] = {}
        while line := self.received.readline().strip().decode("latin-1"):
            name, _, value = line.partition(": ")
            assert name.lower() not in fields
            fields[name.lower()] = value
        length = 0 if status == 304 or not body else int(fields["content-length"])
        return Reply(status, fields, self.received.read(length))

    def at_end(self) -> bool:
        try:
            return self.received.read(1) == b""
        except ConnectionResetError:
            return True


def get(server: Server, target: str, *fields: str, method: str = "GET") -> Reply:
    with Client(server) as client:
        return client.ask(method, target, *fields)


def test_a_file_whole_and_in_part(server: Server) -> None:
    whole = get(server, "/a.tar")
    assert (whole.status, whole.body) == (200, DATA)
    assert whole.fields["content-type"] == "application/x-tar"
    assert whole.fields["accept-ranges"] == "bytes"
    assert re.fullmatch(r'"[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"', whole.fields["etag"])
    assert "content-encoding" not in whole.fields
    part = get(server, "/a.tar", "Range: bytes=5-300004")
    assert (part.status, part.body) == (206, DATA[5:300005])
    assert part.fields["content-range"] == f"bytes 5-300004/{len(DATA)}"
    assert part.fields["etag"] == whole.fields["etag"]
    beyond = get(server, "/a.tar", f"Range: bytes={len(DATA)}-")
    assert (beyond.status, beyond.body, beyond.fields["content-range"]) == (416, b"", f"bytes */{len(DATA)}")
    several = get(server, "/a.tar", "Range: bytes=0-1,3-4")
    assert (several.status, several.body) == (200, DATA)
    assert get(server, "/empty.tar").body == b""
    assert get(server, "/empty.tar", "Range: bytes=0-").status == 416


def test_head_is_get_without_the_body(server: Server) -> None:
    with Client(server) as client:
        head = client.ask("HEAD", "/a.tar", "Range: bytes=0-9")
        assert (head.status, head.fields["content-length"]) == (200, str(len(DATA)))
        missing = client.ask("HEAD", "/none")
        assert missing.status == 404
        assert int(missing.fields["content-length"]) > 0
        index = client.ask("HEAD", "/")
        assert index.status == 200
        assert index.fields["content-length"] == str(len(client.ask("GET", "/").body))
        same = client.ask("GET", "/a.tar", f"If-None-Match: {head.fields['etag']}")
        assert (same.status, same.body) == (304, b"")
        assert same.fields["etag"] == head.fields["etag"]
        assert client.ask("GET", "/a.tar", "Range: bytes=0-4").body == DATA[:5]


def test_a_replaced_file_is_another_one(server: Server, folder: Path) -> None:
    tag = get(server, "/a.tar").fields["etag"]
    facts = (folder / "a.tar").stat()
    fresh = folder / ".new"
    fresh.write_bytes(DATA[::-1])
    os.utime(fresh, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # the same size and time: the inode tells
    fresh.rename(folder / "a.tar")
    part = get(server, "/a.tar", "Range: bytes=0-9", f"If-Range: {tag}")
    assert (part.status, part.body) == (200, DATA[::-1])
    assert get(server, "/a.tar", f"If-Match: {tag}").status == 412


def test_requests_follow_each_other_on_one_connection(server: Server) -> None:
    with Client(server) as client:
        for at in range(20):
            assert client.ask("GET", "/a.tar", f"Range: bytes={at}-{at}").body == DATA[at : at + 1]
        assert client.ask("GET", "/none").status == 404
        client.send("\r\nGET /a.tar HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-1\r\n\r\nHEAD /none HTTP/1.1\r\n")
        client.send("Host: localhost\r\n\r\nGET /a.tar HTTP/1.1\r\nHost: h.localhost\r\nRange: bytes=2-3\r\n\r\n")
        assert client.reply().body == DATA[:2]
        assert client.reply(body=False).status == 404
        assert client.reply().body == DATA[2:4]
        last = client.ask("GET", "/a.tar", "Connection: close")
        assert (last.body, last.fields["connection"]) == (DATA, "close")
        assert client.at_end()


def test_a_head_that_comes_a_byte_at_a_time(server: Server) -> None:
    with Client(server) as client:
        for byte in b"GET /a.tar HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-3\r\n\r\n":
            client.send(bytes([byte]))
        assert client.reply().body == DATA[:4]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(server: Server, method: str, folder: Path) -> None:
    with Client(server) as client:
        refused = client.ask(method, "/a.tar", "Content-Length: 5")
        assert (refused.status, refused.fields["allow"]) == (405, "GET, HEAD")
        client.send("hello")
        assert client.at_end()  # what follows is a body, and is never taken for a request
    assert (folder / "a.tar").read_bytes() == DATA


def test_a_body_is_not_taken_for_a_request(server: Server) -> None:
    with Client(server) as client:
        inner = "GET /a.tar HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.send(f"GET /empty.tar HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(inner)}\r\n\r\n{inner}")
        assert client.reply().status == 200
        assert client.at_end()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("hello\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\n\r\n", 505),
        (f"GET /{'a' * 20_000} HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (f"GET / HTTP/1.1\r\nHost: localhost\r\nA: {'b' * 100_000}", 431),
    ],
)
def test_what_is_no_request_ends_the_connection(server: Server, text: str, status: int) -> None:
    with Client(server) as client:
        client.send(text)
        assert client.reply().status == status
        assert client.at_end()


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org:8000", "localhost.example.org"])
def test_loopback_is_not_read_through_another_hosts_name(server: Server, host: str) -> None:
    with Client(server) as client:
        client.send(f"GET /a.tar HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert client.reply().status == 421
    with Client(server) as client:
        client.send(f"GET http://{host}/a.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.reply().status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]:80", "LOCALHOST", "10.0.0.1"])
def test_addresses_and_localhost_are_no_names_of_others(server: Server, host: str) -> None:
    with Client(server) as client:
        client.send(f"HEAD /a.tar HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert client.reply(body=False).status == 200


@pytest.mark.parametrize(
    "target",
    [
        *[
            "/../secret",
            "/sub/../../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/%2e%2e%2fsecret",
            "//secret",
            "/a.tar%00",
        ],
        *["/out", "/outdir/secret", "/loop", "/dangling", "/pipe", "/.hidden", "/.a.tar.01234567.tmp", "/.git/config"],
        *f"/a.tar/ /a.tar/x /none /sub/none/x /.. /. /%2e /\\..\\secret /{'x' * 300}".split(),
    ],
)
def test_nothing_outside_hidden_or_unfinished_is_served(server: Server, folder: Path, target: str) -> None:
    (folder.parent / "secret").write_text("secret")
    (folder / "out").symlink_to("../secret")
    (folder / "outdir").symlink_to(folder.parent)
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    (folder / ".git").mkdir()
    for name in (".hidden", ".a.tar.01234567.tmp", ".git/config"):
        (folder / name).write_text("secret")
    reply = get(server, target)
    assert reply.status == 404
    assert b"secret" not in reply.body
    page = get(server, "/").body.decode()
    assert re.findall(r'href="([^"]*)"', page) == ["./a.tar", "./empty.tar", "./sub/"]


def test_links_that_stay_inside_are_followed(server: Server, folder: Path) -> None:
    (folder / "link.tar").symlink_to("sub/../a.tar")
    (folder / "around").symlink_to(folder / "sub")
    assert get(server, "/link.tar").body == DATA
    assert get(server, "/around/b%20c%25%C3%A9.json").body == b"{}"
    assert "link.tar" in get(server, "/").body.decode()


def test_a_link_put_in_after_the_look_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "secret").write_text("secret")
    resolve = os.path.realpath

    def swap(path: str, **options: bool) -> str:
        found = resolve(path, **options)
        if str(path).endswith("/sub/x"):
            (folder / "sub" / "x").unlink()
            (folder / "sub" / "x").symlink_to("../../secret")
        return found

    (folder / "sub" / "x").touch()
    with serve(folder) as server:
        monkeypatch.setattr(os.path, "realpath", swap)
        assert get(server, "/sub/x").status == 404


@pytest.mark.parametrize(
    ("number", "status"), [(errno.EACCES, 403), (errno.EMFILE, 503), (errno.EIO, 500), (errno.ENOENT, 404)]
)
def test_a_file_that_cannot_be_opened(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    open_ = os.open

    def refuse(path: str, flags: int, **options: int) -> int:
        if path == "a.tar":
            raise OSError(number, os.strerror(number))
        return open_(path, flags, **options)

    with Client(server) as client:
        monkeypatch.setattr(os, "open", refuse)
        assert client.ask("GET", "/a.tar").status == status
        monkeypatch.undo()
        assert client.ask("GET", "/a.tar").body == DATA


def test_the_index_of_a_folder(server: Server, folder: Path) -> None:
    name = "x<script>\"&'a:b #?.tar"
    (folder / name).write_bytes(b"odd")
    (folder / "sub" / os.fsdecode(b"\xff.tar")).write_bytes(b"bytes")
    page = get(server, "/")
    assert page.fields["content-type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    assert "<script>" not in text
    assert "1,048,576" in text
    links = re.findall(r'href="\./([^"]*)"', text)
    assert [get(server, f"/{link}").status for link in links] == [200] * 4
    assert get(server, f"/{links[-1]}").body == b"odd"
    assert get(server, f"/{re.findall(r'%FF[^' + chr(34) + ']*', get(server, '/sub/').body.decode())[0]}").status == 404
    assert get(server, "/sub/%FF.tar").body == b"bytes"
    moved = get(server, "/sub")
    assert (moved.status, moved.fields["location"]) == (301, "/sub/")
    assert 'href="../"' in get(server, "/sub/").body.decode()


def test_a_folder_that_is_replaced_as_a_whole_is_the_new_one(server: Server, folder: Path) -> None:
    folder.rename(folder.parent / "before")
    folder.mkdir()
    (folder / "a.tar").write_bytes(b"new")
    assert get(server, "/a.tar").body == b"new"


def test_a_file_that_shrinks_while_it_is_sent_is_seen_by_the_client(folder: Path) -> None:
    big = folder / "big.tar"
    with open(big, "wb") as file:
        file.truncate(1 << 28)
    with serve(folder) as server:
        with Client(server) as client:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client.send("GET /big.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.received.readline() == b"HTTP/1.1 200 OK\r\n"
            os.truncate(big, 1 << 20)  # the client has read a line: far less than the file fits into the buffers
            got = sum(map(len, iter(lambda: client.received.read(1 << 16), b"")))
            assert got < 1 << 28


def test_file_systems_without_sendfile(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refuse)
    assert get(server, "/a.tar").body == DATA
    assert get(server, "/a.tar", "Range: bytes=7-").body == DATA[7:]


def test_standard_clients(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for _ in range(2):
        connection.request("GET", "/a.tar", headers={"Range": "bytes=1-4"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (206, DATA[1:5])
    connection.close()
    with urllib3.PoolManager() as pool:
        assert pool.request("GET", f"{server.url}/a.tar").data == DATA
        assert pool.request("GET", f"{server.url}/sub/b%20c%25%C3%A9.json").json() == {}
        assert pool.request("GET", f"{server.url}/sub", redirect=True).status == 200
        assert pool.request("POST", f"{server.url}/a.tar", body=b"x" * 100).status == 405
        assert pool.connection_from_url(server.url).num_connections <= 2


def test_our_own_source(server: Server, folder: Path) -> None:
    buffer = bytearray(70_000)
    with open_source(f"{server.url}/a.tar") as source:
        source.read_into(1000, memoryview(buffer))
        assert buffer == DATA[1000:71_000]
        assert source.size() == len(DATA)
        (folder / ".new").write_bytes(DATA)
        (folder / ".new").rename(folder / "a.tar")
        with pytest.raises(ShardChangedError):
            source.read_into(0, memoryview(buffer))
    with open_stream(f"{server.url}/a.tar") as stream:
        got = b"".join(bytes(buffer[:count]) for count in iter(lambda: stream.readinto(memoryview(buffer)), 0))
    assert got == DATA


def test_many_clients_at_once(server: Server) -> None:
    wrong: list[int] = []

    def read(first: int) -> None:
        with urllib3.PoolManager() as pool:
            for at in range(first, first + 40):
                reply = pool.request("GET", f"{server.url}/a.tar", headers={"Range": f"bytes={at}-{at + 99_999}"})
                if reply.data != DATA[at : at + 100_000]:
                    wrong.append(at)

    threads = [threading.Thread(target=read, args=(1000 * each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_was_served_is_told(folder: Path) -> None:
    served: list[Served] = []
    with serve(folder, on_request=served.append) as server:
        with Client(server) as client:
            client.ask("GET", "/a.tar", "Range: bytes=0-9")
            client.ask("HEAD", "/a.tar")
            client.ask("GET", "/none")
    assert [(one.client, one.method, one.path, one.range, one.status) for one in served] == [
        ("127.0.0.1", "GET", "/a.tar", "bytes=0-9", 206),
        ("127.0.0.1", "HEAD", "/a.tar", "", 200),
        ("127.0.0.1", "GET", "/none", "", 404),
    ]
    assert [one.sent for one in served[:2]] == [10, 0]


def test_a_head_that_never_ends_is_cut_off(folder: Path) -> None:
    with serve(folder, limits=Limits(head_s=0.2)) as server, Client(server) as client:
        client.send("GET / HTTP/1.1\r\n")
        assert client.reply().status == 408
        assert client.at_end()


def test_a_client_that_asks_nothing_is_let_go(folder: Path) -> None:
    with serve(folder, limits=Limits(idle_s=0.1)) as server, Client(server) as client:
        assert client.at_end()


def test_a_client_that_takes_nothing_is_let_go(folder: Path) -> None:
    ended = threading.Event()
    with open(folder / "big.tar", "wb") as file:
        file.truncate(1 << 28)
    with (
        serve(folder, limits=Limits(stall_s=0.2), on_request=lambda _: ended.set()) as server,
        Client(server) as client,
    ):
        client.send("GET /big.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ended.wait(20)


def test_the_longest_waiting_client_makes_room(folder: Path) -> None:
    with serve(folder, connections=2) as server:
        with Client(server) as first, Client(server) as second:
            assert first.ask("GET", "/empty.tar").status == 200
            while next(each.spare_since for each in server._open) is None:
                os.sched_yield()  # answered, it does not wait yet: until its thread is back for the next request
            assert second.ask("GET", "/empty.tar").status == 200
            assert get(server, "/a.tar").body == DATA
            assert first.at_end()


def test_no_more_than_so_many_threads(folder: Path) -> None:
    with open(folder / "big.tar", "wb") as file:
        file.truncate(1 << 28)

    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "shardstream-serve-client"}

    before = threads()
    with serve(folder, connections=2) as server:
        with Client(server) as first, Client(server) as second, Client(server) as third:
            for client in (first, second, third):
                client.send("GET /big.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert first.received.readline() == second.received.readline() == b"HTTP/1.1 200 OK\r\n"
            served = threads() - before
            assert len(served) == 2
            first.__exit__()
            assert third.received.readline() == b"HTTP/1.1 200 OK\r\n"
            assert len(threads() - before - served) == 1
            while len(threads() - before) > 2:
                os.sched_yield()  # the one that made room has closed its connection, and ends


def test_closing_ends_everything(folder: Path) -> None:
    before = set(threading.enumerate())
    descriptors = len(os.listdir("/proc/self/fd"))
    server = serve(folder).open()
    idle, busy = Client(server), Client(server)
    assert idle.ask("GET", "/empty.tar").status == 200
    busy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    with open(folder / "big.tar", "wb") as file:
        file.truncate(1 << 28)
    busy.send("GET /big.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert busy.received.readline() == b"HTTP/1.1 200 OK\r\n"
    server.close()
    server.close()
    assert idle.at_end()
    for client in (idle, busy):
        client.__exit__()
    assert set(threading.enumerate()) <= before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_closing_waits_for_threads_that_are_about_to_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget, gate = Server._forget, threading.Event()

    def slow(server: Server, *connection: Any) -> None:
        forget(server, *connection)
        gate.wait(60)

    monkeypatch.setattr(Server, "_forget", slow)
    server = serve(folder).open()
    with Client(server) as client:
        assert client.ask("GET", "/empty.tar").status == 200
        closer = threading.Thread(target=server.close, kwargs={"grace_s": 60.0})
        closer.start()
        assert client.at_end()
        closer.join(0.05)
        waited = closer.is_alive()
        gate.set()
        closer.join()
    assert waited


def test_closing_with_grace_lets_answers_end(folder: Path) -> None:
    with open(folder / "big.tar", "wb") as file:
        file.truncate(1 << 26)
    server = serve(folder).open()
    with Client(server) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.send("GET /big.tar HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line = client.received.readline()
        closer = threading.Thread(target=server.close, kwargs={"grace_s": 60.0})
        closer.start()
        rest = client.received.read()  # to the end of the connection
        closer.join()
    assert len(line + rest) > 1 << 26


def test_a_forked_child_does_not_hold_clients_or_port(folder: Path) -> None:
    server = serve(folder).open()
    with Client(server) as client:
        assert client.ask("GET", "/empty.tar").status == 200
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent says so
            os._exit(0)
        server.close()
        assert client.at_end()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))
        os.close(writing)
        os.close(reading)
        assert os.waitpid(child, 0)[1] == 0


def test_a_network_is_served_when_asked_for(folder: Path) -> None:
    with serve(folder, host="0.0.0.0") as server:
        assert not server.loopback
        assert server.url == f"http://{socket.gethostname()}:{server.port}"
        with Client(server) as client:
            client.send("HEAD /a.tar HTTP/1.1\r\nHost: gpu-7.lab.example.org\r\n\r\n")
            assert client.reply(body=False).status == 200


def test_ipv6(folder: Path) -> None:
    try:
        server = serve(folder, host="::1").open()
    except UsageError:
        pytest.skip("this machine has no IPv6")
    with server:
        assert server.loopback
        assert urllib3.request("GET", f"{server.url}/a.tar").data == DATA


def test_what_cannot_be_served(folder: Path, server: Server) -> None:
    with pytest.raises(UsageError, match="cannot be served: Not a directory"):
        serve(folder / "a.tar").open()
    with pytest.raises(UsageError, match="directory is empty"):
        serve("")
    with pytest.raises(UsageError, match="cannot be served: No such file"):
        serve(folder / "none").open()
    with pytest.raises(UsageError, match=r"cannot be listened at: .*in use.*0 takes a free one"):
        serve(folder, port=server.port).open()
    with pytest.raises(UsageError, match="cannot be listened at"):
        serve(folder, host="no.such.host.invalid").open()
    with pytest.raises(UsageError, match="port is 70000"):
        serve(folder, port=70_000)
    with pytest.raises(UsageError, match="connections is 0"):
        serve(folder, connections=0)

"""What comes from the network: answers of any bytes from a socket, and requests to `wds serve`.

The server sends what it is told to, byte by byte, once a request has come, and closes the connection; the next part is
the answer to the next request. Ways of asking: a stream from the first byte on, a size, ranges, and samples.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import loaders
from tests.fuzz.targets.offline import REMOTE, offline
from tests.fuzz.targets.target import DIVIDER, Target
from tests.wds_tools.tar.archives import archive, contents
from wds_tools.serve.head import BadRequestError, names_of, parse_head
from wds_tools.sources.http import HttpFile, HttpStream
from wds_tools.sources.http import route as routes
from wds_tools.sources.http.pools import close_idle

__all__ = ["TARGETS"]


class RawServer:
    """A server on loopback whose answers are the bytes that were put into `answers`, one a connection."""

    def __init__(self) -> None:
        self.answers: deque[bytes] = deque()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/a.tar"
        threading.Thread(target=self._serve, name="raw-server", daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.settimeout(5)
                heard = b""
                while b"\r\n\r\n" not in heard and (more := connection.recv(65536)):
                    heard += more
                connection.sendall(self.answers.popleft() if self.answers else b"")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # until the client has closed: a reset could overtake the answer
                    pass


@functools.cache
def _server() -> RawServer:
    return RawServer()


def _streamed(url: str) -> int:
    with HttpStream(url, remote=REMOTE) as stream:
        buffer, total = memoryview(bytearray(700)), 0
        while count := stream.readinto(buffer):
            assert 0 < count <= len(buffer)
            total += count
        assert stream.length is None or total >= stream.length
        return total


def _sized(url: str) -> int:
    with HttpFile(url, remote=REMOTE) as file:
        return file.size()


def _ranged(url: str) -> int:
    with HttpFile(url, remote=REMOTE) as file:
        for begin, end in ((0, 20), (10, 40), (600, 1200)):
            file.read_into(begin, memoryview(bytearray(end - begin)))
        return 1


def _sampled(url: str) -> int:
    with loaders.samples(url, remote=REMOTE) as samples:
        return sum(len(contents(sample)) for sample in samples)


_WAYS: tuple[Callable[[str], int], ...] = (_streamed, _sized, _ranged, _sampled)


def answered(data: bytes, folder: Path) -> bool:
    """Whatever a server answers ends in bytes or in one of our errors, in the time that Remote allows."""
    way = _WAYS[(data[0] if data else 0) % len(_WAYS)]
    server = _server()
    server.answers.clear()
    server.answers.extend(data[1:].split(DIVIDER))
    routes._places.clear()
    try:
        with offline():
            return way(server.url) >= 0
    finally:
        close_idle()


def requested(data: bytes, folder: Path) -> bool:
    """A request is understood or refused with a status, and names no file that is hidden or outside."""
    try:
        names, _ = names_of(parse_head(data).path)
    except BadRequestError as error:
        assert 400 <= error.status < 600  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
        return False
    assert not any(name in {"", ".", ".."} or "/" in name or "\0" in name for name in names)
    return True


def _answer(line: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + line, *fields, b"", body])


def _answer_seeds() -> list[bytes]:
    shard = archive([("a.txt", b"x"), ("b.txt", b"y" * 600)])
    long = b"Content-Length: %d" % len(shard)
    etag, date = b'ETag: "v1"', b"Last-Modified: Mon, 02 Nov 2026 10:00:00 GMT"
    whole = _answer(b"200 OK", long, etag, date, body=shard)
    chunks = b"".join(b"%x;e=1\r\n%b\r\n" % (len(each), each) for each in (shard[:700], shard[700:], b""))

    padded = b"".join(b"%08x\r\n%b\r\n" % (len(each), each) for each in (shard[:700], shard[700:]))
    padded += b"000\r\nDigest: none\r\n\r\n"

    def part(begin: int, end: int, total: bytes = b"%d" % len(shard)) -> bytes:
        field = b"Content-Range: bytes %d-%d/%b" % (begin, end - 1, total)
        size = b"Content-Length: %d" % (end - begin)
        return _answer(b"206 Partial Content", field, size, etag, date, body=shard[begin:end])

    moved = _answer(b"302 Found", b"Location: /b.tar", b"Content-Length: 0")
    busy = _answer(b"503 Busy", b"Retry-After: 0", b"Content-Length: 4", body=b"oops")
    later = _answer(b"429 Slow", b"Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", b"Content-Length: 0")
    packed = _answer(b"200 OK", b"Content-Encoding: gzip", body=gzip.compress(shard, mtime=0))
    answers = {
        0: [
            [whole],
            [_answer(b"200 OK", b"Transfer-Encoding: chunked", body=chunks)],
            [_answer(b"100 Continue") + whole],
            [_answer(b"103 Early Hints", b"Link: </x>") + whole],
            [_answer(b"200 OK", b"Transfer-Encoding: chunked", etag, body=padded)],
            [_answer(b"200 OK", b"Transfer-Encoding: chunked", etag, body=padded[:720]), part(0, 1000, b"*"), whole],
            [_answer(b"200 OK", body=shard).replace(b"1.1", b"1.0")],
            [whole[:900], part(700, len(shard))],
            [moved, busy, later, whole],
            [packed],
        ],
        1: [[part(0, 1)], [_answer(b"416 No", b"Content-Range: bytes */%d" % len(shard), b"Content-Length: 0")]],
        2: [
            [part(0, 20), part(10, 40), part(600, 1200)],
            [busy, part(0, 20), part(10, 30), part(30, 40), part(0, 1300)],
        ],
        3: [[whole], [_answer(b"200 OK", b"Transfer-Encoding: chunked", body=chunks)], [whole[:800], whole]],
    }
    return [bytes([way]) + DIVIDER.join(each) for way, many in answers.items() for each in many]


def _request_seeds() -> list[bytes]:
    return [
        b"GET /a%20b/c.tar?x=1 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-9\r\nConnection: close",
        b"HEAD http://host:80/%2e%2e/x HTTP/1.0\r\nContent-Length: 0",
        b"GET / HTTP/1.1\nHost: [::1]:8000\nTransfer-Encoding: chunked",
    ]


TARGETS = (
    Target(name="answers", run=answered, seeds=_answer_seeds, beside=16 << 20),
    Target(name="requests", run=requested, seeds=_request_seeds),
)

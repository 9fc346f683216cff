"""Connections: urllib3's, with three things added.

1. A body is read straight into the caller's memory, by one read of the socket at a time (`readinto1`). urllib3's own
   `readinto` makes a bytes object and copies it, and loops until the buffer is full, so that a trickle never returns.
2. A late answer is asked for a second time, in the same thread: while the first connection waits for its first byte, a
   second one sends the same request; both sockets are watched, and who has something first goes on.
3. A transfer can be cut off by another thread (`Exchange.cut`).

And one thing taken away: a socket's time is for each single byte of a line, of which the standard library reads any
number. So all that is read by lines (heads, a proxy's too, the sizes of chunks, trailers) has to be there in that time
as a whole, and a head or a size that ends without its line's end is no head and no size.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Self

from urllib3.connection import HTTPConnection, HTTPSConnection

__all__ = ["Body", "Connection", "Exchange", "OvertakenError", "SecureConnection", "begin_anew", "exchanging"]

_CHUNK = 1 << 18  # so much is made room for in advance of what one read of a chunk brings
_HEADS = 20  # "100 Continue" and its like, before the answer itself; a server may say it for ever
_LINE = 64 << 10  # of the size of a chunk, with whatever is said behind it
_SIZE = re.compile(rb"[ \t]*[0-9a-fA-F]{1,16}[ \t]*")
_local = threading.local()
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class OvertakenError(Exception):
    """The other of two requests for the same was answered first. Never leaves this package."""


class Exchange:
    """One request and its answer, as seen by the connection that carries it. Entered by the thread that sends it.

    Args:
        late_after: seconds after which `ask_again` is called; None for never.
        ask_again: sends the same request once more, given this exchange as the rival; returns whether that one was
            answered first.
        rival: the exchange that is waiting for the same answer.
    """

    def __init__(
        self,
        *,
        late_after: float | None = None,
        ask_again: Callable[[Exchange], bool] | None = None,
        rival: Exchange | None = None,
    ) -> None:
        self.body: Body | None = None
        self.first_byte_s = 0.0
        self.is_cut = False
        self._late_after = late_after
        self._ask_again = ask_again
        self._rival = rival
        self._socket: socket.socket | None = None  # of TLS within TLS (a proxy by https) the outer one
        self._outer: Exchange | None = None

    def __enter__(self) -> Self:
        self._outer, _local.exchange = getattr(_local, "exchange", None), self
        return self

    def __exit__(self, *exc: object) -> None:
        _local.exchange = self._outer
        self._outer = None

    def cut(self) -> None:
        """End it, from any thread: reads come to an end at once."""
        self.is_cut = True
        if (connection := self._socket) is not None:
            _shut(connection)

    def sent(self, connection: object) -> None:
        """The request is on its way."""
        self._socket = _socket_of(connection)
        if self._socket is not connection:
            self._late_after = None  # what has come is not seen from outside of such a tunnel
        if self.is_cut and self._socket is not None:
            _shut(self._socket)

    @property
    def seconds(self) -> float | None:
        """How long one read of the socket may take."""
        return None if self._socket is None else self._socket.gettimeout()

    def hurry(self, seconds: float) -> None:
        """Let a read of the socket take so long at most; the next request on it sets its own time."""
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def over(self) -> None:
        """The connection is about to serve others: no `cut` may reach it any more."""
        self._socket = None

    def await_first(self, body: Body) -> None:
        """Wait for the answer's first byte, here or at the rival.

        Raises:
            OvertakenError: the rival has it.
        """
        self.body = body
        began = time.monotonic()
        if self._rival is not None:
            self._race(self._rival)
        elif self._is_late() and self._ask_again is not None and self._ask_again(self):
            raise OvertakenError
        if body.fp is not None:
            body.fp.peek(1)
        self.first_byte_s = time.monotonic() - began

    def _is_late(self) -> bool:
        return self._late_after is not None and _first([self], self._late_after) is None

    def _race(self, rival: Exchange) -> None:
        seconds = self._socket.gettimeout() if self._socket is not None else None
        found = _first([rival, self], seconds)
        if found is rival:
            raise OvertakenError
        if found is None:
            raise TimeoutError("neither of two requests is answered")

    def has_come(self) -> bool:
        """Whether something of the answer is there, now that its socket has bytes."""
        if not isinstance(self._socket, ssl.SSLSocket) or self.body is None:
            return True
        # Session tickets come before the answer and make the socket readable: ask for a byte of the answer itself.
        seconds = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            self.body.fp.peek(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            return True  # the answer is that there is none
        finally:
            self._socket.settimeout(seconds)
        return True

    def fileno(self) -> int:
        return -1 if self._socket is None else self._socket.fileno()


def _first(exchanges: list[Exchange], seconds: float | None) -> Exchange | None:
    """The first of them whose answer begins, within so many seconds."""
    ends = None if seconds is None else time.monotonic() + seconds
    waiting = select.poll()
    for exchange in exchanges:
        waiting.register(exchange.fileno(), select.POLLIN)
    while True:
        left = None if ends is None else max(ends - time.monotonic(), 0)
        ready = {number for number, _ in waiting.poll(None if left is None else left * 1000)}
        for exchange in exchanges:
            if exchange.fileno() in ready and exchange.has_come():
                return exchange
        if left == 0:
            return None


def _socket_of(connection: object) -> socket.socket | None:
    """The socket itself, or the one below a layer of urllib3's own."""
    below = connection if isinstance(connection, socket.socket) else getattr(connection, "socket", None)
    return below if isinstance(below, socket.socket) else None


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        # Not SSLSocket's own, which would let a read that goes on have bytes that are still encrypted.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Lines:
    """What is read by lines, which has to be there in a time: the socket's is for each single byte of a trickle."""

    def __init__(self, stream: Any, seconds: float) -> None:
        self.stream = stream
        self._ends = time.monotonic() + seconds

    def readline(self, limit: int) -> bytes:
        line = b""
        while len(line) < limit and not line.endswith(b"\n") and (there := self.stream.peek(1)):
            if time.monotonic() > self._ends:
                raise TimeoutError("a line that trickles")
            count = there.find(b"\n") + 1 or len(there)
            line += self.stream.read(min(count, limit - len(line)))
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Head(_Lines):
    """The same of a head, which ends with an empty line and not with the connection."""

    _begun = False

    def readline(self, limit: int) -> bytes:
        line = super().readline(limit)
        if (line or self._begun) and not line.endswith(b"\n") and len(line) < limit:
            raise http.client.HTTPException("a head that was cut off")
        self._begun = True
        return line


class Body(http.client.HTTPResponse):
    """An answer as the standard library parses it, read without copies."""

    fp: Any
    _heads = 0

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._socket = sock

    def begin(self) -> None:
        exchange = getattr(_local, "exchange", None)
        if exchange is not None:
            exchange.await_first(self)
        with self._by_lines(_Head):
            super().begin()
        coding = self.headers.get("Transfer-Encoding", "identity").strip().lower()
        if not self.chunked and coding not in {"identity", ""}:
            raise http.client.HTTPException("a transfer encoding that nobody asked for")

    @contextlib.contextmanager
    def _by_lines(self, kind: type[_Lines]) -> Iterator[None]:
        """Bound what is read of the connection within the block, all in all, by the time of one read."""
        whole, seconds = self.fp, self._socket.gettimeout()
        if seconds is not None and whole is not None:
            self.fp = kind(whole, seconds)
        try:
            yield
        finally:
            if isinstance(self.fp, _Lines):
                self.fp = whole

    def _read_status(self) -> tuple[str, int, str]:
        self._heads += 1
        if self._heads > _HEADS:
            raise http.client.HTTPException("interim answers without end")
        if not isinstance(self.fp, _Lines) and (seconds := self._socket.gettimeout()) is not None:
            self.fp = _Head(self.fp, seconds)  # of a proxy that makes a tunnel: that is all there is of its answer
        version, status, reason = super()._read_status()  # type: ignore[misc]
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise http.client.HTTPException("another protocol that nobody asked for")
        # All of 1xx come before the answer: taken for it, they would leave it to whoever asks next on this connection.
        return version, HTTPStatus.CONTINUE if status < 200 else status, reason

    def _read_next_chunk_size(self) -> int:
        line = self.fp.readline(_LINE)
        size = line.partition(b";")[0].rstrip(b"\r\n")
        # The standard library takes "-5" for a size, and the zeros with which "00001388" begins where it breaks off.
        if not line.endswith(b"\n") or not _SIZE.fullmatch(size):
            raise http.client.HTTPException("a chunk without its size")
        return int(size, 16)

    def readinto1(self, buffer: Any, /) -> int:
        """Bytes put into the buffer by one read of the socket; 0 at the end of the body, whether it is proven or not.

        Raises:
            http.client.HTTPException: chunks without their end mark.
            OSError: the connection broke, or was silent for too long.
        """
        if self.fp is None:
            return 0
        if self.chunked:
            return self._chunk_into(buffer)
        count: int = self.fp.readinto1(buffer if self.length is None else buffer[: self.length])
        if self.length is not None:
            self.length -= count
        if self.length == 0 or (self.length is None and not count):
            self.close()
        return count

    def _chunk_into(self, buffer: Any) -> int:
        with self._by_lines(_Lines) if not self.chunk_left else contextlib.nullcontext():
            data = self.read1(min(len(buffer), _CHUNK))
        buffer[: len(data)] = data
        if not data:
            self.close()
        return len(data)


class Connection(HTTPConnection):
    """A connection that shows its exchange what becomes of it."""

    response_class = Body

    def connect(self) -> None:
        super().connect()
        if (made := _socket_of(self.sock)) is not None:
            _sockets.add(made)

    def getresponse(self) -> Any:
        exchange = getattr(_local, "exchange", None)
        if exchange is not None:
            exchange.sent(self.sock)
        return super().getresponse()


class SecureConnection(Connection, HTTPSConnection):
    """The same with TLS."""


def exchanging() -> bool:
    """Whether this thread is in one of our exchanges."""
    return getattr(_local, "exchange", None) is not None


def begin_anew() -> None:
    """In a child after a fork: let go of the parent's sockets, without a word to the servers."""
    _local.exchange = None
    for inherited in list(_sockets):
        number = inherited.detach()  # closing the object would wait for a reader that lives in the parent only
        if number >= 0:
            os.close(number)
    _sockets.clear()

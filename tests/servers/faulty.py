"""A web server over real sockets that misbehaves as it is told, and remembers what it was asked.

What it does with a request has two halves. A `Plan` decides the answer: the right one (`well`), or one that ignores the
range, names another version, is a web page. A `Deliver` decides how it travels: whole, cut after so many bytes by a
reset or a plain end, stalled, in a trickle. A `Behaviour` is one of each. A script is a list of behaviours, used up by
the requests to each path in turn; then the server does as `then` says, which is well by default.

    with FaultyServer({"/x.tar": content}, [Behaviour(deliver=resets(100))]) as server:
        ...  # the first request to each path is reset after 100 bytes, all others are answered well

Nothing sleeps to be in step with the client: a stall lasts until the client goes away, and that is what ends it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from tests.servers.replies import (
    Plan,
    Reply,
    Request,
    Stored,
    bare,
    chunked,
    clipped,
    encoded,
    ignoring_range,
    names,
    page,
    says,
    sends_on,
    shifted,
    until_closed,
    well,
)
from wds_tools.sources.http import hosts

__all__ = [
    "Behaviour",
    "Conversation",
    "Deliver",
    "FaultyServer",
    "Plan",
    "Reply",
    "Request",
    "Stored",
    "bare",
    "chunked",
    "clipped",
    "drops",
    "encoded",
    "ends",
    "ignoring_range",
    "names",
    "page",
    "resets",
    "says",
    "sends_on",
    "shifted",
    "stalls",
    "trickles",
    "until_closed",
    "well",
    "whole",
]

Deliver = Callable[["Conversation", Reply], None]


def whole(conversation: Conversation, reply: Reply) -> None:
    """All of it; the connection stays, unless its end is the end of the body."""
    conversation.send(reply)
    if reply.protocol == "HTTP/1.0":
        conversation.end()


def drops(conversation: Conversation, reply: Reply) -> None:
    """A reset in place of an answer."""
    conversation.reset()


def resets(after: int) -> Deliver:
    """So many bytes of the body, then a reset (the client may lose some that it has not read yet)."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=after)
        conversation.reset()

    return deliver


def ends(after: int) -> Deliver:
    """So many bytes of the body, then the end of the connection."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=after)
        conversation.end()

    return deliver


def stalls(after: int | None) -> Deliver:
    """So many bytes of the body (None: not even a head), then silence until the client goes away."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        if after is not None:
            conversation.send(reply, upto=after)
        conversation.await_end()

    return deliver


def trickles(after: int, *, every_s: float = 0.02) -> Deliver:
    """So many bytes at once, the rest one by one."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=after)
        for at in range(after, len(reply.body)):
            if conversation.server.closing.wait(every_s):
                return
            conversation.write(reply.body[at : at + 1])

    return deliver


@dataclass(frozen=True)
class Behaviour:
    """What the server does with one request."""

    plan: Plan = well
    deliver: Deliver = whole


WELL = Behaviour()


@dataclass
class FaultyServer:
    """The server; `with` runs it on a free port of the loopback.

    Attributes:
        objects: what lies where, by path.
        script: what happens to the first requests to each path.
        then: what happens to all later ones.
        routes: paths that have a behaviour of their own, script or not.
        tls: speaks https where given.
        requests: what came, in order.
        connections: how many were made.
    """

    objects: Mapping[str, bytes | Stored] = field(default_factory=dict)
    script: Iterable[Behaviour] = ()
    then: Behaviour = WELL
    routes: dict[str, Behaviour] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    name: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.script = list(self.script)
        self.requests: list[Request] = []
        self.connections = 0
        self.closing = threading.Event()
        self._stored = {path: _as_stored(content) for path, content in self.objects.items()}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        _shut(self._listener)
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)
        for thread in list(self._threads):
            thread.join()
        self._listener.close()
        for origin in [each for each in hosts._hosts if each[2] == self.port]:
            hosts._hosts.pop(origin, None)  # what it asked for (an hour's time) is not for who has its port next

    def url(self, path: str) -> str:
        """Where a path lies."""
        return f"{'https' if self.tls else 'http'}://{self.name}:{self.port}{path}"

    def put(self, path: str, content: bytes | Stored) -> None:
        """Put another object in a place."""
        self._stored[path] = _as_stored(content)

    def ranges(self, path: str) -> list[tuple[int, int | None] | None]:
        """The ranges that a path was asked for, in order."""
        return [request.range for request in self.requests if request.path == path]

    def behaviour(self, request: Request) -> Behaviour:
        """What to do with this request; counts it."""
        with self._lock:
            self.requests.append(request)
            number = self._counts[request.path]
            self._counts[request.path] += 1
        if request.path in self.routes:
            return self.routes[request.path]
        script = list(self.script)
        return script[number] if number < len(script) else self.then

    def stored(self, path: str) -> Stored | None:
        """What lies there."""
        return self._stored.get(path)

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, connection)

    def _serve(self, raw: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.ExitStack() as stack:
            stack.callback(raw.close)
            with self._lock:
                self._sockets.add(raw)
            stack.callback(lambda: self._sockets.discard(raw))
            connection = raw if self.tls is None else stack.enter_context(_secured(raw, self.tls, self._sockets))
            conversation = Conversation(self, connection)
            while not self.closing.is_set() and (request := conversation.hear()) is not None:
                behaviour, stored = self.behaviour(request), self.stored(request.path)
                plan = behaviour.plan if stored is not None or request.path in self.routes else says(404)
                behaviour.deliver(conversation, plan(request, stored or Stored(b"")))

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="faulty-server", daemon=True)
        self._threads.append(thread)
        thread.start()


class Conversation:
    """One connection, as the behaviours see it."""

    def __init__(self, server: FaultyServer, connection: socket.socket) -> None:
        self.server = server
        self._connection = connection
        self._heard = b""

    def hear(self) -> Request | None:
        """The next request; None when the client has gone, or we have."""
        while b"\r\n\r\n" not in self._heard:
            try:
                data = self._connection.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            self._heard += data
        head, _, self._heard = self._heard.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = (line.split(":", 1) for line in lines)
        return Request(method, target, {name.strip().lower(): value.strip() for name, value in pairs})

    def send(self, reply: Reply, *, upto: int | None = None) -> None:
        self.write(reply.head() + reply.body[:upto])

    def write(self, data: bytes) -> None:
        self._connection.sendall(data)

    def end(self) -> None:
        """The end of the stream, in order."""
        _shut(self._connection, socket.SHUT_WR)
        self.await_end()

    def reset(self) -> None:
        """A reset, by closing with unsent data thrown away."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def await_end(self) -> None:
        """Wait until the client closes its side (or the server is closed)."""
        with contextlib.suppress(OSError):
            while self._connection.recv(65536):
                pass
        _shut(self._connection)


def _secured(raw: socket.socket, tls: ssl.SSLContext, sockets: set[socket.socket]) -> ssl.SSLSocket:
    secured = tls.wrap_socket(raw, server_side=True)
    sockets.discard(raw)
    sockets.add(secured)
    return secured


def _as_stored(content: bytes | Stored) -> Stored:
    return content if isinstance(content, Stored) else Stored(content)


def _shut(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, how)

"""A TCP relay that stands for distance and loss: latency each way, a cap on bandwidth, connections cut by a reset.

Every piece that arrives is sent on when its time has come: `latency_s` after it came, and not sooner than the pieces
before it leave room at `bytes_per_s`. Pieces are small, so that the cap is smooth. Waiting for that time is what a
relay is for; nothing else here waits by the clock.

    with Relay(server.port, latency_s=0.02, cut_after=1_000_000) as relay:
        url = f"http://127.0.0.1:{relay.port}/x.tar"
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

__all__ = ["Relay"]

_PIECE = 256 << 10
_UNDER_WAY = 1 << 20  # what a pipe may be asked to hold without privileges: pages, and a page may be a part of 32 KiB


@dataclass
class Relay:
    """The relay; `with` runs it on a free port of the loopback.

    Attributes:
        to: the port on the loopback that it leads to.
        latency_s: seconds that every byte takes, each way.
        bytes_per_s: the most that passes from the server to the client, each connection; None: no cap.
        cut_after: bytes from the server after which a connection is reset; None: never.
        connections: how many were made.
    """

    to: int
    latency_s: float = 0.0
    bytes_per_s: float | None = None
    cut_after: int | None = None

    def __post_init__(self) -> None:
        self.connections = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        _shut(self._listener)
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._lead, client)

    def _lead(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            with self._lock:
                self._sockets |= {client, server}
            try:
                server.connect(("127.0.0.1", self.to))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                up = _Line(client, server, self.latency_s, None, None, self._closing)
                down = _Line(server, client, self.latency_s, self.bytes_per_s, self.cut_after, self._closing)
                threads = [threading.Thread(target=run, daemon=True) for run in (up.take, up.give, down.take)]
                for thread in threads:
                    thread.start()
                down.give()
                for thread in threads:
                    thread.join()
            except OSError:
                return  # the server takes no connections: neither does its relay
            finally:
                with self._lock:
                    self._sockets -= {client, server}


class _Line:
    """One direction of one connection. What is under way lies in a pipe, of which each side closes its end."""

    def __init__(
        self,
        here: socket.socket,
        there: socket.socket,
        latency_s: float,
        bytes_per_s: float | None,
        cut_after: int | None,
        closing: threading.Event,
    ) -> None:
        self._here = here
        self._there = there
        self._latency_s = latency_s
        self._bytes_per_s = bytes_per_s
        self._cut_after = cut_after
        self._closing = closing
        self._pieces: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        self._out, self._in = os.pipe()
        with contextlib.suppress(OSError):  # a user without privileges has so much and no more: then it is 64 KiB
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _UNDER_WAY)

    def take(self) -> None:
        """Take what comes, and note when it is due at the other end; an empty piece is the end."""
        free = 0.0
        count = 1
        arrived = select.poll()
        arrived.register(self._here, select.POLLIN)
        while count:
            arrived.poll()  # splice would wait for bytes, too, but let nobody at the pipe meanwhile
            try:
                count = os.splice(self._here.fileno(), self._in, _PIECE)
            except OSError:  # the connection broke, or nobody gives on any more
                count = 0
            free = max(free, time.monotonic() + self._latency_s)
            if self._bytes_per_s is not None:
                free += count / self._bytes_per_s
            self._pieces.put((free, count))
        os.close(self._in)

    def give(self) -> None:
        """Hand on what is due, until the end or the cut."""
        given, whole = 0, True
        while whole:
            due, count = self._pieces.get()
            if not count:
                os.close(self._out)
                _shut(self._there, socket.SHUT_WR)
                return
            if (early := due - time.monotonic()) > 0:
                self._closing.wait(early)
            if self._cut_after is not None and given + count >= self._cut_after:
                count, whole = self._cut_after - given, False
            given += count
            try:
                while count:
                    count -= os.splice(self._out, self._there.fileno(), count)
            except OSError:
                whole = False
        self._reset()

    def _reset(self) -> None:
        """Let both ends know, and let the taker run dry."""
        os.close(self._out)
        for each in (self._there, self._here):
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _shut(each)
        while self._pieces.get()[1]:
            pass


def _shut(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)

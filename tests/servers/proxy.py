"""A small web proxy: forwards plain requests, makes tunnels for https, and asks for a password where it is told to."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

__all__ = ["Proxy"]


@dataclass
class Proxy:
    """The proxy; `with` runs it on a free port of the loopback. One request each connection, but for tunnels.

    Attributes:
        credentials: the Proxy-Authorization header that it wants; None: lets everybody pass.
        tls: is spoken to by https where given.
        heads: the heads of the requests that came, in order.
    """

    credentials: str | None = None
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.heads: list[str] = []
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        _shut(self._listener)
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)
        for thread in list(self._threads):
            thread.join()
        self._listener.close()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="proxy", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, raw: socket.socket) -> None:
        with raw, socket.socket() as server, contextlib.suppress(OSError):
            client = raw if self.tls is None else self.tls.wrap_socket(raw, server_side=True)
            with self._lock:
                self._sockets |= {client, server}
            self._lead(client, server)

    def _lead(self, client: socket.socket, server: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    return
                head += data
            text = head.decode("latin-1")
            self.heads.append(text)
            if self.credentials is not None and f"proxy-authorization: {self.credentials}".lower() not in text.lower():
                client.sendall(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            method, target, _ = text.split(" ", 2)
            place = urlsplit(f"//{target}" if method == "CONNECT" else target)
            server.connect((place.hostname, place.port))
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Go on\r\n\r\n")
            else:
                path = f"{place.path}?{place.query}" if place.query else place.path
                server.sendall(text.replace(target, path, 1).encode("latin-1"))
            _pump(client, server)


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Hand on what comes from either side, in one thread (TLS takes no two), until one of them ends."""
    while True:
        pending = isinstance(client, ssl.SSLSocket) and client.pending() > 0
        ready = [client] if pending else select.select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

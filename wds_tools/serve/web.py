"""What listens: gives each connection a thread, and ends them all when it is closed.

A thread a connection, since the bodies are sent by the kernel and an idle thread costs some tens of KB. They are
bounded: when all are taken, the connection that has waited longest for a request is ended to make room (clients with
pooled connections open another when they need it), and where none is waiting, new clients wait in the kernel's queue.
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

from wds_tools.errors import UsageError
from wds_tools.serve.answers import Answer
from wds_tools.serve.connection import Connection, Limits, Served
from wds_tools.serve.head import Request

__all__ = ["LOOPBACK", "WebServer"]

LOOPBACK = "127.0.0.1"
_BACKLOG = 256
_ALL_ADDRESSES = "0.0.0.0"  # nosec B104  # noqa: S104 - only compared with what the caller asked for
_FULL_WAIT_S = 0.1  # then it is looked again whether a connection can be spared, if none has ended before


class WebServer:
    """Answers requests from `open` (or `with`) to `close`.

    Args:
        host: the address to listen at.
        port: the port to listen at, 0 for one that is free.
        respond: from a request, and whether only this machine is served, to the answer or a BadRequestError; called
            from several threads.
        connections: the most clients at once.
        limits: seconds that a client may take.
        on_request: called after each request, from several threads.

    Raises:
        UsageError: options that cannot be.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        respond: Callable[[Request, bool], Answer],
        connections: int = 256,
        limits: Limits | None = None,
        on_request: Callable[[Served], object] | None = None,
    ) -> None:
        if not 0 <= port <= 65_535:
            raise UsageError(f"port is {port}, expected 0 to 65535")
        if connections < 1:
            raise UsageError(f"connections is {connections}, expected at least 1")
        self._host = host
        self._port = port
        self._respond = respond
        self._most = connections
        self._limits = limits or Limits()
        self._on_request = on_request
        self._listener: socket.socket | None = None
        self._loopback = True
        self._acceptor: threading.Thread | None = None
        self._wake: socket.socket | None = None
        self._changed = threading.Condition()
        self._open: dict[Connection, tuple[socket.socket, threading.Thread]] = {}
        self._closing = False

    def open(self) -> Self:
        """Listen from now on.

        Raises:
            UsageError: an address that is not this machine's, a port that is taken.
        """
        if self._listener is not None:
            return self
        self._listener = _listen(self._host, self._port)
        self._port = self._listener.getsockname()[1]
        self._loopback = ipaddress.ip_address(self._listener.getsockname()[0]).is_loopback
        self._closing = False
        ours, self._wake = socket.socketpair()
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener, ours), name="shardstream-serve", daemon=True
        )
        self._acceptor.start()
        return self

    @property
    def host(self) -> str:
        """The address that is listened at."""
        return self._host

    @property
    def port(self) -> int:
        """The port that is listened at; where 0 was asked for, known from `open` on."""
        return self._port

    @property
    def loopback(self) -> bool:
        """Whether only this machine is served."""
        return self._loopback

    @property
    def url(self) -> str:
        """Such as http://127.0.0.1:8000, without a slash at the end; names this machine where all its addresses are."""
        host = socket.gethostname() if self._host in {_ALL_ADDRESSES, "::"} else self._host
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    def close(self, *, grace_s: float = 0.0) -> None:
        """Stop listening, let answers that are under way go on for `grace_s`, and end all. Twice does nothing."""
        if self._listener is None or self._wake is None or self._acceptor is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._wake.send(b"x")  # not its end, which a forked process would keep open
        self._acceptor.join()
        self._wake.close()
        _shut(self._listener)
        self._listener.close()
        self._listener = self._wake = self._acceptor = None
        with self._changed:
            threads = [thread for _, thread in self._open.values()]  # all of them, also those that end meanwhile
            for connection in self._open:
                connection.finish()
        deadline = time.monotonic() + grace_s
        with self._changed:
            while self._open and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            for sock, _ in self._open.values():
                _shut(sock)
        for thread in threads:
            thread.join()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(woken, select.POLLIN)
        listener.setblocking(False)
        with woken:
            while not self._closing:
                poll.poll()
                if self._make_room():
                    self._accept_one(listener)

    def _accept_one(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors, or the client is gone again
            with self._changed:
                self._end_a_spare_one()
                self._changed.wait(_FULL_WAIT_S)
            return
        sock.setblocking(True)
        connection = Connection(
            sock,
            str(address[0]),
            respond=lambda request: self._respond(request, self._loopback),
            limits=self._limits,
            on_request=self._on_request,
        )
        thread = threading.Thread(
            target=self._run, args=(connection, sock), name="shardstream-serve-client", daemon=True
        )
        with self._changed:
            self._open[connection] = (sock, thread)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            self._forget(connection, sock)

    def _run(self, connection: Connection, sock: socket.socket) -> None:
        try:
            connection.run()
        finally:
            self._forget(connection, sock)

    def _forget(self, connection: Connection, sock: socket.socket) -> None:
        # Under the lock, so that a number which the system gives to another socket is never shut down.
        with self._changed:
            del self._open[connection]
            _shut(sock)
            sock.close()
            self._changed.notify_all()

    def _make_room(self) -> bool:
        """Wait until one more connection may be had; False where the server closes meanwhile."""
        with self._changed:
            while not self._closing and len(self._open) >= self._most:
                self._end_a_spare_one()
                self._changed.wait(_FULL_WAIT_S)
            return not self._closing

    def _end_a_spare_one(self) -> None:
        now, found = time.monotonic(), list(self._open)
        spare = [(at, place) for place, each in enumerate(found) if (at := each.spare_since) is not None and at <= now]
        if spare:
            found[min(spare)[1]].finish()


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        what = f"{host}:{port} cannot be listened at: {error.strerror or error}"
        raise UsageError(what, cure="Take another port (0 takes a free one), or an address of this machine.") from error


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)

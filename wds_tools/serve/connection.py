"""One client's connection: heads in, answers out, until either side ends it or time is up.

A head has to come within `head_s` of its first byte, so that a client that sends a byte at a time holds a thread for
that long and no longer. Between requests the server may end the connection to make room. An answer is cut off when the
client takes nothing of it for `stall_s`; clients that stop for longer take it up again with a range.

A body is sent by the kernel (sendfile), outside Python's lock. A file that shrinks while it is sent ends the connection
short of the stated length, which every client notices.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from wds_tools.serve.answers import Answer, answer_error
from wds_tools.serve.head import MOST_BYTES, BadRequestError, Request, parse_head

__all__ = ["Connection", "Limits", "Served"]

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_MORE = getattr(socket, "MSG_MORE", 0)
"""The head waits for the first bytes of the body, and leaves in one packet with them."""
NEW_S = 1.0
"""For a first request, before a client that has just come may be ended to make room for the next."""
_AT_ONCE = 1 << 30
_COPY_BYTES = 1 << 20
_NO_SENDFILE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
_LINGER_S = 2.0
_LINGER_BYTES = 1 << 20


class Served(NamedTuple):
    """One answered request, for logs and tests."""

    client: str
    method: str
    path: str
    range: str
    """The Range field, empty where there was none."""
    status: int
    sent: int
    """Bytes of the body that were sent: less than the answer stated where the client went away."""


class Limits(NamedTuple):
    """Seconds that a client may take."""

    idle_s: float = 75.0
    """Without a request; nginx's figure."""
    head_s: float = 10.0
    """From a head's first byte to its last."""
    stall_s: float = 60.0
    """Without taking a byte of its answer; nginx's figure."""


class _Ended(Exception):  # noqa: N818 - no error, but how connections end
    """Either side has ended the connection."""


class Connection:
    """Speaks with one client on an accepted socket.

    Args:
        sock: blocking; closed by whoever accepted it.
        client: its address, for logs.
        respond: from a request to its answer, or a BadRequestError; from this connection's thread.
        limits: seconds that the client may take.
        on_request: called after each request, from this connection's thread.
    """

    def __init__(
        self,
        sock: socket.socket,
        client: str,
        *,
        respond: Callable[[Request], Answer],
        limits: Limits,
        on_request: Callable[[Served], object] | None,
    ) -> None:
        self.spare_since: float | None = time.monotonic() + NEW_S
        """Since when it may be ended to make room for another; None while a request is answered."""
        self._sock = sock
        self._client = client
        self._respond = respond
        self._limits = limits
        self._on_request = on_request
        self._finishing = False
        self._received = b""

    def finish(self) -> None:
        """End when the answer that is under way has been sent, at once if there is none. From any thread."""
        self._finishing = True
        if self.spare_since is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        """Answer requests until the connection ends. Never raises for what a client or the network does."""
        with contextlib.suppress(_Ended, OSError):
            fraction, seconds = math.modf(self._limits.stall_s)
            stall = struct.pack("ll", int(seconds), int(fraction * 1e6))
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, stall)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._one_request():
                pass
            self._linger()

    def _one_request(self) -> bool:
        """Answer the next request. Returns whether another may follow."""
        if self.spare_since is None:
            self.spare_since = time.monotonic()
        if self._finishing:
            raise _Ended
        request = None
        try:
            head = self._next_head()
            self.spare_since = None
            request = parse_head(head)
            answer = self._respond(request)
        except BadRequestError as error:
            self.spare_since = None
            answer = answer_error(error)
        # A body is not read, so what follows one is no request.
        keep = request is not None and request.keep_alive and not request.has_body and not self._finishing
        with answer:
            self._send(request, answer, keep=keep)
        return keep

    def _next_head(self) -> bytes:
        deadline = time.monotonic() + (self._limits.head_s if self._received else self._limits.idle_s)
        while True:
            self._received = self._received.lstrip(b"\r\n")  # RFC 9112 section 2.2
            if (match := _HEAD_END.search(self._received)) and match.start() <= MOST_BYTES:
                head = self._received[: match.start()]
                self._received = self._received[match.end() :]
                return head
            if len(self._received) > MOST_BYTES:
                raise BadRequestError(431, f"the head is larger than {MOST_BYTES:,} bytes")
            begun = bool(self._received)
            self._receive(deadline)
            if not begun:
                deadline = min(deadline, time.monotonic() + self._limits.head_s)

    def _receive(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            if self._received:
                raise BadRequestError(408, "the request took too long")
            raise _Ended
        data = self._sock.recv(MOST_BYTES)
        if not data:
            raise _Ended
        self._received += data

    def _send(self, request: Request | None, answer: Answer, *, keep: bool) -> None:
        body = request is None or request.method != "HEAD"
        sent = 0
        try:
            self._sock.sendall(_head(answer, keep=keep), _MORE if body and (answer.page or answer.length) else 0)
            if body and answer.descriptor is None:
                self._sock.sendall(answer.page)
                sent = len(answer.page)
            elif body and answer.descriptor is not None:
                for count in self._send_file(answer.descriptor, answer.first, answer.length):
                    sent += count
        finally:
            if self._on_request is not None:
                self._on_request(_served(self._client, request, answer.status, sent))

    def _send_file(self, descriptor: int, first: int, length: int) -> Iterator[int]:
        """Send a part of the file; yields the bytes of each step."""
        send = self._by_kernel
        while length:
            try:
                count = send(descriptor, first, length)
            except OSError as error:
                if send == self._by_copy or error.errno not in _NO_SENDFILE:
                    raise
                send = self._by_copy  # some file systems in user space
                continue
            if not count:
                raise _Ended  # the file shrank
            first += count
            length -= count
            yield count

    def _by_kernel(self, descriptor: int, first: int, length: int) -> int:
        return os.sendfile(self._sock.fileno(), descriptor, first, min(length, _AT_ONCE))

    def _by_copy(self, descriptor: int, first: int, length: int) -> int:
        data = os.pread(descriptor, min(length, _COPY_BYTES), first)
        self._sock.sendall(data)
        return len(data)

    def _linger(self) -> None:
        """Let the client read the last answer: closing with bytes unread would reset the connection under it."""
        self.spare_since = time.monotonic()
        self._sock.shutdown(socket.SHUT_WR)
        deadline, taken = time.monotonic() + _LINGER_S, 0
        while taken < _LINGER_BYTES:
            self._received = b""
            self._receive(deadline)
            taken += len(self._received)


def _head(answer: Answer, *, keep: bool) -> bytes:
    fields = [("Date", formatdate(usegmt=True)), *answer.fields, ("X-Content-Type-Options", "nosniff")]
    fields.append(("Connection", "keep-alive" if keep else "close"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode("latin-1")


def _served(client: str, request: Request | None, status: int, sent: int) -> Served:
    if request is None:
        return Served(client=client, method="", path="", range="", status=status, sent=sent)
    return Served(
        client=client,
        method=request.method,
        path=request.path,
        range=request.fields.get("range", ""),
        status=status,
        sent=sent,
    )

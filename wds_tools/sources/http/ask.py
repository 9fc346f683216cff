"""One request, and what came of it: the border where errors of urllib3, ssl and sockets become ours.

What may pass is a `Fault`; what cannot (a certificate that does not match, a host that nobody knows and that never
answered here) is raised as an error. Statuses are not judged here.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Self

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sources.http.addressing import bare, origin
from wds_tools.sources.http.connections import Body, Exchange, OvertakenError
from wds_tools.sources.http.hosts import host
from wds_tools.sources.http.pools import manager
from wds_tools.sources.http.rate import Meter
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.options import Remote

__all__ = ["Answer", "ask"]

_DRAINED = 16 << 10  # what is sooner read than a new connection made: the pages with redirects and errors
_DRAIN_S = 0.5  # if it comes; a connection is worth no more waiting
_SECOND_CONNECT_S = 1.0  # while it connects, nobody looks at the first
_NONE = urllib3.Retry(total=False, redirect=False)  # which is ours to do
_BROKEN = (OSError, http.client.HTTPException, HTTPError)


class Answer:
    """The head of an answer, and its body as it arrives. Closed by its owner; what is read to its end is used again.

    Attributes:
        status: 200, 206, 404 ...
        headers: by name, whatever the case.
        url: what was asked, user and password left out.
    """

    def __init__(self, url: str, response: urllib3.BaseHTTPResponse, exchange: Exchange, remote: Remote) -> None:
        if exchange.body is None:
            response.close()
            raise TypeError("urllib3 no longer reads its answers with http.client")
        self.url = url
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._body: Body = exchange.body
        self._is_measured = bool(self._body.chunked) or self._body.length is not None  # not of a length that is none
        self._exchange = exchange
        self._meter = Meter(remote)
        self._ahead = b""
        self._failed = False

    @property
    def proves_its_end(self) -> bool:
        """Whether a cut can be told from the end: by a length, or by the mark after the last chunk."""
        return self._is_measured

    @property
    def ended(self) -> bool:
        """Whether the body has been read to its end, rather than broken off; without a proof the end is what it is."""
        return self._body.fp is None or self._body.length is None

    def peek(self, count: int) -> bytes:
        """The first bytes of the body, which stay to be read; fewer than `count` where it ends before."""
        while len(self._ahead) < count:
            piece = bytearray(count - len(self._ahead))
            read = self._read(memoryview(piece))
            if not read:
                break
            self._ahead += piece[:read]
        return self._ahead[:count]

    def readinto(self, buffer: memoryview) -> int:
        """Bytes put into the buffer by one read of the socket; 0 at the end, proven or not.

        Raises:
            Fault: the connection broke, was silent, too slow, or cut off.
        """
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            return count
        return self._read(buffer)

    def _read(self, buffer: memoryview) -> int:
        try:
            return self._read_once(buffer)
        except Fault:
            self._failed = True  # the rest would be as slow
            raise

    def _read_once(self, buffer: memoryview) -> int:
        began = time.monotonic()
        try:
            count = self._body.readinto1(buffer)
        except TimeoutError as error:
            raise Fault("the server has stopped sending") from error
        except _BROKEN as error:
            raise Fault(f"the transfer broke off ({_said(error)})") from error
        if self._exchange.is_cut:
            raise Fault("the transfer was cut off")
        if self._body.fp is not None and self._meter.too_slow(time.monotonic() - began, count):
            raise Fault("the server sends too slowly")
        return count

    def close(self) -> None:
        """Give the connection back, to be used again where the body has been read or its rest is short."""
        drained = self._drained()
        self._exchange.over()
        if drained and not self._exchange.is_cut:
            self._response.release_conn()
        else:
            self._response.close()

    def _drained(self) -> bool:
        left, ends = self._body.length, time.monotonic() + _DRAIN_S
        if self._failed or self._exchange.is_cut:
            return False
        if self._body.fp is not None and left is not None and left <= _DRAINED:
            rest = memoryview(bytearray(left))
            try:
                while self._body.fp is not None and (seconds := ends - time.monotonic()) > 0:
                    self._exchange.hurry(seconds)
                    if not self._body.readinto1(rest):
                        break
            except _BROKEN:
                return False
        return self._body.fp is None and self._body.length in {None, 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def ask(
    url: str,
    headers: Mapping[str, str],
    remote: Remote,
    *,
    watch: Callable[[Exchange], None] | None = None,
) -> Answer:
    """GET, once; a second time where the answer is late (`hosts.Host.late_after`).

    Args:
        url: what to ask for; user, password and fragment stay here.
        headers: all of them.
        remote: its times.
        watch: gets each exchange before it begins, to cut it off when need be.

    Raises:
        Fault: it may go better next time.
        UnavailableError: it will not.
        UsageError: no address that can be asked.
    """
    place = host(origin(url))
    second: list[Answer] = []

    def once(exchange: Exchange, connect_s: float) -> Answer:
        if watch is not None:
            watch(exchange)
        timeout = urllib3.Timeout(connect=connect_s, read=remote.stall_s)
        response = _response(url, headers, timeout, exchange)
        place.answered(exchange.first_byte_s, good=response.status < 400)
        return Answer(bare(url), response, exchange, remote)

    def ask_again(rival: Exchange) -> bool:
        try:
            answer = once(Exchange(rival=rival), min(remote.connect_s, _SECOND_CONNECT_S))
        except (OvertakenError, Fault, UnavailableError):
            return False
        if answer.status >= 400:  # the first may still do better
            answer.close()
            return False
        second.append(answer)
        return True

    try:
        return once(Exchange(late_after=place.late_after(), ask_again=ask_again), remote.connect_s)
    except OvertakenError:
        return second[0]


def _response(
    url: str, headers: Mapping[str, str], timeout: urllib3.Timeout, exchange: Exchange
) -> urllib3.BaseHTTPResponse:
    target = bare(url)
    try:
        with exchange:
            return manager(origin(url)).urlopen(
                "GET",
                target,
                headers=dict(headers),
                timeout=timeout,
                retries=_NONE,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
    except (LocationValueError, LocationParseError, UnicodeError) as error:
        raise UsageError("this is no address that can be asked", url=url) from error
    except SSLError as error:
        raise _insecure(error, url) from error
    except NameResolutionError as error:
        raise _nameless(error, url) from error
    except _BROKEN as error:
        raise _broken(error, origin(url)[1]) from error


def _insecure(error: SSLError, url: str) -> Exception:
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UnavailableError(
            f"the server's certificate is not trusted: {cause.verify_message}",
            url=url,
            cure="SSL_CERT_FILE names the certificates of a private authority",
        )
    return Fault(f"TLS failed ({_said(error)})")


def _nameless(error: NameResolutionError, url: str) -> Exception:
    name, cause = origin(url)[1], error.__cause__
    unknown = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME
    if unknown and not host(origin(url)).reached:
        return UnavailableError(f"there is no host called {name}", url=url, cure="Check its name")
    return Fault(f"the name {name} cannot be looked up")


def _broken(error: BaseException, name: str) -> Fault:
    if isinstance(error, ProxyError):
        return Fault("the proxy cannot be reached or refuses", cure="See HTTP_PROXY, HTTPS_PROXY and NO_PROXY")
    if isinstance(error, NewConnectionError):  # to urllib3 a kind of ConnectTimeoutError
        return Fault(f"no connection to {name} ({_said(error)})")
    if isinstance(error, ConnectTimeoutError):
        return Fault(f"{name} does not take the connection in time")
    if isinstance(error, (ReadTimeoutError, TimeoutError)):
        return Fault(f"{name} does not answer in time")
    return Fault(f"the connection broke before the answer ({_said(error)})")


def _said(error: BaseException) -> str:
    """What went wrong, in the words of the innermost error: the outer ones repeat addresses."""
    while True:
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), error.__cause__)
        if inner is None or inner is error:
            break
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    plain = type(error) is http.client.HTTPException or not isinstance(error, http.client.HTTPException)
    return (str(error) if plain else "") or type(error).__name__

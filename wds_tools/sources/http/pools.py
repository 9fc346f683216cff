"""The pools of this process: one for each way to a host, kept between requests.

A child process never uses, and never shuts down, what its parent had open: it closes its copies of the descriptors, for
a server sees the end of a connection only when nobody has it open any more. The queue of idle connections has no lock,
since a thread of the parent might have held it.

Idle connections are kept for 30 s, less than what servers and address translators keep them; `close_idle` closes them.
Proxies are those of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`; on macOS and Windows of the
system). Certificates are checked against the system's authorities, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`;
what `REQUESTS_CA_BUNDLE`, else `CURL_CA_BUNDLE`, names is trusted too (conda sets the former two by itself).
"""

from __future__ import annotations

import logging
import os
import queue
import ssl
import threading
import time
import urllib.request
from collections import deque
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import make_headers

from wds_tools.errors import UsageError
from wds_tools.sources.http.addressing import Origin
from wds_tools.sources.http.connections import Connection, SecureConnection, begin_anew, exchanging

__all__ = ["close_idle", "manager"]

_IDLE_S = 30.0
_HOSTS = 256


class _Idle:
    """Idle connections, last in first out. Neither lock nor bound: there are as many as requests were at once."""

    def __init__(self, _maxsize: int = 0) -> None:
        self._kept: deque[tuple[float, Connection]] = deque()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ARG002, FBT001, FBT002 - a queue's
        while self._kept:
            try:
                since, connection = self._kept.pop()
            except IndexError:
                break  # another thread was first
            if time.monotonic() - since < _IDLE_S:
                return connection
            connection.close()
        raise queue.Empty

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002, FBT001, FBT002
        if item is not None:
            self._kept.append((time.monotonic(), item))

    def qsize(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        while self._kept:
            try:
                _, connection = self._kept.pop()
            except IndexError:
                break  # another thread was first
            connection.close()


class _Pool(HTTPConnectionPool):
    ConnectionCls = Connection
    QueueCls = _Idle  # type: ignore[assignment]  # it takes what get, put and qsize do


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = SecureConnection
    QueueCls = _Idle  # type: ignore[assignment]  # it takes what get, put and qsize do


_managers: dict[tuple[str, str | None], urllib3.PoolManager] = {}
_by_origin: dict[Origin, urllib3.PoolManager] = {}
_making = threading.Lock()


def manager(of: Origin) -> urllib3.PoolManager:
    """The pools for requests to an origin: those of its scheme and of the proxy that leads there, if any."""
    found = _by_origin.get(of)
    if found is None:
        with _making:
            way = of[0], _proxy(*of)  # looking through the environment takes 0.1 ms: once for each host
            found = _by_origin[of] = _managers.get(way) or _managers.setdefault(way, _manager(*way))
    return found


def close_idle() -> None:
    """Close the connections of this process that nobody uses now. Later requests make new ones."""
    with _making:
        managers = list(_managers.values())
        _managers.clear()
        _by_origin.clear()
    for each in managers:
        for key in each.pools.keys():  # noqa: SIM118 - urllib3's refuses to be iterated
            # A pool by itself closes them when it is collected, and the traceback of an error may hold it until then.
            idle: Any = getattr(each.pools.get(key), "pool", None)
            if isinstance(idle, _Idle):
                idle.close()
        each.clear()


def _manager(scheme: str, proxy: str | None) -> urllib3.PoolManager:
    context = _context() if scheme == "https" else None
    made: urllib3.PoolManager
    if proxy is None:
        made = urllib3.PoolManager(num_pools=_HOSTS, ssl_context=context)
    else:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme not in {"http", "https"}:
            raise UsageError(f"a proxy by {parts.scheme} cannot be used", cure="Set one that speaks http")
        user, _, place = parts.netloc.rpartition("@")
        made = urllib3.ProxyManager(
            urlunsplit((parts.scheme, place, "", "", "")),
            num_pools=_HOSTS,
            proxy_headers=make_headers(proxy_basic_auth=unquote(user)) if user else None,
            proxy_ssl_context=_context() if parts.scheme == "https" else None,
            ssl_context=context,
        )
    made.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return made


def _proxy(scheme: str, host: str, port: int) -> str | None:
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    return proxy if proxy and not urllib.request.proxy_bypass(f"{host}:{port}") else None


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    own = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    if own:
        try:
            context.load_verify_locations(*((None, own) if os.path.isdir(own) else (own,)))  # noqa: PTH112
        except OSError as error:
            raise UsageError(
                f"the certificates in {own} cannot be read: {error.strerror or error}",
                cure="REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE name a PEM file, or a folder of them",
            ) from error
    return context


def _begin_anew() -> None:
    global _making  # noqa: PLW0603 - a thread that does not exist here may hold it
    _making = threading.Lock()
    begin_anew()
    _managers.clear()
    _by_origin.clear()


class _Discreet(logging.Filter):
    """Lets urllib3 keep to itself what it would log of our requests: it shows whole urls, with their signatures."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not exchanging()


os.register_at_fork(after_in_child=_begin_anew)
for _name in ("urllib3.connectionpool", "urllib3.connection"):
    logging.getLogger(_name).addFilter(_Discreet())

"""One request to a store: within its place in the queue, tried again while that may help, errors in our words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from wds_tools.errors import ShardstreamError, UnavailableError
from wds_tools.sources.fsspec.refusals import is_busy, refusal
from wds_tools.sources.fsspec.systems import System, system_of
from wds_tools.sources.http.hosts import Host, host, pause
from wds_tools.sources.http.retry import Fault, Retry
from wds_tools.sources.options import Remote

__all__ = ["ask", "host_of", "within"]

T = TypeVar("T")


def ask(
    url: str,
    remote: Remote,
    request: Callable[[System, str], T],
    *,
    offset: int | None = None,
    closed: Callable[[], bool] = lambda: False,
) -> T:
    """What `request` returns, given the file system of `url` and its path there.

    Args:
        url: what is asked for.
        remote: how often and how long.
        request: one attempt. It may raise a Fault to be called again.
        offset: for the error.
        closed: whether the caller has gone.

    Raises:
        ShardMissingError: nothing lies there.
        UnavailableError: permission, or the network, after all retries.
        UsageError: nobody knows the scheme, or its package is missing.
    """

    def wait(seconds: float) -> None:
        pause(seconds, closed)
        if closed():
            raise UnavailableError("the file is not open", url=url)

    place, system = host_of(url), replace(system_of(url, remote), closed=closed)
    retry = Retry(remote, url, wait)
    while True:
        try:
            with place.slot(remote.in_flight, retry.left(), closed) as waited:
                retry.waited(waited)
                if closed():
                    raise UnavailableError("the file is not open", url=url, offset=offset)
                answer = _once(url, system, request, place, remote)
        except Fault as fault:
            retry.again(fault, offset=offset)
        except ShardstreamError as error:
            error.at(url=url, offset=offset)
            raise
        else:
            place.answered(0.0, good=True)
            return answer


def host_of(url: str) -> Host:
    """What this process knows of the store, each bucket by itself: how many requests it takes, whether it is busy."""
    kind, _, rest = url.partition("://")
    return host((kind.lower(), rest.partition("/")[0], 0))


def within(remote: Remote, count: int) -> float:
    """Seconds after which a request for so many bytes is ended: at the least rate that is put up with."""
    return remote.connect_s + remote.stall_s + count / remote.minimum_rate


def _once(url: str, system: System, request: Callable[[System, str], T], place: Host, remote: Remote) -> T:
    try:
        return request(system, system.path(url))
    except Exception as error:  # the libraries behind fsspec raise what they like
        if is_busy(error):
            place.refused(None, remote.in_flight)
        found = refusal(error, url)
        if found is error:
            raise
        raise found from error

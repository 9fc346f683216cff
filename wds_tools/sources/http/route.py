"""The way from an address to the server that has the bytes.

Redirects are followed here, ten at most, and where they led is remembered: hubs and signing services send each request
on to a store, and asking them once for a shard is what they allow. When the remembered place refuses (400, 401, 403,
404, 410: its signature has expired, or the object moved), the address itself is asked once more. What belongs to the
address's host (`auth.py`) goes nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wds_tools.errors import UnavailableError
from wds_tools.sources.http.addressing import led_to, origin
from wds_tools.sources.http.ask import Answer, ask
from wds_tools.sources.http.auth import headers_for
from wds_tools.sources.http.connections import Exchange
from wds_tools.sources.http.hosts import Host, host
from wds_tools.sources.http.refusals import LIMITING, refusal
from wds_tools.sources.http.retry import Fault
from wds_tools.sources.options import Remote

__all__ = ["Route"]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_EXPIRED = frozenset({400, 401, 403, 404, 410})
_MOST = 10


class Route:
    """How one address is asked. Used by any thread: all that changes is the remembered place, in one step.

    Args:
        url: the address.
        remote: how it is asked.
    """

    def __init__(self, url: str, remote: Remote) -> None:
        self._url = url
        self._remote = remote
        self._place: str | None = None

    @property
    def host(self) -> Host:
        """The host that the next request goes to."""
        return host(origin(self._place or self._url))

    def ask(
        self, headers: Mapping[str, str], *, hedge: bool = False, watch: Callable[[Exchange], None] | None = None
    ) -> Answer:
        """The answer (200, 206 or 416) to a request with these headers beside the usual ones; the caller closes it.

        Raises:
            Fault: it may go better next time.
            ShardMissingError, UnavailableError, UsageError: it will not.
        """
        for at in [self._place, self._url] if self._place is not None else [self._url]:
            answer, place = self._follow(at, headers, hedge=hedge, watch=watch)
            if at != self._url and answer.status in _EXPIRED:
                answer.close()
                self._place = None
                continue
            break
        if answer.status in {200, 206, 416}:
            self._place = None if place == self._url else place
            return answer
        with answer:
            raise self._refused(answer, place)

    def _follow(
        self, at: str, headers: Mapping[str, str], *, hedge: bool, watch: Callable[[Exchange], None] | None
    ) -> tuple[Answer, str]:
        for _ in range(_MOST + 1):
            every = headers_for(self._url, at, self._remote) | dict(headers)
            answer = ask(at, every, self._remote, hedge=hedge, watch=watch)
            location = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or location is None:
                return answer, at
            with answer:
                at = led_to(at, location)
        raise UnavailableError(f"more than {_MOST} redirects", url=self._url, cure="They seem to go round in a circle")

    def _refused(self, answer: Answer, place: str) -> Exception:
        error = refusal(answer.status, answer.headers, self._url)
        if answer.status in LIMITING and isinstance(error, Fault):
            host(origin(place)).refused(error.wait, self._remote.in_flight)
        return error

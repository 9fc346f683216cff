"""The way from an address to the server that has the bytes.

Redirects are followed here, ten at most, and where they led is remembered, for the whole process: hubs and signing
services send each request on to a store, and asking them once for a shard is what they allow. `Remote.sign` stands in
for such a service. When the remembered place refuses (400, 401, 403, 404, 410: its signature has expired, or the object
moved), the address itself is asked once more. What belongs to the address's host (`auth.py`) goes nowhere else.
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
_REMEMBERED = 4096

# By address and by whose headers it was found: what one user's token was given is not for a request without it. The
# value holds them, so that their ids stay theirs. Filled and emptied in single steps, without a lock.
_places: dict[tuple[str, int, int], tuple[object, str]] = {}


class Route:
    """How one address is asked, by any thread.

    Args:
        url: the address.
        remote: how it is asked.
    """

    def __init__(self, url: str, remote: Remote) -> None:
        self._url = url
        self._remote = remote
        self._found_by = remote.headers, remote.sign
        self._key = url, id(remote.headers), id(remote.sign)

    @property
    def host(self) -> Host:
        """The host that the next request goes to."""
        return host(origin(self._place or self._url))

    @property
    def limited(self) -> bool:
        """Whether the address's host, or the one that it led to, has asked for fewer requests lately."""
        return self.host.limited or host(origin(self._url)).limited

    def ask(self, headers: Mapping[str, str], *, watch: Callable[[Exchange], None] | None = None) -> Answer:
        """The answer (200, 206 or 416) to a request with these headers beside the usual ones; the caller closes it.

        Raises:
            Fault: it may go better next time.
            ShardMissingError, UnavailableError, UsageError: it will not.
        """
        begin = self._place
        answer, place = self._follow(begin or self._begin(), headers, watch)
        if begin is not None and answer.status in _EXPIRED:
            answer.close()
            _places.pop(self._key, None)
            answer, place = self._follow(self._begin(), headers, watch)
        if answer.status in {200, 206, 416}:
            self._remember(place)
            return answer
        with answer:
            raise self._refused(answer, place)

    @property
    def _place(self) -> str | None:
        return _places.get(self._key, (None, None))[1]

    def _remember(self, place: str) -> None:
        if place not in {self._url, self._place}:
            if len(_places) >= _REMEMBERED:
                _places.clear()
            _places[self._key] = self._found_by, place

    def _begin(self) -> str:
        return self._url if self._remote.sign is None else self._remote.sign(self._url)

    def _follow(
        self, at: str, headers: Mapping[str, str], watch: Callable[[Exchange], None] | None
    ) -> tuple[Answer, str]:
        for _ in range(_MOST + 1):
            every = headers_for(self._url, at, self._remote) | dict(headers)
            answer = ask(at, every, self._remote, watch=watch)
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

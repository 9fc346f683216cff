"""What this process knows of each host: how many requests it takes at once, whether it said so, how soon it answers.

`Remote.in_flight` ranges are asked for at once from a host. Each 429 or 503 halves that number, once in a second, and
answers raise it again by one a round: additive increase, multiplicative decrease (Chiu and Jain 1989), which shares a
host between ranks that know nothing of each other. When the host names a time (Retry-After) all requests of the
process wait for it, not only the one that was told.

One condition wakes everybody who waits here, and is made anew in a child process, as is all of this: locks and
connections of a parent are of no use after a fork.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wds_tools.sources.http.retry import Fault

__all__ = ["Host", "host", "pause", "wake"]

_LATELY_S = 600.0
_HALVED_EVERY_S = 1.0
_TIMED = 64
_TIMED_AT_LEAST = 8
_LATE_TIMES = 4.0
_LATE_S = 1.0

Origin = tuple[str, str, int]


class Host:
    """One host, as this process has met it.

    Attributes:
        reached: whether it has ever answered.
    """

    def __init__(self) -> None:
        self.reached = False
        self._busy = 0
        self._allowed = float("inf")
        self._limited_at = -float("inf")
        self._not_before = 0.0
        self._first_bytes: deque[float] = deque(maxlen=_TIMED)

    @property
    def limited(self) -> bool:
        """Whether it said 429 or 503 in the last ten minutes."""
        return time.monotonic() - self._limited_at < _LATELY_S

    @contextmanager
    def slot(self, limit: int, patience: float, closed: Callable[[], bool]) -> Iterator[float]:
        """Hold one of the places for requests; gives the seconds that were waited for it.

        Args:
            limit: places that the caller's Remote allows.
            patience: seconds that a time named by the host may lie ahead.
            closed: says when to give up waiting.

        Raises:
            Fault: the host has asked for more time than that.
        """
        began = time.monotonic()
        with _waiting:
            # Asked for once a round: a time that ends between two looks would be waited for without an end.
            while (ahead := self._ahead()) > 0 or self.is_full(limit):
                if ahead > patience:
                    raise Fault("the host has asked for time", wait=ahead)
                if closed():
                    break
                _waiting.wait(ahead or None)  # who holds a place says when it is given back
            self._busy += 1
        try:
            yield time.monotonic() - began
        finally:
            with _waiting:
                self._busy -= 1
                _waiting.notify_all()

    def is_full(self, limit: int) -> bool:
        """Whether as many requests are under way as the host takes, or as `limit` says."""
        return self._busy >= max(1, int(min(limit, self._allowed)))

    def answered(self, seconds: float, *, good: bool) -> None:
        """Note an answer, whose first byte came after so many seconds."""
        self.reached = True
        if not good:
            return
        self._first_bytes.append(seconds)
        if self._allowed != float("inf"):
            with _waiting:
                self._allowed += 1 / self._allowed
                _waiting.notify_all()

    def refused(self, wait: float | None, limit: int) -> None:
        """Note a 429 or 503, and the time that the host asks for."""
        now = time.monotonic()
        with _waiting:
            if now - self._limited_at >= _HALVED_EVERY_S:
                self._allowed = max(min(limit, self._allowed) / 2, 1.0)
            self._limited_at = now
            if wait is not None:
                self._not_before = max(self._not_before, now + wait)

    def late_after(self) -> float | None:
        """Seconds after which an answer is late: four times the median, at least one; None where nobody can say."""
        if len(self._first_bytes) < _TIMED_AT_LEAST or self.limited:
            return None
        usual = sorted(self._first_bytes.copy())[len(self._first_bytes) // 2]
        return max(_LATE_TIMES * usual, _LATE_S)

    def _ahead(self) -> float:
        return max(self._not_before - time.monotonic(), 0.0)


_waiting = threading.Condition()
_hosts: dict[Origin, Host] = {}


def host(of: Origin) -> Host:
    """The one Host of this process for (scheme, host, port)."""
    return _hosts.get(of) or _hosts.setdefault(of, Host())


def pause(seconds: float, closed: Callable[[], bool]) -> None:
    """Wait so long, or until `closed` says so after a `wake`."""
    with _waiting:
        _waiting.wait_for(closed, seconds)


def wake() -> None:
    """Let all who wait here look at what has changed."""
    with _waiting:
        _waiting.notify_all()


def _begin_anew() -> None:
    global _waiting  # noqa: PLW0603 - the parent's lock may be held by a thread that does not exist here
    _waiting = threading.Condition()
    _hosts.clear()


os.register_at_fork(after_in_child=_begin_anew)

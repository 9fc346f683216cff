"""How often, and after which wait, what failed is tried again.

A `Fault` is a failure that may pass: a broken connection, a short body, a status such as 503. Waits double from 0.25 s
up to 30 s, each drawn evenly between nothing and that ("full jitter", as in AWS's architecture blog, 2015: of the ways
of drawing it spreads a crowd of clients best). A server that says when to come back is obeyed, plus a little jitter.

Two bounds end it: `attempts` failures in a row, and `give_up_s` seconds, both counted since the transfer last advanced.
A transfer that advances may break any number of times, for it comes to an end. An attempt has advanced when it kept the
minimum rate over the time that it took (and a second at least), so trickles and single bytes do not count. Where
an attempt brought 64 KiB and then broke, the next one begins at once: on a line that cuts every few MB waiting would
only lose time. A wait that would go past `give_up_s` is not begun.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from wds_tools.errors import UnavailableError, counted
from wds_tools.sources.options import Remote

__all__ = ["Fault", "Retry", "retry_after"]

_FIRST_S = 0.25
_LONGEST_S = 30.0
_SPREAD_S = 0.25
_AT_ONCE = 64 << 10

_chance = random.SystemRandom()  # holds no state: nothing to seed after a fork, and no user's `random.seed` is touched


class Fault(Exception):  # noqa: N818 - a signal between these modules, never seen outside
    """What may be tried again. Never leaves this package.

    Attributes:
        problem: what happened, one sentence without a full stop.
        wait: seconds that the server asks for.
        cure: what helps when it happens again and again.
    """

    def __init__(self, problem: str, *, wait: float | None = None, cure: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.wait = wait
        self.cure = cure


def retry_after(text: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, in either form; None where it is missing or nonsense.

    >>> retry_after("3", 0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 20.0), retry_after("soon", 0.0)
    (3.0, 40.0, None)
    """
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # of numbers beyond any calendar
        return None
    # A date without zone ("-0000") comes back naive: HTTP's are UTC, whatever they say.
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max((moment - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0)


class Retry:
    """The patience for one transfer.

    Args:
        remote: its bounds.
        url: for the error.
        pause: waits so many seconds; may raise when the source is closed meanwhile.
    """

    def __init__(self, remote: Remote, url: str, pause: Callable[[float], None]) -> None:
        self._remote = remote
        self._url = url
        self._pause = pause
        self._failures = 0
        self._since = self._began = time.monotonic()

    def left(self) -> float:
        """Seconds until it is given up, if nothing advances."""
        return self._since + self._remote.give_up_s - time.monotonic()

    def waited(self, seconds: float) -> None:
        """Take out of the account what was spent in the queue of our own requests."""
        self._since += seconds
        self._began += seconds

    def advanced(self, brought: int, *, offset: int | None = None) -> None:
        """An attempt has gone well and brought so many bytes, and the transfer goes on.

        Raises:
            UnavailableError: attempts go well and bring too little, for as long as it may take without advancing.
        """
        now = time.monotonic()
        if brought and brought >= self._remote.minimum_rate * (now - self._began):
            self._advance()
        elif self.left() <= 0:
            raise self._given_up(Fault("the server sends too little at a time, and too slowly"), 0.0, offset)
        self._began = now

    def _advance(self) -> None:
        self._failures = 0
        self._since = self._began = time.monotonic()

    def again(self, fault: Fault, *, brought: int = 0, offset: int | None = None) -> None:
        """Return when it is time for the next attempt.

        Args:
            fault: how this attempt failed.
            brought: the bytes that it brought before.
            offset: the next byte, for the error.

        Raises:
            UnavailableError: that was the last one.
        """
        if brought >= self._remote.minimum_rate * max(1.0, time.monotonic() - self._began):
            self._advance()
        self._failures += 1
        wait = self._wait(fault, brought)
        if self._failures >= self._remote.attempts or wait > self.left():
            raise self._given_up(fault, wait, offset) from fault.__cause__
        if wait > 0:
            self._pause(wait)
        self._began = time.monotonic()

    def _wait(self, fault: Fault, brought: int) -> float:
        if fault.wait is not None:
            return fault.wait + _chance.uniform(0, _SPREAD_S)
        if brought >= _AT_ONCE and self._failures == 1:
            return 0.0
        return _chance.uniform(0, min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures - 1, 30)))

    def _given_up(self, fault: Fault, wait: float, offset: int | None) -> UnavailableError:
        lasted = self._remote.give_up_s - self.left()
        tried = f"{counted(self._failures, 'attempt')} in {lasted:.1f} s"
        asked = f", and the server asks for {wait:,.0f} s more" if fault.wait is not None and wait > self.left() else ""
        return UnavailableError(
            f"{fault.problem}; given up after {tried}{asked}",
            url=self._url,
            offset=offset,
            cure=fault.cure
            or "Check the server and the network; Remote(attempts=, give_up_s=) say how long it is tried",
        )

"""When a transfer is too slow to be waited for.

A socket's timeout ends a silence, but a byte now and then keeps it content for ever. So the seconds spent waiting on
the socket are added up with what they brought; a window of `stall_s` such seconds below `minimum_rate` ends the
transfer, after at most two windows. The caller's own time between two reads does not count.
"""

from __future__ import annotations

from wds_tools.sources.options import Remote

__all__ = ["Meter"]


class Meter:
    """Bytes over the seconds that were spent waiting for them."""

    def __init__(self, remote: Remote) -> None:
        self._rate = remote.minimum_rate
        self._window = remote.stall_s
        self._seconds = 0.0
        self._bytes = 0

    def too_slow(self, seconds: float, count: int) -> bool:
        """Whether the window that `count` bytes after `seconds` of waiting complete was below the minimum rate."""
        self._seconds += seconds
        self._bytes += count
        if self._seconds < self._window:
            return False
        slow = self._bytes < self._rate * self._seconds
        self._seconds, self._bytes = 0.0, 0
        return slow

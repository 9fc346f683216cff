"""Writes that go on while the next samples are made: one thread, in order, and no more than a few behind.

What it does must leave the GIL alone for most of its time, as hashing and writing a MiB do: then whoever hands it over
gets a core of its own, and what is handed over is large enough that handing over costs nothing.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Behind"]

MOST = 2
"""Calls that wait or run at once; with writes of a MiB so much memory."""


class Behind:
    """Calls of one file, done by a thread that several files may share.

    Args:
        thread: an executor with one thread.
    """

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._pending: deque[Future[object]] = deque()

    def add(self, call: Callable[[], object]) -> None:
        """Have the call done behind those before it; waits where too many are.

        Raises:
            Exception: what an earlier call raised; this one will not be done then, and of those between none or some.
        """
        while self._pending and (len(self._pending) >= MOST or self._pending[0].done()):
            self._take()
        self._pending.append(self._thread.submit(call))

    def settle(self) -> None:
        """Wait until all are done, and raise as `add`. Twice does nothing."""
        while self._pending:
            self._take()

    def drop(self) -> None:
        """Do none that has not begun, and wait for the one that has. Never raises."""
        for pending in self._pending:
            pending.cancel()
        while self._pending:
            with contextlib.suppress(BaseException):
                self._pending.popleft().result()

    def _take(self) -> None:
        try:
            self._pending[0].result()
        except BaseException:
            self.drop()
            raise
        self._pending.popleft()

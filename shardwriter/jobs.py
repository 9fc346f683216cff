"""Many small pieces of work by a few threads: results in order, ahead by so many items and bytes and no more.

Threads, not processes: what is worth doing in parallel (waiting for a disk or a network, decoding, resizing, encoding)
runs without the GIL, and a process would have to copy every picture through a pipe. What is left where bytes stay as
they are, opening and reading 107 KB that lie in the page cache and a look at the header, mostly needs the GIL: threads
at that only take turns, and cost more than they bring. The one that calls does it faster alone, while another writes
(shardwriter.behind). With a resize it is the other way round.

So nobody has to know: `in_order` tries both, the calling thread and all others, for a moment, goes on with the faster,
and tries again after twice as long. It begins with what the caller takes to be the better, and tries the other only
after two seconds: a run of a second would be half of it a trial. What comes out is the same either way.

Items are handed to threads in chunks of about a MiB of results, since a hand-over costs as much as a small picture. A
chunk whose results grow beyond four is cut, and its rest is done again as a chunk of its own: so no more is held than
(2 x jobs + 4) x (4 MiB + one result), whatever comes along.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from wds_tools.cores import usable_cores
from wds_tools.errors import UsageError

__all__ = ["Width", "check_jobs", "in_order"]

I = TypeVar("I")  # noqa: E741 - the item
R = TypeVar("R")

CHUNK_ITEMS = 32
CHUNK_BYTES = 1 << 20
MOST_BYTES = 1 << 22
"""At which a chunk is cut."""
FIRST_SECONDS, TRIAL_SECONDS = 2.0, 0.25
LONG_SECONDS, LONGEST_SECONDS = 5.0, 600.0


def check_jobs(jobs: int | None) -> int:
    """How many threads: as many as the process may use cores where nobody says.

    Raises:
        UsageError: less than one.
    """
    if jobs is None:
        return usable_cores()
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UsageError(f"jobs is {jobs!r}, expected an int of 1 or more, or None for all usable cores")
    return jobs


def in_order(
    work: Callable[[Sequence[I]], Iterable[R]],
    items: Iterable[I],
    *,
    jobs: int,
    size: Callable[[R], int],
    light: bool = False,
) -> Generator[R, None, None]:
    """What `work` makes of items, one result each, by `jobs` threads, a little ahead of the caller.

    Args:
        work: called with a few items that follow each other, from any thread; yields their results one by one, or only
            the first ones where it is not asked for more. What it raises comes out at the place of these items and ends
            all.
        items: taken from the calling thread.
        jobs: 1 works in the calling thread; more are threads beside it.
        size: about how many bytes a result holds in memory.
        light: whether the calling thread is likely to do it as fast as all others: that is tried first then.

    Yields:
        The results. To be closed (contextlib.closing) where it is not exhausted: no thread is left then.
    """
    items = iter(items)
    if jobs == 1:
        while chunk := list(islice(items, CHUNK_ITEMS)):
            yield from work(chunk)
        return
    ahead = _Ahead(work, items, Width(jobs, time.perf_counter(), light=light), size)
    try:
        while (results := ahead.next()) is not None:
            yield from results
    finally:
        ahead.close()


class _Deferred(Generic[R]):
    """Like a Future, of what the thread does that asks for the result."""

    def __init__(self, work: Callable[[], R]) -> None:
        self.result = work

    def cancel(self) -> None:
        """Nobody has begun."""


class _Task(NamedTuple, Generic[I, R]):
    future: Future[list[R]] | _Deferred[list[R]]
    items: Sequence[I]
    phase: int


class _Ahead(Generic[I, R]):
    """The tasks that are begun and not yet fetched, in order."""

    def __init__(
        self, work: Callable[[Sequence[I]], Iterable[R]], items: Iterator[I], width: Width, size: Callable[[R], int]
    ) -> None:
        self._work = work
        self._items = items
        self._size = size
        self._width = width
        self._mean = float(CHUNK_BYTES)  # the first chunks are of one item, until it is known how large they are
        self._tasks: deque[_Task[I, R]] = deque()
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def next(self) -> list[R] | None:
        """The results of the next chunk, or a part of it; None at the end."""
        self._fill()
        if not self._tasks:
            return None
        task = self._tasks.popleft()
        results = task.future.result()
        if rest := task.items[len(results) :]:
            self._tasks.appendleft(self._begin(rest, task.phase))
        self._mean = max(1.0, 0.7 * self._mean + 0.3 * sum(map(self._size, results)) / len(results))
        self._width.fetched(task.phase, len(results), time.perf_counter())
        return results

    def close(self) -> None:
        """Drop what has not begun, and wait for the threads."""
        for task in self._tasks:
            task.future.cancel()
        for pool in self._pools.values():
            pool.shutdown(wait=True)

    def _fill(self) -> None:
        while len(self._tasks) < self._width.ahead:
            chunk = list(islice(self._items, max(1, min(CHUNK_ITEMS, int(CHUNK_BYTES / self._mean)))))
            if not chunk:
                return
            self._tasks.append(self._begin(chunk, self._width.begun(time.perf_counter())))

    def _begin(self, items: Sequence[I], phase: int) -> _Task[I, R]:
        threads = self._width.threads
        if not threads:
            return _Task(_Deferred(lambda: _do(self._work, items, self._size)), items, phase)
        if threads not in self._pools:
            self._pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="shardstream-pack")
        return _Task(self._pools[threads].submit(_do, self._work, items, self._size), items, phase)


def _do(work: Callable[[Sequence[I]], Iterable[R]], items: Sequence[I], size: Callable[[R], int]) -> list[R]:
    """The results of the first items: of all of them, or until they are too many bytes."""
    results: list[R] = []
    held = 0
    for result in work(items):
        results.append(result)
        held += size(result)
        if held >= MOST_BYTES:
            break
    return results


class Width:
    """How many threads to use beside the calling one, none or all, by trying both.

    A phase is a time with one number of threads. Its speed is taken behind its first chunks, which were begun under the
    phase before. Two short phases that try are followed by a long one with the better; each time that the same one
    wins, the next long phase is twice as long, so that trying costs less and less.

    Args:
        jobs: all threads, at least 2.
        now: seconds, as for `begun`.
        light: begin with none, not with all.
    """

    def __init__(self, jobs: int, now: float, *, light: bool = False) -> None:
        self._tried = (0, jobs) if light else (jobs, 0)
        self.threads = self._tried[0]
        """For the chunks that begin now."""
        self._phase = 0
        self._since = now
        self._chunks = 0
        self._long = LONG_SECONDS / 2
        self._winner = self.threads
        self._rates: dict[int, float] = {}
        self._measured = _Measured(0, self.ahead)

    @property
    def ahead(self) -> int:
        """How many chunks to have begun: two a thread, and some for the caller to take."""
        return 2 * self.threads + 4

    def begun(self, now: float) -> int:
        """Count a chunk that begins now; the phase that it belongs to."""
        trial = TRIAL_SECONDS if self._phase else FIRST_SECONDS
        lasts = self._long if self._phase % 3 == 2 else trial
        if self._chunks >= 3 * self.ahead and now - self._since >= lasts:
            self._turn(now)
        self._chunks += 1
        return self._phase

    def fetched(self, phase: int, items: int, now: float) -> None:
        """Count a chunk that the caller has got.

        Args:
            phase: as `begun` said.
            items: results that it had.
            now: seconds.
        """
        if phase == self._measured.phase:
            self._measured.add(items, now)

    def _turn(self, now: float) -> None:
        if self._phase % 3 < 2:
            self._rates[self.threads] = self._measured.rate
        self._phase += 1
        self.threads = (*self._tried, self._better())[self._phase % 3]
        self._since, self._chunks = now, 0
        self._measured = _Measured(self._phase, self.ahead)

    def _better(self) -> int:
        if self._phase % 3 == 2:
            best = max(self._tried, key=self._rates.__getitem__)
            self._long = min(2 * self._long, LONGEST_SECONDS) if best == self._winner else LONG_SECONDS
            self._winner = best
        return self._winner


class _Measured:
    """The speed of one phase."""

    def __init__(self, phase: int, skip: int) -> None:
        self.phase = phase
        self._skip = skip
        self._items = 0
        self._began = 0.0
        self._now = 0.0

    def add(self, items: int, now: float) -> None:
        if self._skip:
            self._skip -= 1
            self._began = now
        else:
            self._items += items
            self._now = now

    @property
    def rate(self) -> float:
        return self._items / (self._now - self._began) if self._now > self._began else 0.0

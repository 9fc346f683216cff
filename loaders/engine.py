"""Jobs in, finished jobs out in the same order, made by a pool of threads in between. Knows nothing of pictures.

    feeder ──chunks──► decode threads ──last chunk──► finish ──► take()

One feeder thread draws jobs from an iterator, never more than `ahead` beyond the one the caller has, and cuts each
into chunks. The decode threads take chunks in order; whoever finishes a job's last chunk finishes the job and wakes
the consumer, once a batch and not once a chunk: measured, that alone took the cost in Python from 22 to 7
microseconds a sample. The threads outlive the iterator, so the first jobs of an epoch are made while the last ones of
the epoch before are consumed.

A thread never dies of an error: it is kept in the job, and raised by `take` when that job's turn comes.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from loaders.threads import begun
from wds_tools.errors import UnavailableError, UsageError

__all__ = ["Engine", "Job", "Observer", "Span", "closed_meanwhile"]


class Job(Protocol):
    """What the engine moves. A job may have no slots at all; it is finished all the same."""

    chunk: int  # slots per chunk
    error: BaseException | None

    @property
    def slots(self) -> int: ...

    def finish(self) -> None:
        """Called once, when all chunks are made, by the thread that made the last."""
        ...


J = TypeVar("J", bound=Job)
S = TypeVar("S")
J_contra = TypeVar("J_contra", contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class Span(NamedTuple):
    """From when to when, in seconds of `time.perf_counter`."""

    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


class Observer(Protocol[J_contra, S_contra]):
    """Told what was done, by the thread that did it, right after.

    Called once a chunk and twice a batch, by several threads at once. What it raises ends the iteration.
    """

    def planned(self, job: J_contra, span: Span) -> None:
        """The feeder drew a job."""

    def worked(self, job: J_contra, low: int, high: int, state: S_contra, span: Span) -> None:
        """A decode thread made slots [low, high)."""

    def finished(self, job: J_contra, span: Span) -> None:
        """A decode thread finished a job."""

    def taken(self, job: J_contra, span: Span, ready: int) -> None:
        """The caller asked for a job and got it; so many were finished when it asked."""


class _Entry(Generic[J]):
    """A job on its way."""

    __slots__ = ("done", "job", "left", "run")

    def __init__(self, job: J, run: _Run[J], chunks: int) -> None:
        self.job = job
        self.run = run
        self.left = chunks
        self.done = False


class _Run(Generic[J]):
    """One iterator of jobs being worked off; dropped as a whole when another begins."""

    def __init__(self, jobs: Iterator[J], ahead: int) -> None:
        self.jobs = jobs
        # A queue of permits and not a semaphore: `put` may be called by a finalizer, at any moment, in any thread.
        self.room: queue.SimpleQueue[bool] = queue.SimpleQueue()
        for _ in range(ahead):
            self.room.put(True)
        self.changed = threading.Condition()
        self.entries: deque[_Entry[J]] = deque()
        self.exhausted = False
        self.error: BaseException | None = None
        self.dropped = False
        self.feeder: threading.Thread | None = None


class Engine(Generic[J, S]):
    """A pool of decode threads that turns jobs into finished jobs, in order.

    Args:
        work: makes slots [low, high) of a job, given the thread's own state.
        state: makes one thread's state.
        threads: decode threads.
        ahead: jobs that may be begun and not yet taken.
        observer: is told what is done.
    """

    def __init__(
        self,
        work: Callable[[J, int, int, S], None],
        state: Callable[[], S],
        *,
        threads: int,
        ahead: int,
        observer: Observer[J, S] | None = None,
    ) -> None:
        self._work = work
        self._state = state
        self._threads_wanted = threads
        self._ahead = ahead
        self._observer = observer
        self._chunks: queue.SimpleQueue[tuple[_Entry[J], int, int] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._run: _Run[J] | None = None
        self._closed = False
        self._process: int | None = None

    def start(self, jobs: Iterator[J]) -> None:
        """Work off these jobs from now on; what was begun of others is dropped.

        Raises:
            UsageError: the engine is closed, or was begun in another process, or the caller is a thread of it.
            UnavailableError: the machine begins no more threads. It may be tried again.
        """
        if self._closed:
            raise UsageError("the loader is closed", cure="Make a new one.")
        self._check_process()
        self.check_thread()
        self._drop()
        while len(self._threads) < self._threads_wanted:
            name = f"shardstream-decode-{len(self._threads)}"
            self._threads.append(begun(threading.Thread(target=self._serve, name=name, daemon=True)))
        run = self._run = _Run(jobs, self._ahead)
        run.feeder = threading.Thread(target=self._feed, args=(run,), name="shardstream-feed", daemon=True)
        try:
            begun(run.feeder)
        except UnavailableError:
            self._run = None
            raise

    def take(self) -> J:
        """The next job, when it is finished.

        Raises:
            StopIteration: there are no more.
            UsageError: called by a thread of the engine, or dropped by another thread meanwhile.
            BaseException: what went wrong while this job was planned or made.
        """
        run = self._run
        if run is None:
            if self._closed:
                raise closed_meanwhile()
            raise StopIteration
        self._check_process()
        self.check_thread()
        begun = time.perf_counter()
        with run.changed:
            ready = sum(entry.done for entry in run.entries)
            while not (run.entries and run.entries[0].done):
                if run.dropped:
                    raise closed_meanwhile()
                if not run.entries and run.exhausted:
                    if run.error is not None:
                        raise _raisable(run.error)
                    raise StopIteration
                run.changed.wait()
            if run.dropped:  # its jobs pass through the threads unmade
                raise closed_meanwhile()
            job = run.entries.popleft().job
        run.room.put(True)
        if job.error is not None:
            raise _raisable(job.error)
        if self._observer is not None:
            self._observer.taken(job, Span(begun, time.perf_counter()), ready)
        return job

    def close(self) -> None:
        """End all threads and wait for them; twice does nothing."""
        self.check_thread()
        threads, self._threads = self._threads, []
        self._closed = True
        self._drop()
        for _ in threads:
            self._chunks.put(None)
        for thread in threads:
            thread.join()

    def abandon(self) -> None:
        """Tell all threads to end, without waiting and without a lock: safe in a finalizer, in any thread."""
        self._closed = True
        if self._run is not None:
            self._run.dropped = True
            self._run.room.put(False)
        for _ in self._threads:
            self._chunks.put(None)

    def check_thread(self) -> None:
        """Raise UsageError where the caller is a thread of the engine, which would wait for itself for ever."""
        current, run = threading.current_thread(), self._run
        if current in self._threads or (run is not None and current is run.feeder):
            raise UsageError(
                "the loader is iterated or closed by a thread of its own, as from inside its transform= or collate=",
                cure="Do it where its batches are used; a transform may use another loader.",
            )

    def _drop(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.dropped = True
        run.room.put(False)
        if run.feeder is not None:
            run.feeder.join()
        with run.changed:  # entries and their run hold each other: batches made ahead would wait for the collector
            run.entries.clear()
            run.changed.notify_all()

    def _check_process(self) -> None:
        if self._process not in (None, os.getpid()):
            raise UsageError(
                "the loader was begun in another process, and threads do not cross a fork",
                cure="Make the loader in the process that iterates it.",
            )
        self._process = os.getpid()

    def _feed(self, run: _Run[J]) -> None:
        try:
            while True:
                if not run.room.get() or run.dropped:
                    return
                begun = time.perf_counter()
                job = next(run.jobs, None)
                if job is None:
                    return
                if self._observer is not None:
                    self._observer.planned(job, Span(begun, time.perf_counter()))
                self._enqueue(job, run)
        except BaseException as error:  # noqa: BLE001 - kept, and raised where the consumer stands
            run.error = error
        finally:
            with run.changed:
                run.exhausted = True
                run.changed.notify_all()

    def _enqueue(self, job: J, run: _Run[J]) -> None:
        lows = range(0, job.slots, job.chunk)
        entry = _Entry(job, run, max(1, len(lows)))
        with run.changed:
            run.entries.append(entry)
        for low in lows or (0,):
            self._chunks.put((entry, low, min(low + job.chunk, job.slots)))

    def _serve(self) -> None:
        state: S | None = None
        while (chunk := self._chunks.get()) is not None:
            entry, low, high = chunk
            del chunk
            job = entry.job
            try:
                if low < high and job.error is None and not entry.run.dropped:
                    state = state if state is not None else self._state()
                    begun = time.perf_counter()
                    self._work(job, low, high, state)
                    if self._observer is not None:
                        self._observer.worked(job, low, high, state, Span(begun, time.perf_counter()))
            except BaseException as error:  # noqa: BLE001 - kept, and raised where the consumer stands
                job.error = job.error or error
            self._made(entry)
            del entry, job  # or an idle thread would keep its last batch's memory from being used again

    def _made(self, entry: _Entry[J]) -> None:
        with entry.run.changed:
            entry.left -= 1
            if entry.left:
                return
        try:
            if entry.job.error is None and not entry.run.dropped:
                begun = time.perf_counter()
                entry.job.finish()
                if self._observer is not None:
                    self._observer.finished(entry.job, Span(begun, time.perf_counter()))
        except BaseException as error:  # noqa: BLE001 - kept, and raised where the consumer stands
            entry.job.error = error
        with entry.run.changed:
            entry.done = True
            entry.run.changed.notify_all()


def _raisable(error: BaseException) -> BaseException:
    """The error, where it is none that would pass for the end of the jobs."""
    if not isinstance(error, StopIteration):
        return error
    stopped = RuntimeError("StopIteration was raised while a batch was planned or made")
    stopped.__cause__ = error
    return stopped


def closed_meanwhile() -> UsageError:
    """What an iteration raises whose engine was closed under it."""
    return UsageError(
        "the loader was closed or begun anew by another thread while it was iterated",
        cure="End the iteration first, or let one thread do both.",
    )

"""Remote shards: fetched ahead of the plan by a few threads, handed to the decode threads sample by sample.

    schedule ──announce──► Wanted (queue, claims) ──► fetch threads ──► bytes, or an extent in the cache on disk
                                                                             │
    decode threads ──Claim.data()── waits, if it is not there yet ◄──────────┘

`Remote.in_flight` threads ask for one range each. Without a cache on disk the bytes are held in memory, within
`prefetch_bytes`, until the last sample of them was decoded. With one, fetching ahead means that the cache has the
extents before they are read, by this process or by another one of the machine; what the cache does not take (it is
full) is held in memory as without.

A decode thread that needs what is not there waits, and what it waits for goes to the front of the queue. That is
counted. An error is kept, and raised by the claim of each sample that needed these bytes: in its batch's turn, like one
of decoding.

A run of the plan (until the loader is moved) has one `Ahead`; when the next one begins, what is queued of the old one
is dropped, and the requests that are under way come to nothing. The threads serve one run after the other. `stop` ends
them: sources are closed, which ends what waits for the network, and every claim raises.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from loaders.engine import closed_meanwhile
from loaders.spare import Spare
from loaders.threads import begun
from loaders.wanted import Extent, Request, Spot, Wanted
from wds_tools.errors import ShardstreamError

__all__ = ["Ahead", "Claim", "Fetcher", "Traffic"]


class Shard(Protocol):
    """What is needed of an open shard; a `Source` is one."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer from `offset` on, or raise."""
        ...


@dataclass
class Traffic:
    """What was fetched so far.

    Attributes:
        requests: ranges asked for, of the host or of the cache on disk, not counting what was tried again.
        bytes: that came.
        wait_seconds: thread seconds in which decode threads waited for them.
    """

    requests: int = 0
    bytes: int = 0
    wait_seconds: float = 0.0


class Fetcher:
    """The threads that fetch, for one run of the plan after the other.

    Args:
        source_of: the open shard of a number; called by any thread.
        threads: how many ranges are asked for at a time.
        budget: bytes that may be held in memory.
    """

    def __init__(self, source_of: Callable[[int], Shard], *, threads: int, budget: int) -> None:
        self.traffic = Traffic()
        self.lock = threading.RLock()
        self.work = threading.Condition(self.lock)  # something to fetch, or room for it
        self.settled = threading.Condition(self.lock)  # a request has ended
        self._source_of = source_of
        self._count = threads
        self._budget = budget
        self._threads: list[threading.Thread] = []
        self._run: Ahead | None = None
        self._stopped = False
        self._spare = Spare()

    def begin(self) -> Ahead:
        """A new run of the plan; the one before it is dropped."""
        wanted = Wanted(budget=self._budget)
        wanted.let_go = lambda memory: self._spare.give(memory, room=self._budget - wanted.held)
        ahead = Ahead(self, wanted)
        with self.lock:
            if self._run is not None:
                self._run.dropped = True
            self._run = ahead
            ahead.dropped = self._stopped
            self.settled.notify_all()
        return ahead

    def wake(self) -> None:
        """Begin what is queued. Called with the lock held."""
        while len(self._threads) < self._count and not self._stopped:
            name = f"shardstream-fetch-{len(self._threads)}"
            self._threads.append(begun(threading.Thread(target=self._serve, name=name, daemon=True)))
        self.work.notify()

    def stop(self) -> None:
        """Let the threads end, and all who wait for bytes raise. Does not wait, and may be called twice."""
        self._stopped = True  # before the lock is had: a thread that looks next ends
        with self.lock:
            if self._run is not None:
                self._run.dropped = True
            self.work.notify_all()
            self.settled.notify_all()

    def abandon(self) -> None:
        """As `stop`, without a lock: for a finalizer, which may run in a thread that holds it."""
        self._stopped = True
        if self._run is not None:
            self._run.dropped = True

    def join(self) -> None:
        """Wait for the threads to end, after `stop`."""
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            ahead, request = work
            data, error = None, None
            try:
                data = self._fetched(request.spot)
            except BaseException as caught:  # noqa: BLE001 - kept, and raised where the bytes are needed
                error = caught
            with self.lock:
                ahead.wanted.settle(request, data=data, error=error)
                self.settled.notify_all()
            del work, ahead, request, data, error  # or an idle thread would hold the last bytes

    def _next(self) -> tuple[Ahead, Request] | None:
        with self.lock:
            while not self._stopped:
                run = self._run
                request = run.wanted.take() if run is not None and not run.dropped else None
                if run is not None and request is not None:
                    self.work.notify()  # there may be more, and another thread that is idle
                    return run, request
                # Not for ever: a finalizer says that it is over without the lock, and so without a word.
                self.work.wait(_LOOK_S)
        return None

    def _fetched(self, spot: Spot) -> memoryview | None:
        """The bytes; None where the cache on disk has them."""
        source, length = self._source_of(spot.shard), spot.end - spot.begin
        keep: Callable[[int, int], bool] | None = getattr(source, "fetch", None)
        if keep is not None and keep(spot.begin, length):
            with self.lock:
                self.traffic.requests += 1
            return None
        with self.lock:
            data = self._spare.take(length)
        source.read_into(spot.begin, data)
        with self.lock:
            self.traffic.requests += 1
            self.traffic.bytes += length
        return data


_LOOK_S = 1.0


class Ahead:
    """What one run of the plan has announced.

    Attributes:
        dropped: the run is over, and nothing of it will come.
    """

    def __init__(self, fetcher: Fetcher, wanted: Wanted) -> None:
        self.fetcher = fetcher
        self.wanted = wanted
        self.dropped = False

    def claims(self, samples: list[Spot], pieces: list[Spot] | None, left: list[int], *, singly: bool) -> list[Claim]:
        """Announce samples in the order in which they will be read.

        Args:
            samples: where they lie.
            pieces: what is worth fetching for each in one go; None where that is the sample.
            left: of each piece, how many places there are from this one on, with it.
            singly: fetch the samples only, for now.
        """
        with self.fetcher.lock:
            if pieces is None:
                found = [self.wanted.claim_alone(sample) for sample in samples]
            elif singly:
                found = list(map(self.wanted.claim_alone, samples, pieces))
            else:
                found = list(map(self.wanted.claim, samples, pieces, left))
            self.fetcher.wake()
        return [Claim(self, extent, sample) for extent, sample in zip(found, samples, strict=True)]

    def end_epoch(self) -> None:
        """What follows is of another epoch: nothing more comes of the blocks that are open."""
        with self.fetcher.lock:
            self.wanted.end_epoch()
            self.fetcher.work.notify()


class Claim:
    """One announced sample's hold on its bytes. Taken by one thread: `data`, then `release`.

    Attributes:
        ahead: the run of the plan.
        extent: what is fetched with it.
        spot: where the sample lies.
        released: whether it was given back.
    """

    __slots__ = ("ahead", "extent", "released", "spot")

    def __init__(self, ahead: Ahead, extent: Extent, spot: Spot) -> None:
        self.ahead = ahead
        self.extent = extent
        self.released = False
        self.spot = spot

    def data(self) -> memoryview | None:
        """The sample's bytes, as soon as they are there; None where the cache on disk has them.

        Raises:
            ShardstreamError: they cannot be had.
            UsageError: the loader was closed or moved meanwhile.
        """
        request = self._settled()
        if request.error is not None:
            raise _again(request.error)
        if request.data is None:
            return None
        begin = self.spot.begin - request.spot.begin
        return request.data[begin : begin + self.spot.end - self.spot.begin]

    def release(self) -> None:
        """It is decoded, or will not be: its bytes' memory may be used again. Twice does nothing."""
        self.release_all((self,))

    @staticmethod
    def release_all(claims: Sequence[Claim]) -> None:
        """Release claims of one loader: taking the lock for each costs more than the rest of it."""
        if not claims:
            return
        fetcher, wake = claims[0].ahead.fetcher, False
        with fetcher.lock:
            for claim in claims:
                if not claim.released:
                    claim.released = True
                    wanted = claim.ahead.wanted
                    wake |= wanted.release(claim.extent) and wanted.waiting
            if wake:
                fetcher.work.notify()

    def _settled(self) -> Request:
        request = self.extent.request
        return request if request is not None and request.done else self._waited()

    def _waited(self) -> Request:
        ahead, extent = self.ahead, self.extent
        fetcher, begun = ahead.fetcher, time.perf_counter()
        with fetcher.lock:
            ahead.wanted.urge(extent)
            fetcher.work.notify()
            while (request := extent.request) is None or not request.done:
                if ahead.dropped:
                    raise closed_meanwhile()
                fetcher.settled.wait(_LOOK_S)
            fetcher.traffic.wait_seconds += time.perf_counter() - begun
        return request


def _again(error: BaseException) -> BaseException:
    """The error, fit to be raised by several threads: each has its own traceback and its own place."""
    if not isinstance(error, ShardstreamError):
        return error
    same = copy.copy(error)
    same.__cause__ = error.__cause__ or error
    return same

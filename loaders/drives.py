"""Shards that lie on several drives: each drive is told what will be read of it by a thread of its own.

Telling the kernel what will be read soon takes 4 microseconds where the bytes are in memory. Where they are not, the
drive's queue fills up after some hundred requests, and the next hint waits for room in it: on a cold virtual disk 1,164
hints of 256 KiB took 0.48 of the 0.84 s in which all was read, one of them 28 ms. One thread that tells all drives in
the order of the plan would so keep a fast drive waiting for a slow one. With one drive there is nothing to keep apart,
and the caller tells it.

The plan does not know of drives, and must not: what can be arranged is what is under way at a time. So decode threads,
too, begin their chunks on different drives; within a chunk any order does.

Drives are told apart by the device number of the file system, which is looked up when a shard is first met.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from loaders.shards import OpenShards
from loaders.threads import begun
from wds_tools.errors import ShardstreamError

__all__ = ["Drives", "device_of"]

_MOST_WAITING = 4096  # hints for one drive; what is beyond is read when it is asked for


class _Hint(NamedTuple):
    """A range of a shard that will be read in a run of the plan."""

    run: int
    shard: int
    begin: int
    length: int


def device_of(url: str) -> int:
    """Which file system a local shard lies on; -1 where it is not there, which whoever reads it will say."""
    try:
        return os.stat(url).st_dev  # noqa: PTH116 - a microsecond, not three
    except OSError:
        return -1


class Drives:
    """Tells the kernel what will be read of local shards. `announce` is called by one thread at a time.

    Args:
        shards: opens them.
        url_of: their paths.
        device: of a path.
    """

    def __init__(
        self, shards: OpenShards, url_of: Callable[[int], str], *, device: Callable[[str], int] = device_of
    ) -> None:
        self._shards = shards
        self._url_of = url_of
        self._device = device
        self._known: dict[int, int] = {}  # the drive of each shard that was met, by number
        self._numbers: dict[int, int] = {}  # of each device, in the order in which they came
        self._waiting: list[queue.SimpleQueue[_Hint | None]] = []
        self._threads: list[threading.Thread] = []
        self._run = 0
        self._closed = False

    def begin(self) -> None:
        """A new run of the plan: what waits of the one before is dropped."""
        self._run += 1

    def meet(self, shards: Iterable[int]) -> None:
        """Find out which drives these shards lie on, before the first of them is told anything."""
        for shard in shards:
            self._drive(shard)

    def announce(self, shard: int, begin: int, length: int) -> None:
        """Say that these bytes will be read soon."""
        drive = self._drive(shard)
        if not self.several:
            self._tell(shard, begin, length)
            return
        while len(self._waiting) < len(self._numbers) and not self._closed:
            self._start(len(self._waiting))
        if not self._closed and self._waiting[drive].qsize() < _MOST_WAITING:
            self._waiting[drive].put(_Hint(self._run, shard, begin, length))

    @property
    def several(self) -> bool:
        """Whether shards of more than one drive were met."""
        return len(self._numbers) > 1

    def spread(self, shards: Sequence[int], turn: int) -> list[int]:
        """In which order to read from these shards, so that who reads at the same time begins on another drive.

        Args:
            shards: the shard of each sample.
            turn: another number for each of those who read at the same time.

        Returns:
            The places of the samples, those of a drive one after the other in the order given.
        """
        count = max(1, len(self._numbers))
        return sorted(range(len(shards)), key=lambda at: (self._known.get(shards[at], 0) - turn) % count)

    def stop(self) -> None:
        """Let the threads end. Does not wait, takes no lock, and may be called twice."""
        self._closed = True
        for waiting in list(self._waiting):
            waiting.put(None)

    def join(self) -> None:
        """Wait for the threads to end, after `stop`."""
        for thread in self._threads:
            thread.join()

    def _drive(self, shard: int) -> int:
        drive = self._known.get(shard)
        if drive is None:
            device = self._device(self._url_of(shard))
            drive = self._known[shard] = self._numbers.setdefault(device, len(self._numbers))
        return drive

    def _start(self, drive: int) -> None:
        waiting: queue.SimpleQueue[_Hint | None] = queue.SimpleQueue()
        name = f"shardstream-drive-{drive}"
        self._threads.append(begun(threading.Thread(target=self._serve, args=(waiting,), name=name, daemon=True)))
        self._waiting.append(waiting)
        if self._closed:  # meanwhile
            waiting.put(None)

    def _serve(self, waiting: queue.SimpleQueue[_Hint | None]) -> None:
        while (hint := waiting.get()) is not None and not self._closed:
            if hint.run == self._run:
                try:
                    self._tell(hint.shard, hint.begin, hint.length)
                except ShardstreamError:  # raised where its samples are read, in their turn
                    continue

    def _tell(self, shard: int, begin: int, length: int) -> None:
        self._shards.open(shard).source.announce(begin, length)

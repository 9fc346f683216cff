"""Numbered shards of one target, each committed while the next is filled: what ShardWriter and pack have in common.

Whoever fills them asks `full` before each sample and calls `finish` where it is, so that the point at which a shard
ends is a statement of theirs, which pack notes in its journal. What is forgotten is put in order by `forget`, which
holds no reference to whoever forgot it.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shardwriter.behind import Behind
from shardwriter.commits import Commits, Committed
from shardwriter.sink import Sink, translated
from shardwriter.target import Claim, Target
from wds_tools.atomic import sync_folder
from wds_tools.checksum import check_kind
from wds_tools.errors import UsageError
from wds_tools.index.listing import ShardRecord
from wds_tools.sample import BytesLike
from wds_tools.tar.write import END

__all__ = ["Shards"]


class Shards:
    """The shards of one run. Used from one thread; `end` when it is over, however it ends.

    Args:
        target: where they go.
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit; a larger sample gets a shard of its own.
        checksum: which kind to compute, None for none.
        on_commit: called with each shard and the note given with it, once and in order, after the disk has it. From
            the filling thread, in `finish`, `harvest` or `settle`.
        before_commit: called before each shard gets its name, from a thread of its own; what on_commit did of the shard
            before has been done then.

    Attributes:
        records: of the shards that the disk has, in order.
        samples: those that shards took in this run, on the disk yet or not.
        write_behind: whether a thread of its own writes, while the next samples are made. Off; to be set before the
            first sample. What it costs two cores is less, what it costs one is more.

    Raises:
        UsageError: a limit or a checksum that cannot be.
    """

    def __init__(
        self,
        target: Target,
        *,
        max_samples: int | None,
        max_bytes: int | None,
        checksum: str | None = None,
        on_commit: Callable[[ShardRecord, object], object] | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        check_kind(checksum)
        self.target = target
        self.records: list[ShardRecord] = []
        self.samples = 0
        self.write_behind = False
        self._max_samples = _limit("max_samples", max_samples)
        self._max_bytes = _limit("max_bytes", max_bytes)
        self._checksum = checksum
        self._on_commit = on_commit
        self._offsets = array("Q")
        self._begun = 0
        self._sink: Sink | None = None
        self._claim: Claim | None = None
        self._commits = Commits(target.publish, before_commit)
        self._thread: ThreadPoolExecutor | None = None

    @property
    def claimed(self) -> bool:
        """Whether the target is held."""
        return self._claim is not None

    def claim(self) -> Claim:
        """Make the folder, and hold the target until `end`.

        Raises:
            TargetError: another writer is at work there; UnavailableError: the folder cannot be written.
        """
        with translated(self.target.folder):
            self.target.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.target.folder.parent)
        self._claim = self.target.claim()
        return self._claim

    def keep(self, record: ShardRecord) -> None:
        """Count a shard that an earlier run has committed; the next one gets the next number."""
        self.records.append(record)
        self._begun += 1

    def full(self, size: int) -> bool:
        """Whether a sample of `size` bytes, headers and padding included, has to go into the next shard."""
        if self._sink is None:
            return False
        if self._max_samples is not None and len(self._offsets) >= self._max_samples:
            return True
        return self._max_bytes is not None and self._sink.size + size + len(END) > self._max_bytes

    def append(self, pieces: Sequence[BytesLike], size: int) -> None:
        """Put one sample into the open shard, or into a new one.

        Raises:
            UnavailableError: the disk is full or gone, now or when the shard before was committed.
        """
        self.harvest(wait=False)
        sink = self._sink or self._begin_shard()
        self._offsets.append(sink.size)
        self.samples += 1
        sink.add(pieces, size)

    def finish(self, note: object = None) -> None:
        """Hand the open shard to the committing thread, after the one before it has come through. None open: nothing.

        Args:
            note: given to `on_commit` with this shard.
        """
        sink = self._sink
        if sink is None:
            return
        self.harvest(wait=True)
        self._offsets.append(sink.size)
        record = ShardRecord(
            url=sink.path.name,
            samples=len(self._offsets) - 1,
            bytes=sink.size + len(END),
            offsets=np.frombuffer(self._offsets, dtype=np.uint64),
        )
        self._commits.start(sink, record, note)
        self._sink = None

    def harvest(self, *, wait: bool) -> None:
        """Take note of the shard that has come through since, or wait for it.

        Raises:
            UnavailableError: it did not come through.
        """
        self._take(self._commits.finished(wait=wait))

    def settle(self, note: object = None) -> None:
        """End the open shard, and wait until the disk has all."""
        self.finish(note)
        self.harvest(wait=True)

    def end(self) -> Committed | None:
        """Let the pending shard come through, remove the half one, and give the target back. Twice does nothing.

        Returns:
            The shard that came through only now; `on_commit` is not told.
        """
        committed = None
        try:
            committed = self._commits.close()
            if committed is not None:
                self.records.append(committed.record)
        finally:
            if self._sink is not None:
                self._sink.discard()
                self._sink = None
            if self._thread is not None:
                self._thread.shutdown(wait=True)
                self._thread = None
            if self._claim is not None:
                self._claim.release()
                self._claim = None
        return committed

    def forget(self, process: int, then: Callable[[Shards], object]) -> None:
        """End what nobody can close any more, and call `then`; for when its owner is collected, or at exit."""

        def end(committed: Committed | None) -> None:
            if committed is not None:
                self.records.append(committed.record)
            self.end()
            then(self)

        if os.getpid() == process:  # a forked child must not take its parent's files away
            self._commits.when_idle(end)

    def _begin_shard(self) -> Sink:
        sink = self._sink = Sink(self.target.shard(self._begun), self._checksum, self._behind())
        self._begun += 1
        self._offsets = array("Q")
        return sink

    def _behind(self) -> Behind | None:
        if not self.write_behind:
            return None
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="shard-write")
        return Behind(self._thread)

    def _take(self, committed: Committed | None) -> None:
        if committed is not None:
            self.records.append(committed.record)
            if self._on_commit is not None:
                self._on_commit(committed.record, committed.note)


def _limit(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UsageError(f"{name} is {value!r}, expected an int of 1 or more, or None for no limit")
    return value

"""One shard on its way to the disk while the next is written: one thread, one shard at a time, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from shardwriter.sink import Sink
from wds_tools.index.listing import ShardRecord

__all__ = ["Commits", "Committed"]


class Committed(NamedTuple):
    """A shard that the disk has, and the note that was given with it."""

    record: ShardRecord
    note: object


class Commits:
    """One thread that commits one shard at a time while the next is written.

    Args:
        publish: brings a shard that is whole, by its name, to where it shall lie.
        before: called by that thread before each shard gets its name.
    """

    def __init__(self, publish: Callable[[str], None], before: Callable[[], None] | None = None) -> None:
        self._publish = publish
        self._before = before
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[Committed] | None = None

    def start(self, sink: Sink, record: ShardRecord, note: object) -> None:
        """Begin to commit; the one before has been fetched by `finished`."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="shard-commit")
        self._pending = self._thread.submit(_commit, sink, record, note, self._before, self._publish)

    def finished(self, *, wait: bool) -> Committed | None:
        """The shard that has come through since, or the error that it met."""
        if self._pending is None or not (wait or self._pending.done()):
            return None
        committed = self._pending.result()
        self._pending = None
        return committed

    def when_idle(self, call: Callable[[Committed | None], object]) -> None:
        """Call with the pending shard when it has come through, None if it did not or none was pending.

        Returns at once: the garbage collector may call this, from the committing thread even, which must not wait for
        itself. That thread ends with its executor, which nobody holds any more.
        """
        self._thread = None
        pending, self._pending = self._pending, None
        if pending is None:
            call(None)
        else:
            pending.add_done_callback(lambda done: call(_result(done)))

    def close(self) -> Committed | None:
        """Let the pending shard come through, and end the thread. The shard, where it did come through."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        pending, self._pending = self._pending, None
        return None if pending is None else _result(pending)


def _commit(
    sink: Sink,
    record: ShardRecord,
    note: object,
    before: Callable[[], None] | None,
    publish: Callable[[str], None],
) -> Committed:
    try:
        if before is not None:
            before()
    except BaseException:
        sink.discard()
        raise
    sink.commit()
    publish(sink.path.name)
    return Committed(dataclasses.replace(record, checksum=sink.checksum), note)


def _result(done: Future[Committed]) -> Committed | None:
    return None if done.exception() is not None else done.result()

"""ShardWriter: samples in, whole shards out, and the listing at the end.

    with ShardWriter("out/train-%06d.tar", max_samples=1000, max_bytes=1_000_000_000) as writer:
        writer.write({"__key__": "n01440764/00001", "jpg": jpeg_bytes, "cls": 3})

What it promises:

- Nothing is made before the first sample: no folder, no file. A run without samples leaves nothing, no listing either.
- A shard is closed before the sample that would exceed max_samples or max_bytes. max_bytes counts the file as it lies
  on disk, headers, padding and end included, so a shard is larger only where a single sample is.
- A sample that is refused leaves no trace, and the writer goes on: its key may be written later.
- A shard gets its name when the disk has all of it. That wait (fsync) runs on one thread of its own while the next
  shard is written, which makes writing 1.5 times as fast; at most one shard waits, so commits keep their order. An
  error there comes out of a later write or of close.
- The listing is written last, by close: a listing means that the run ended well. Where the block raises, Ctrl-C
  included, the half shard is removed and the finished ones stay, whole and readable as any folder of shards, without a
  listing; `wds index` makes one. A run is not taken up where it stopped: pass overwrite=True, or write elsewhere.
- A writer that is forgotten, neither closed nor aborted, is ended as by abort when it is collected or the process ends,
  and an error is logged: without `with` or close its last samples and its listing are lost.
- The same samples in the same order give the same bytes: no clock, owner or name of the machine goes into a shard.
- A key that was written before in this run is refused, in any shard (shardwriter.seen states the odds of its hashes).
"""

from __future__ import annotations

import json
import logging
import os
import weakref
from array import array
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import numpy as np

from shardwriter.encode import Encoded, Encoder
from shardwriter.seen import SeenKeys
from shardwriter.sink import Sink, translated
from shardwriter.target import Claim, Target, parse_pattern
from wds_tools.atomic import sync_folder
from wds_tools.errors import KeyRefusedError, UnavailableError, UsageError
from wds_tools.index.listing import OWN_KEYS, ShardRecord, write_listing
from wds_tools.tar.write import END

__all__ = ["ShardWriter"]

_log = logging.getLogger(__name__)


class ShardWriter:
    """Writes samples into numbered shards. Used once, from one thread, with `with` or with close.

    Args:
        pattern: the shards' path with one number in its last part, such as "out/train-%06d.tar".
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit; a larger sample gets a shard of its own.
        quality: of JPEG, WebP and AVIF pictures that are encoded here from arrays or PIL images. Bytes pass unchanged.
        allow_pickle: whether fields such as pkl may be written; readers refuse them by default.
        overwrite: remove the shards of this pattern and their listing when the first sample comes.
        listing: the file name of the listing, None for none. Writers that share a folder need one each, or none.
        extra: what else the listing should say, such as {"classes": [...], "shuffled": True}; values that JSON knows.
        on_shard: called with the path of each shard, once and in order, after the disk has it: to upload it, say. From
            the writing thread, at the next write after the commit, or in close; not while an exception ends the block.

    Raises:
        UsageError: a pattern or an option that cannot be.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        *,
        max_samples: int | None = 10_000,
        max_bytes: int | None = 1_000_000_000,
        quality: int = 95,
        allow_pickle: bool = False,
        overwrite: bool = False,
        listing: str | None = "dataset.json",
        extra: Mapping[str, object] | None = None,
        on_shard: Callable[[Path], object] | None = None,
    ) -> None:
        self.target: Target = parse_pattern(pattern, listing=listing)
        self._max_samples = _limit("max_samples", max_samples)
        self._max_bytes = _limit("max_bytes", max_bytes)
        self._encoder = Encoder(quality=_quality(quality), allow_pickle=allow_pickle)
        self._overwrite = overwrite
        self._extra = _plain(extra or {})
        self._on_shard = on_shard
        self._seen = SeenKeys()
        self._fields: dict[str, int] = {}
        self._work = _Work(self.target)
        self._offsets = array("Q")
        self._begun = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._forgotten: weakref.finalize[[int], ShardWriter] | None = None

    def __enter__(self) -> Self:
        self._check_open()
        self.target.check_free(overwrite=self._overwrite)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    @property
    def records(self) -> tuple[ShardRecord, ...]:
        """The shards that the disk has, in order."""
        return tuple(self._work.records)

    def write(self, sample: Mapping[str, object]) -> int:
        """Append one sample: `__key__` and at least one field. Returns the bytes it takes in the shard.

        `__url__` and the other special names of samples that were read are left out, so that those can be written as
        they are. Values that are not bytes are encoded by their field's name (wds_tools.codec).

        Raises:
            KeyRefusedError, FieldRefusedError: the sample cannot be written; nothing of it is, and the writer goes on.
            TargetError: at the first sample, shards or a listing lie there, or another writer is at work there.
            UnavailableError: the disk is full or gone. The writer has ended then.
        """
        self._check_open()
        encoded = self._encoder.encode(sample)
        if not self._seen.add(encoded.key):
            raise KeyRefusedError(
                "the key was written before in this run",
                key=encoded.key,
                cure="Keys must differ within a dataset; put the folder or a running number into them.",
            )
        try:
            self._append(encoded)
        except BaseException as error:
            # Not only disk errors: a Ctrl-C inside may have left half a sample behind.
            self._failure = error
            raise
        return encoded.size

    def sync(self) -> None:
        """End the open shard, and wait until the disk has all shards so far. The next sample begins another shard.

        Twice does nothing: there are no empty shards.

        Raises:
            UnavailableError: as for write.
        """
        self._check_open()
        try:
            self._finish_shard()
            self._harvest(wait=True)
        except BaseException as error:
            self._failure = error
            raise

    def close(self) -> None:
        """Finish the last shard and write the listing. Twice does nothing.

        Raises:
            UnavailableError: the disk is full or gone, now or at an earlier write.
        """
        if self._closed:
            return
        try:
            self.sync()
            if self._work.records and self.target.listing is not None:
                self._write_listing(self.target.listing)
        finally:
            self.abort()

    def abort(self) -> None:
        """End without the last shard and without a listing; finished shards stay. After close it does nothing."""
        self._closed = True
        if self._forgotten is not None:
            self._forgotten.detach()
        self._work.end()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise UnavailableError(
                f"the writer of {self.target.folder} ended at an earlier error: {self._failure}",
                cure="Finished shards are whole; start a new run, with overwrite=True or elsewhere.",
            ) from self._failure
        if self._closed:
            raise UsageError(f"the writer of {self.target.folder} is closed", cure="Make a new ShardWriter.")

    def _append(self, encoded: Encoded) -> None:
        self._harvest(wait=False)
        if self._work.sink is not None and self._is_full(self._work.sink, encoded.size):
            self._finish_shard()
        sink = self._work.sink or self._begin_shard()
        self._offsets.append(sink.size)
        self._work.samples += 1
        sink.add(encoded.pieces, encoded.size)
        for field in encoded.fields:
            self._fields[field] = self._fields.get(field, 0) + 1

    def _is_full(self, sink: Sink, size: int) -> bool:
        if self._max_samples is not None and len(self._offsets) >= self._max_samples:
            return True
        return self._max_bytes is not None and sink.size + size + len(END) > self._max_bytes

    def _begin_shard(self) -> Sink:
        if self._work.claim is None:
            self._begin()
        sink = self._work.sink = Sink(self.target.shard(self._begun))
        self._begun += 1
        self._offsets = array("Q")
        return sink

    def _begin(self) -> None:
        with translated(self.target.folder):
            self.target.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.target.folder.parent)
        claim = self._work.claim = Claim(self.target)
        self._forgotten = weakref.finalize(self, self._work.forget, os.getpid())
        self.target.check_free(overwrite=self._overwrite)
        if claim.locked:
            self.target.clear_leftovers()
        if self._overwrite:
            self.target.clear_dataset()

    def _finish_shard(self) -> None:
        """Hand the open shard to the committing thread, after the one before it has come through."""
        sink = self._work.sink
        if sink is None:
            return
        self._harvest(wait=True)
        self._offsets.append(sink.size)
        record = ShardRecord(
            url=sink.path.name,
            samples=len(self._offsets) - 1,
            bytes=sink.size + len(END),
            offsets=np.frombuffer(self._offsets, dtype=np.uint64),
        )
        self._work.commits.start(sink, record)
        self._work.sink = None

    def _harvest(self, *, wait: bool) -> None:
        record = self._work.commits.finished(wait=wait)
        if record is not None:
            self._work.records.append(record)
            if self._on_shard is not None:
                self._on_shard(self.target.folder / record.url)

    def _write_listing(self, listing: str) -> None:
        path = self.target.folder / listing
        extra = {"fields": dict(sorted(self._fields.items())), **self._extra}
        with translated(path):
            write_listing(path, self._work.records, name=self.target.name, extra=extra)


class _Work:
    """What a run holds and has done; apart from the writer, so that it can be put in order when that is forgotten."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.claim: Claim | None = None
        self.sink: Sink | None = None
        self.commits = _Commits()
        self.records: list[ShardRecord] = []
        self.samples = 0
        """Those that shards took, on the disk yet or not."""

    def end(self) -> None:
        """Let the pending shard come through, remove the half one, and give the target back. Twice does nothing."""
        try:
            record = self.commits.close()
            if record is not None:
                self.records.append(record)
        finally:
            if self.sink is not None:
                self.sink.discard()
                self.sink = None
            if self.claim is not None:
                self.claim.release()
                self.claim = None

    def forget(self, process: int) -> None:
        """End what nobody can close any more, and say so; called when the writer is collected, or at exit."""
        if os.getpid() == process:  # a forked child must not take its parent's files away
            self.commits.when_idle(self._end_forgotten)

    def _end_forgotten(self, record: ShardRecord | None) -> None:
        if record is not None:
            self.records.append(record)
        self.end()
        if not self.samples:  # the first was refused, aloud
            return
        _log.error(
            "the ShardWriter of %s was never closed: %s lost%s. "
            "Write in a block `with ShardWriter(...) as writer:`, or call close() at the end.",
            self.target.folder / self.target.pattern,
            _last(self.samples - sum(record.samples for record in self.records)),
            "" if self.target.listing is None else f", and there is no {self.target.listing}",
        )


def _last(samples: int) -> str:
    return "its last sample is" if samples == 1 else f"its last {samples:,} samples are" if samples else "no sample is"


class _Commits:
    """One thread that commits one shard at a time while the next is written."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._pending: tuple[Future[None], ShardRecord] | None = None

    def start(self, sink: Sink, record: ShardRecord) -> None:
        """Begin to commit; the one before has been fetched by `finished`."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="shard-commit")
        self._pending = (self._thread.submit(sink.commit), record)

    def finished(self, *, wait: bool) -> ShardRecord | None:
        """The record of the shard that has come through since, or the error that it met."""
        if self._pending is None or not (wait or self._pending[0].done()):
            return None
        commit, record = self._pending
        commit.result()
        self._pending = None
        return record

    def when_idle(self, call: Callable[[ShardRecord | None], object]) -> None:
        """Call with the pending shard's record when it has come through, None if it did not or none was pending.

        Returns at once: the garbage collector may call this, from the committing thread even, which must not wait for
        itself. That thread ends with its executor, which nobody holds any more.
        """
        self._thread = None
        pending, self._pending = self._pending, None
        if pending is None:
            call(None)
        else:
            commit, record = pending
            commit.add_done_callback(lambda done: call(None if done.exception() is not None else record))

    def close(self) -> ShardRecord | None:
        """Let the pending shard come through, and end the thread. Its record, where it did come through."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        pending, self._pending = self._pending, None
        return None if pending is None or pending[0].exception() is not None else pending[1]


def _limit(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UsageError(f"{name} is {value!r}, expected an int of 1 or more, or None for no limit")
    return value


def _quality(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise UsageError(f"quality is {value!r}, expected an int of 1 to 100")
    return value


def _plain(extra: Mapping[str, object]) -> dict[str, object]:
    """A copy that JSON can hold, found out now and not after hours of writing."""
    try:
        copy = json.loads(json.dumps(extra, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"extra cannot be written as JSON: {error}") from error
    if not isinstance(copy, dict):
        raise UsageError("extra must be a dict with str keys")
    if clash := sorted(set(copy) & set(OWN_KEYS)):
        raise UsageError(f"extra holds keys that the listing itself writes: {', '.join(clash)}")
    return copy

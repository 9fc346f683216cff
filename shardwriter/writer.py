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
from collections.abc import Callable, Mapping
from typing import Any, Self

from shardwriter.encode import Encoded, Encoder
from shardwriter.remote import parse_target
from shardwriter.seen import SeenKeys
from shardwriter.shards import Shards
from shardwriter.sink import translated
from shardwriter.target import Target
from wds_tools.checksum import Checksum
from wds_tools.errors import KeyRefusedError, UnavailableError, UsageError
from wds_tools.index.listing import OWN_KEYS, ShardRecord, write_listing
from wds_tools.sources.options import Remote

__all__ = ["ShardWriter"]

_log = logging.getLogger(__name__)


class ShardWriter:
    """Writes samples into numbered shards. Used once, from one thread, with `with` or with close.

    Args:
        pattern: the shards' path with one number in its last part, such as "out/train-%06d.tar", or a url of a store
            such as "s3://bucket/train-%06d.tar" (shardwriter.remote).
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit; a larger sample gets a shard of its own.
        quality: of JPEG, WebP and AVIF pictures that are encoded here from arrays or PIL images. Bytes pass unchanged.
        allow_pickle: whether fields such as pkl may be written; readers refuse them by default.
        overwrite: remove the shards of this pattern and their listing when the first sample comes.
        listing: the file name of the listing, None for none. Writers that share a folder need one each, or none.
        extra: what else the listing should say, such as {"classes": [...], "shuffled": True}; values that JSON knows.
        on_shard: called with the path of each shard (in a store: its url), once and in order, after it is there. From
            the writing thread, at the next write after the commit, or in close; not while an exception ends the block.
        checksum: "xxh3" or "sha256": what the listing says of each shard's bytes, so that `wds verify` finds a copy
            that went wrong. None for no checksum.
        remote: how a store is asked; `storage` has the options of its file system.

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
        on_shard: Callable[[Any], object] | None = None,
        checksum: Checksum | None = None,
        remote: Remote | None = None,
    ) -> None:
        self.target: Target = parse_target(pattern, listing=listing, remote=remote)
        self._shards = Shards(
            self.target,
            max_samples=max_samples,
            max_bytes=max_bytes,
            checksum=checksum,
            on_commit=_teller(self.target, on_shard),
        )
        self._encoder = Encoder(quality=_quality(quality), allow_pickle=allow_pickle)
        self._overwrite = overwrite
        self._extra = _plain(extra or {})
        self._seen = SeenKeys()
        self._fields: dict[str, int] = {}
        self._closed = False
        self._failure: BaseException | None = None
        self._forgotten: weakref.finalize[[int, Callable[[Shards], object]], ShardWriter] | None = None

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
        return tuple(self._shards.records)

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
            self._shards.settle()
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
            if self._shards.records and self.target.listing is not None:
                self._write_listing(self.target.listing)
        finally:
            self.abort()

    def abort(self) -> None:
        """End without the last shard and without a listing; finished shards stay. After close it does nothing."""
        self._closed = True
        if self._forgotten is not None:
            self._forgotten.detach()
        self._shards.end()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise UnavailableError(
                f"the writer of {self.target.place} ended at an earlier error: {self._failure}",
                cure="Finished shards are whole; start a new run, with overwrite=True or elsewhere.",
            ) from self._failure
        if self._closed:
            raise UsageError(f"the writer of {self.target.place} is closed", cure="Make a new ShardWriter.")

    def _append(self, encoded: Encoded) -> None:
        if not self._shards.claimed:
            self._begin()
        if self._shards.full(encoded.size):
            self._shards.finish()
        self._shards.append(encoded.pieces, encoded.size)
        for field in encoded.fields:
            self._fields[field] = self._fields.get(field, 0) + 1

    def _begin(self) -> None:
        claim = self._shards.claim()
        self._forgotten = weakref.finalize(self, self._shards.forget, os.getpid(), _say_forgotten)
        self.target.check_free(overwrite=self._overwrite)
        if claim.locked:
            self.target.clear_leftovers()
        if self._overwrite:
            self.target.clear_dataset()

    def _write_listing(self, listing: str) -> None:
        path = self.target.folder / listing
        extra = {"fields": dict(sorted(self._fields.items())), **self._extra}
        with translated(path):
            write_listing(path, self._shards.records, name=self.target.name, extra=extra)
        for name in (self.target.offsets, listing):  # the listing last: it means that all it lists is there
            if name is not None:
                self.target.publish(name)


def _say_forgotten(shards: Shards) -> None:
    if not shards.samples:  # the first was refused, aloud
        return
    target = shards.target
    _log.error(
        "the ShardWriter of %s was never closed: %s lost%s. "
        "Write in a block `with ShardWriter(...) as writer:`, or call close() at the end.",
        target.named(target.pattern),
        _last(shards.samples - sum(record.samples for record in shards.records)),
        "" if target.listing is None else f", and there is no {target.listing}",
    )


def _last(samples: int) -> str:
    return "its last sample is" if samples == 1 else f"its last {samples:,} samples are" if samples else "no sample is"


def _teller(target: Target, on_shard: Callable[[Any], object] | None) -> Callable[[ShardRecord, object], object] | None:
    """on_shard as Shards calls it. A function of its own: a method would keep the writer from being collected."""
    return None if on_shard is None else lambda record, _: on_shard(target.named(record.url))


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

"""One file of decoded pictures: what is there is read, what is missing is added while there is room.

Shared by the threads of a process and by all processes that make the same of the same dataset. Space is granted to a
process four megabytes at a time, under the folder's lock; in its own space it writes without asking anybody, and then
enters the record in the table, which all have mapped. So nothing is written twice, and what a killed process left half
written is never found. Two processes that decode one sample at the same moment both write it, and one of the two
records is lost: in an epoch a sample belongs to one rank.

A record is checked when this process first reads it, which also finds what a power failure or a bad disk has done. It
is believed for as long as its shard has the time of writing that it had: a shard that was packed anew under its old
name is decoded anew.

Reads are positioned reads of the whole record into the thread's buffer. Nothing here fails a batch: where the disk
refuses, the picture is decoded.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders.decoded import layout
from loaders.decoded.options import DecodedCache
from loaders.decoded.places import SUFFIX, Place, shared_memory_folder
from wds_tools.dataset import Dataset
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sample import INDEX, URL, RawSample
from wds_tools.sources.cache import locks

__all__ = ["DecodedCounts", "DecodedStore", "disown", "open_store"]

_REGION = 4 << 20
_RETRY_S = 60.0
"""Seconds for which nothing is added after there was no room: another dataset may have ended meanwhile."""

_log = logging.getLogger(__name__)


@dataclass
class DecodedCounts:
    """What came of a cache of decoded pictures, in this process.

    Attributes:
        hits: samples that were there.
        misses: samples that were decoded.
        kept: of these, what was added.
        damaged: records that were not as they were written.
        stale: records of a shard that was written again.
        bytes: of the file now, by all processes.
    """

    hits: int = 0
    misses: int = 0
    kept: int = 0
    damaged: int = 0
    stale: int = 0
    bytes: int = 0


@dataclass
class _Space:
    """What was granted to this process and is not written yet: [begin, end) of the file."""

    begin: int = 0
    end: int = 0
    again_at: float = 0.0
    said: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class DecodedStore:
    """An open file of decoded pictures; made by `open_store`. Safe for many threads.

    Args:
        place: the folder.
        path: the file.
        descriptor: of it, with a shared lock.
        header: what it says of itself.
        dataset: whose samples.
    """

    def __init__(self, place: Place, path: Path, descriptor: int, header: layout.Header, dataset: Dataset) -> None:
        self.path = path
        self.counts = DecodedCounts()
        self._place = place
        self._descriptor = descriptor
        self._birth = header.birth
        self._dataset = dataset
        plan = layout.Layout(header.samples)
        mapped = mmap.mmap(descriptor, plan.records_at)
        self._table = np.frombuffer(mapped, np.uint64, header.samples, plan.table_at)
        self._sound = np.zeros(header.samples, dtype=np.bool_)  # what this process has checked
        self._written: dict[int, int] = {}
        self._writing: set[int] = set()
        self._space = _Space()
        self._end = weakref.finalize(self, _end, place, descriptor, os.getpid())

    def has(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these samples are there, as far as the table knows; int64 (n,) to bool (n,)."""
        there: npt.NDArray[np.bool_] = self._table[samples] != 0
        return there

    @property
    def empty(self) -> bool:
        """Whether nothing is there yet."""
        return not self._table.any()

    def get(self, sample: int, take: Callable[[int], memoryview]) -> RawSample | None:
        """A sample with its pictures decoded, None where it is not there.

        Args:
            sample: its number.
            take: gives memory of so many bytes. The values are views on it.
        """
        entry = int(self._table[sample])
        if not entry:
            return None
        try:
            written, fields = self._read(sample, entry, take)
        except (OSError, ValueError, KeyError, IndexError):  # what JSON and numpy raise for nonsense are ValueErrors
            self._forget(sample, "damaged")
            return None
        shard = self._shard_of(sample)
        if written != self._time_of(shard):
            self._forget(sample, "stale")
            return None
        fields[URL], fields[INDEX] = self._dataset.urls[shard], sample
        return fields

    def _read(self, sample: int, entry: int, take: Callable[[int], memoryview]) -> tuple[int, RawSample]:
        begin, length = layout.unpack_entry(entry)
        if not self._sound[sample] and begin + length > os.fstat(self._descriptor).st_size:
            raise ValueError("the table points behind the end of the file")
        record = take(length)
        if os.preadv(self._descriptor, [record], begin) != length:
            raise ValueError("the file is shorter than its table says")
        if not self._sound[sample]:
            if not layout.is_sound(self._birth, sample, record):
                raise ValueError("the record is not as it was written")
            self._sound[sample] = True
        return layout.unpack_record(record)

    def _forget(self, sample: int, why: str) -> None:
        """It is decoded, and kept anew if there is room."""
        self._table[sample], self._sound[sample] = 0, False
        with self._space.lock:
            setattr(self.counts, why, getattr(self.counts, why) + 1)

    def put(self, sample: int, fields: RawSample, names: Sequence[str]) -> bool:
        """Keep a sample, if there is room; whether it is kept.

        Args:
            sample: its number.
            fields: the sample, its pictures `Small`.
            names: which of its fields.
        """
        if time.monotonic() < self._space.again_at or not self._claim(sample):
            return False
        try:
            return self._keep(sample, fields, names)
        finally:
            self._writing.discard(sample)

    def _claim(self, sample: int) -> bool:
        """Whether this thread is to write it: what stands in for a bad sample may be made twice at once."""
        with self._space.lock:
            if self._table[sample] or sample in self._writing:
                return False
            self._writing.add(sample)
            return True

    def _keep(self, sample: int, fields: RawSample, names: Sequence[str]) -> bool:
        written = self._time_of(self._shard_of(sample))
        pieces = layout.pack_record(self._birth, sample, written, fields, names)
        length = sum(map(len, pieces))
        try:
            begin = self._taken(length) if length <= layout.MOST_BYTES else None
            if begin is None:
                return False
            _write(self._descriptor, pieces, begin)
        except OSError as error:
            self._pause(f"cannot be written ({error.strerror or error})")
            return False
        self._sound[sample] = True
        self._table[sample] = layout.pack_entry(begin, length)
        with self._space.lock:
            self.counts.kept += 1
        return True

    def note(self, *, hits: int, misses: int) -> None:
        """Count the samples of a chunk."""
        with self._space.lock:
            self.counts.hits += hits
            self.counts.misses += misses

    def report(self) -> DecodedCounts:
        """The counts so far."""
        with self._space.lock:
            counts = DecodedCounts(**vars(self.counts))
        if self._end.alive:
            counts.bytes = os.fstat(self._descriptor).st_size
        return counts

    def close(self) -> None:
        """Give back what is not used; no thread may be reading or writing. Twice does nothing."""
        if self._end.alive:
            self._give_back()
            self._table, self._sound = np.zeros(0, np.uint64), np.zeros(0, np.bool_)  # unmaps it
            self._end()

    def _taken(self, length: int) -> int | None:
        """Where a record of so many bytes may be written, None where there is no room."""
        space = self._space
        with space.lock:
            if space.end - space.begin < length and not self._enlarge(length):
                return None
            begin, space.begin = space.begin, space.begin + length
            return begin

    def _enlarge(self, length: int) -> bool:
        space = self._space
        if time.monotonic() < space.again_at:  # another thread has just found out
            return False
        with self._place.locked():
            end = os.fstat(self._descriptor).st_size
            left = space.end - space.begin if space.end == end else 0
            need = layout.rounded(length - left)
            want = max(need, layout.rounded(min(_REGION, self._place.limit // 64)))
            granted = self._place.grant(self._descriptor, need=need, want=want, beside=self.path)
        if not granted:
            self._pause("is full")
            return False
        space.begin, space.end = end - left, end + granted
        return True

    def _pause(self, why: str) -> None:
        space = self._space
        space.again_at = time.monotonic() + _RETRY_S
        if not space.said:
            space.said = True
            _log.warning(
                "the cache of decoded pictures %s %s (limit %s bytes): what it does not hold is decoded each time",
                self._place.folder,
                why,
                f"{self._place.limit:,}",
            )

    def _give_back(self) -> None:
        space = self._space
        with contextlib.suppress(OSError), self._place.locked():
            if space.end and space.end == os.fstat(self._descriptor).st_size:
                os.ftruncate(self._descriptor, layout.rounded(space.begin))

    def _shard_of(self, sample: int) -> int:
        return int(np.searchsorted(self._dataset.starts, sample, side="right")) - 1

    def _time_of(self, shard: int) -> int:
        """When a local shard was written; 0 for a remote one, and -1 where it is not there."""
        known = self._written.get(shard)
        if known is None:
            known = 0
            if not self._dataset.remote_shards[shard]:
                try:
                    known = os.stat(self._dataset.urls[shard]).st_mtime_ns  # noqa: PTH116 - a microsecond, not three
                except OSError:
                    known = -1
            self._written[shard] = known
        return known


def _write(descriptor: int, pieces: Sequence[Any], begin: int) -> None:
    left = [memoryview(piece) for piece in pieces if len(piece)]
    while left:
        done = os.pwritev(descriptor, left, begin)
        begin += done
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = left[0][done:]


def _end(place: Place, descriptor: int, process: int) -> None:
    if os.getpid() != process:  # a forked child, which has copies of what its parent uses
        return
    with contextlib.suppress(OSError):
        locks.unshare(descriptor)
    os.close(descriptor)
    place.release()


def _place_of(cache: DecodedCache) -> Place:
    """The folder that the options mean."""
    return Place(shared_memory_folder() if cache.ram else cache.folder, cache.limit, cache.ram)


def disown(cache: DecodedCache, process: int) -> None:
    """A process for whose life something was kept needs it no more; only that process itself can say so."""
    if os.getpid() == process:
        _place_of(cache).disown(process)


def open_store(cache: DecodedCache, *, dataset: Dataset, key: bytes, owner: int | None = None) -> DecodedStore:
    """Open the file of what is made of a dataset, made where there is none.

    Args:
        cache: where and how much.
        dataset: whose samples.
        key: a digest (32 bytes) of all that decides what is kept of a sample.
        owner: a process for whose life the file is kept, beside its users.

    Raises:
        UsageError: the table of the samples alone is more than the limit.
        UnavailableError: the place cannot be used.
    """
    place = _place_of(cache)
    path = place.folder / f"{key.hex()[:32]}{SUFFIX}"
    try:
        with place.locked():
            place.tidy()
            opened = _opened(path, key, len(dataset))
            if opened is None:
                path.unlink(missing_ok=True)
                _make(place, path, key, len(dataset))
                opened = _opened(path, key, len(dataset))
            if opened is None:
                raise UnavailableError(f"the cache of decoded pictures {path} does not read as it was written")
            descriptor, header = opened
            if not place.in_use(path):
                _trim(descriptor, header)
            os.utime(path)
            if owner is not None and place.ram:
                place.own(path, owner)
            locks.share(descriptor)
    except OSError as error:
        if isinstance(error, UnavailableError):
            raise
        raise UnavailableError(
            f"the cache of decoded pictures {place.folder} cannot be used: {error.strerror or error}",
            cure="Name another folder, or leave decoded_cache out.",
        ) from error
    return DecodedStore(place, path, descriptor, header, dataset)


def _opened(path: Path, key: bytes, samples: int) -> tuple[int, layout.Header] | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    header = layout.unpack_header(os.pread(descriptor, layout.BLOCK, 0))
    long_enough = os.fstat(descriptor).st_size >= layout.Layout(samples).records_at
    if header is None or (header.key, header.samples) != (key, samples) or not long_enough:
        os.close(descriptor)
        return None
    return descriptor, header


def _trim(descriptor: int, header: layout.Header) -> None:
    """Give back what was granted to processes that were killed, as far as it lies behind the last record."""
    plan = layout.Layout(header.samples)
    table = np.frombuffer(os.pread(descriptor, 8 * header.samples, plan.table_at), np.uint64)
    begin, length = layout.unpack_entry(int(table.max())) if len(table) else (0, 0)
    end = layout.rounded(max(begin + length, plan.records_at))
    if end < os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, end)


def _make(place: Place, path: Path, key: bytes, samples: int) -> None:
    header = layout.Header(os.urandom(16), key, samples)
    length = layout.Layout(samples).records_at
    if length > place.limit:
        raise UsageError(
            f"a cache of {place.limit:,} bytes for decoded pictures has no room for the table of {samples:,} samples, "
            f"which takes {length:,}",
            cure="Give it more, or leave decoded_cache out.",
        )
    if not place.make(path, layout.pack_header(header), length):
        raise UnavailableError(
            f"{place.folder} has no room for a cache of decoded pictures: {length:,} bytes to begin with",
            cure="Others use it up to its limit or the disk is full: give it more bytes, or another place.",
        )

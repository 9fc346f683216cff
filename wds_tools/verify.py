"""Read everything and list all that is wrong: what `wds verify` does.

For each shard, whole: every header and its checksum, the end of the archive, the grouping of members into samples and
that no key comes back, links; where a listing or a sidecar (DALI, Energon) lies beside, that it says the same as the
shard (`verify_index`): size, samples, checksum, the place of each, and for the whole how many samples have which field
and label. With `decode`, every field of every sample is decoded as its name says, pictures wholly, and the pictures'
sizes are compared with the listing too. Several shards are read at a time; what is found comes in their order.

One fault does not hide the next: a bad sample is listed and the next one read. Only damage of the archive itself ends a
shard, since nobody knows where the next header would be; the next shard is read then.

A problem is something that is wrong. A note is something that other readers may trip over, or that no sample will show
(no end of archive, files that belong to no sample); a dataset with notes only is sound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self, TypeVar

from wds_tools import codec
from wds_tools.contents import compression, contents
from wds_tools.cores import usable_cores
from wds_tools.errors import ShardError, ShardstreamError, public
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.sample import KEY, SPECIAL, URL, BytesLike, RawSample
from wds_tools.shard import ShardNotes, iter_samples
from wds_tools.sources.base import Source
from wds_tools.sources.options import Remote
from wds_tools.streamed import open_copy
from wds_tools.tally import Tally
from wds_tools.urls import Urls
from wds_tools.verify_index import Expected, compare, compare_totals, expectations

__all__ = ["Problem", "Verification", "verify"]

T = TypeVar("T")
R = TypeVar("R")

CHUNK = 16
"""Samples a task of a decoding thread: 20 ms of JPEGs."""
AHEAD = 8
"""Tasks begun and not looked at: enough for 8 threads, and 14 MB of JPEGs at most."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong: the name of its error's class, what was found, the place as far as it is known."""

    kind: str
    problem: str
    url: str | None = None
    offset: int | None = None
    key: str | None = None
    field: str | None = None
    cure: str | None = None

    @classmethod
    def of(cls, error: ShardstreamError) -> Self:
        """The problem that an error tells of."""
        return cls(
            kind=type(error).__name__,
            problem=error.problem,
            url=None if error.url is None else public(error.url),
            offset=error.offset,
            key=error.key,
            field=error.field,
            cure=error.cure,
        )

    def __str__(self) -> str:
        error = ShardstreamError(
            self.problem, url=self.url, offset=self.offset, key=self.key, field=self.field, cure=self.cure
        )
        return f"{self.kind}: {error}"


@dataclass(kw_only=True)
class Verification:
    """What was read and what was found.

    Attributes:
        shards: read, the damaged ones too.
        samples: whole and sound in their form.
        bytes: of the shards' files.
        problems: all of them, in the order of the shards; those of a listing as a whole behind its last shard.
        notes: by shard, what is no fault but worth knowing.
    """

    shards: int = 0
    samples: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: dict[str, Sequence[str]] = field(default_factory=dict)


def verify(
    urls: Urls,
    *,
    decode: bool = False,
    jobs: int | None = None,
    remote: Remote | None = None,
    advance: Callable[[int], None] = lambda _: None,
    found: Callable[[Problem], None] = lambda _: None,
) -> Verification:
    """Read the shards that `urls` mean, and hold them against their listings.

    Args:
        urls: shards, patterns, folders, listings.
        decode: whether to decode every field.
        jobs: shards that are read at a time, and threads that decode; by default all usable cores.
        remote: how remote hosts are asked; the defaults where None.
        advance: called with the number of samples read since the last call, from any thread.
        found: called with each problem, shard by shard.

    Raises:
        NoShardsError, UsageError: the urls themselves are wrong. All that is wrong with what they name is listed.
    """
    threads = usable_cores() if jobs is None else jobs
    files = Files(IndexCache(None), remote)
    result, totals = Verification(), _Totals(files, decode=decode)

    def tell(errors: Iterable[ShardstreamError]) -> None:
        for error in errors:
            result.problems.append(Problem.of(error))
            found(result.problems[-1])

    shards = expectations(urls, lambda error: tell([error]), files)
    totals.expect(shards.values())
    with (
        ThreadPoolExecutor(threads, thread_name_prefix="shardstream-verify") as readers,
        ThreadPoolExecutor(threads, thread_name_prefix="shardstream-decode") as decoders,
    ):
        work = _Work(decoders if decode else None, advance, remote)
        try:
            for read in _ahead(readers, work.shard, shards.items(), 2 * threads):
                result.shards += 1
                result.samples += read.samples
                result.bytes += read.bytes
                if read.notes:
                    result.notes[public(read.url)] = read.notes
                tell(read.problems)
                tell(totals.add(read, shards[read.url]))
        finally:
            work.stop()
    return result


@dataclass(kw_only=True)
class _Read:
    """What came of one shard."""

    url: str
    samples: int = 0
    bytes: int = 0
    problems: list[ShardstreamError] = field(default_factory=list)
    notes: Sequence[str] = ()
    tally: Tally = field(default_factory=Tally)


class _Work:
    """Reads shards, each in one thread; samples are decoded by others."""

    def __init__(
        self, decoders: ThreadPoolExecutor | None, advance: Callable[[int], None], remote: Remote | None
    ) -> None:
        self._decoders = decoders
        self._remote = remote
        self._advance = advance
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End shards that are still being read: nobody asks any more."""
        self._stopped.set()

    def shard(self, shard: tuple[str, Expected | None]) -> _Read:
        """All that is wrong with one shard."""
        url, expected = shard
        read = _Read(url=url)
        try:
            with open_copy(url, remote=self._remote) as source:
                read.bytes = source.size()
                samples = self._read(source, read)
                read.problems += compare(source, samples, expected)
        except ShardstreamError as error:
            read.problems.append(error.at(url=url))
        return read

    def _read(self, source: Source, read: _Read) -> int:
        """Everything in the shard once, from the first header to the end. The number of samples."""
        notes = ShardNotes()
        try:
            samples = iter_samples(source, notes=notes, on_bad=read.problems.append)
            self._go_through(samples, source, read)
        finally:
            read.samples = notes.samples
            read.notes = dataclasses.replace(notes, refused=0).warnings()  # those are problems already
        return notes.samples + notes.refused

    def _go_through(self, samples: Iterator[RawSample], source: Source, read: _Read) -> None:
        where = _Where(source)
        tasks: deque[Future[list[ShardstreamError]]] = deque()
        try:
            for chunk in _chunks(samples):
                if self._stopped.is_set():
                    return
                for sample in chunk:
                    read.tally.add(_fields(sample), pictures=self._decoders is not None)
                if self._decoders is not None:
                    tasks.append(self._decoders.submit(_decode_all, chunk))
                if len(tasks) > AHEAD:
                    read.problems += _placed(tasks.popleft(), where)
                self._advance(len(chunk))
        finally:
            while tasks:
                read.problems += _placed(tasks.popleft(), where)


class _Totals:
    """What listings count as a whole, compared when the last of their shards has been read, and all were sound."""

    def __init__(self, files: Files, *, decode: bool) -> None:
        self._files = files
        self._decode = decode
        self._left: Counter[str] = Counter()
        self._tallies: dict[str, Tally | None] = {}

    def expect(self, expected: Iterable[Expected | None]) -> None:
        """Count the shards of each listing."""
        for each in expected:
            if each is not None:
                self._left[each.place] += 1
                self._tallies[each.place] = Tally()
        for place, count in self._left.items():
            if count != len(self._files.listing(place).urls):
                self._tallies[place] = None  # some of its shards only

    def add(self, read: _Read, expected: Expected | None) -> Iterator[ShardstreamError]:
        """Count a shard; what is wrong with its listing, if it was the last."""
        if expected is None:
            return
        tally = self._tallies[expected.place]
        if tally is None or read.problems:
            self._tallies[expected.place] = None
        else:
            tally.merge(read.tally)
        self._left[expected.place] -= 1
        whole = self._tallies[expected.place]
        if not self._left[expected.place] and whole is not None:
            yield from compare_totals(expected.place, whole, pictures=self._decode, files=self._files)


def _ahead(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], most: int) -> Iterator[R]:
    """The results in order, so many of them begun at a time."""
    tasks: deque[Future[R]] = deque()
    try:
        for item in items:
            tasks.append(pool.submit(work, item))
            if len(tasks) >= most:
                yield tasks.popleft().result()
        while tasks:
            yield tasks.popleft().result()
    finally:
        for task in tasks:
            task.cancel()


def _placed(task: Future[list[ShardstreamError]], where: _Where) -> list[ShardstreamError]:
    return [error.at(offset=where.offset(error.key)) for error in task.result()]


def _fields(sample: RawSample) -> Iterator[tuple[str, BytesLike]]:
    return ((name, data) for name, data in sample.items() if name not in SPECIAL)


def _chunks(samples: Iterator[RawSample]) -> Iterator[list[RawSample]]:
    """As many at a time; what was read before an error comes before it."""
    chunk: list[RawSample] = []
    try:
        for sample in samples:
            chunk.append(sample)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    except ShardstreamError:
        yield chunk
        raise
    yield chunk


class _Where:
    """Offsets by key, for the samples that something is wrong with; found when the first one is."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offsets: dict[str, int] | None = None

    def offset(self, key: str | None) -> int | None:
        if self._offsets is None:
            self._offsets = {}
            with contextlib.suppress(ShardError):  # whoever reads the shard lists it; the samples before are found
                for entry in contents(self._source) if compression(self._source) is None else ():
                    self._offsets.setdefault(entry.key, entry.offset)
        return self._offsets.get(key or "")


def _decode_all(samples: Sequence[RawSample]) -> list[ShardstreamError]:
    found = []
    for sample in samples:
        for name, data in sample.items():
            if name in SPECIAL or codec.kind_of(name) in {"bytes", "pickle"}:
                continue
            try:
                codec.decode_field(name, data)
            except ShardstreamError as error:
                found.append(error.at(url=sample[URL], key=sample[KEY], field=name))
    return found

"""Read everything and list all that is wrong: what `wds verify` does.

For each shard, whole: every header and its checksum, the end of the archive, the grouping of members into samples and
that no key comes back, links; where a listing or a sidecar (DALI, Energon) lies beside, that it says the same as the
shard (`verify_index`). With `decode`, every field of every sample is decoded as its name says, pictures wholly, on a
few threads.

One fault does not hide the next: a bad sample is listed and the next one read. Only damage of the archive itself ends a
shard, since nobody knows where the next header would be; the next shard is read then.

A problem is something that is wrong. A note is something that other readers may trip over, or that no sample will show
(no end of archive, files that belong to no sample); a dataset with notes only is sound.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

from wds_tools import codec
from wds_tools.contents import compression, contents
from wds_tools.errors import ShardError, ShardstreamError
from wds_tools.sample import KEY, SPECIAL, URL, RawSample
from wds_tools.shard import ShardNotes, iter_samples
from wds_tools.sources.base import Source
from wds_tools.sources.resolve import open_source
from wds_tools.urls import Urls
from wds_tools.verify_index import Expected, compare, expectations

__all__ = ["Problem", "Verification", "verify"]

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
            url=error.url,
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
        problems: all of them, in order.
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
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
    found: Callable[[Problem], None] = lambda _: None,
) -> Verification:
    """Read the shards that `urls` mean, and hold them against their listings.

    Args:
        urls: shards, patterns, folders, listings.
        decode: whether to decode every field.
        threads: that decode; by default the CPUs this process may use.
        advance: called with the number of samples read since the last call.
        found: called with each problem as it is found.

    Raises:
        NoShardsError, UsageError: the urls themselves are wrong. All that is wrong with what they name is listed.
    """
    work = _Work(decode=decode, advance=advance, found=found)
    shards = expectations(urls, work.problem)
    with ThreadPoolExecutor(threads or len(os.sched_getaffinity(0)), thread_name_prefix="shardstream-verify") as pool:
        for url, expected in shards.items():
            work.shard(url, expected, pool)
    return work.result


class _Work:
    """The running result; shards are read one after the other."""

    def __init__(self, *, decode: bool, advance: Callable[[int], None], found: Callable[[Problem], None]) -> None:
        self.result = Verification()
        self._decode = decode
        self._advance = advance
        self._found = found

    def problem(self, error: ShardstreamError) -> None:
        problem = Problem.of(error)
        self.result.problems.append(problem)
        self._found(problem)

    def shard(self, url: str, expected: Expected | None, pool: ThreadPoolExecutor) -> None:
        self.result.shards += 1
        try:
            with open_source(url) as source:
                self.result.bytes += source.size()
                samples = self._read(source, pool)
                for error in compare(source, samples, expected):
                    self.problem(error)
        except ShardstreamError as error:
            self.problem(error.at(url=url))

    def _read(self, source: Source, pool: ThreadPoolExecutor) -> int:
        """Everything in the shard once, from the first header to the end. The number of samples."""
        notes = ShardNotes()
        try:
            samples = iter_samples(source, notes=notes, on_bad=self.problem)
            self._go_through(samples, source, pool)
        finally:
            self.result.samples += notes.samples
            if warnings := dataclasses.replace(notes, refused=0).warnings():  # those are problems already
                self.result.notes[source.url] = warnings
        return notes.samples + notes.refused

    def _go_through(self, samples: Iterator[RawSample], source: Source, pool: ThreadPoolExecutor) -> None:
        where = _Where(source)
        tasks: deque[Future[list[ShardstreamError]]] = deque()
        try:
            for chunk in _chunks(samples):
                if self._decode:
                    tasks.append(pool.submit(_decode_all, chunk))
                if len(tasks) > AHEAD:
                    self._finish(tasks.popleft(), where)
                self._advance(len(chunk))
        finally:
            while tasks:
                self._finish(tasks.popleft(), where)

    def _finish(self, task: Future[list[ShardstreamError]], where: _Where) -> None:
        for error in task.result():
            self.problem(error.at(offset=where.offset(error.key)))


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

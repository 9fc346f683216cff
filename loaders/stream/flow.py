"""One rank's samples of one epoch: its pieces opened several at a time, in turn a sample of each, through the buffer.

What is held between reading and decoding is the encoded bytes of the fields that the batch will have, copied out of
the reading windows; each sample is counted with 512 bytes more, which is what Python's objects around them take
at most (measured by tracemalloc: 390 to 450 for one to three fields).

Where the epoch's length is stated the pieces begin again when they and the buffer are used up, so that no sample comes
a second time before all have come once; that is counted. Otherwise, and where there is only standard input, which
comes once, the flow ends with them.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from loaders.arguments import check_count, check_flag
from loaders.draws import check_seed
from loaders.fields import FieldSpec
from loaders.policy import Policy, Quarantine
from loaders.stream.command import Halted
from loaders.stream.opening import OpenStream
from loaders.stream.order import Gauge, Piece, deal, shuffled, words
from loaders.stream.spelling import STDIN
from wds_tools.errors import DataError, MissingFieldError, ShardError, TooFewSamplesError, UsageError
from wds_tools.sample import KEY, URL, RawSample
from wds_tools.sources.options import Remote

__all__ = ["Flow", "Item", "Streams", "Tail", "Tally"]

Tail = Literal["drop", "exact"]

_OBJECTS = 512

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What is read, in which order; the same on all ranks."""

    urls: tuple[str, ...]
    specs: tuple[FieldSpec, ...]
    seed: int
    shuffle: bool
    shuffle_bytes: int
    interleave: int
    epoch_samples: int | None
    tail: Tail
    on_error: Policy
    remote: Remote | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for name in ("shuffle_bytes", "interleave", "epoch_samples"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value)
        check_flag("shuffle", self.shuffle)
        if self.tail not in get_args(Tail):
            raise UsageError(f"tail is {self.tail!r}, expected one of {', '.join(get_args(Tail))}")
        if self.tail == "exact" and self.epoch_samples is not None:
            raise UsageError('tail="exact" takes what the streams have, epoch_samples= states it', cure="Pass one.")


class Item(NamedTuple):
    """A sample on its way: the wanted fields, encoded, or what is wrong with it."""

    sample: RawSample
    nbytes: int
    fault: DataError | None


@dataclass
class Tally:
    """What was read since the loader was made; written by one thread."""

    gauge: Gauge = field(default_factory=Gauge)
    opened: int = 0
    again: int = 0
    damaged: Counter[str] = field(default_factory=Counter)


class Flow:
    """See the module. `items` is iterated once, in one thread; `halt` may be called from any."""

    def __init__(
        self, streams: Streams, *, epoch: int, rank: int, world_size: int, tally: Tally, quarantine: Quarantine
    ) -> None:
        self._streams = streams
        self._epoch, self._rank = epoch, rank
        self._tally = tally
        self._quarantine = quarantine
        self._pieces, self._others = deal(
            len(streams.urls),
            seed=streams.seed,
            epoch=epoch,
            shuffle=streams.shuffle,
            rank=rank,
            world_size=world_size,
        )
        self._stop = threading.Event()
        self._open: set[OpenStream] = set()
        self._draws = words(seed=streams.seed, epoch=epoch, rank=rank)
        self._begun = self._given = 0
        self._damage: ShardError | None = None

    def items(self) -> Iterator[Item]:
        """The samples, each held only by who takes it.

        Raises:
            TooFewSamplesError: the epoch has a stated length, and all shards are empty.
            ShardError: damage, unless it is skipped.
            UnavailableError: a stream that cannot be read.
        """
        try:
            if self._streams.epoch_samples is None:
                yield from self._pass(self._pieces)
                return
            pieces = self._pieces
            while pieces:
                before = self._given
                yield from self._pass(pieces)
                pieces = self._following(pieces, gave=self._given > before)
        finally:
            self.close()

    def halt(self) -> None:
        """Let reading end soon, without waiting for it: for a finalizer, and before waiting for the reading thread."""
        self._stop.set()
        for opened in tuple(self._open):
            opened.kill()

    def close(self) -> None:
        """Close what is open, once no thread reads any more; twice does nothing."""
        self._stop.set()
        while self._open:
            self._open.pop().close()

    def _pass(self, pieces: list[Piece]) -> Iterator[Item]:
        """Each sample of the pieces once."""
        streams, gauge = self._streams, self._tally.gauge
        gauge.nbytes = 0
        items = self._interleaved(pieces)
        return (
            shuffled(items, limit=streams.shuffle_bytes, draws=self._draws, gauge=gauge) if streams.shuffle else items
        )

    def _following(self, pieces: list[Piece], *, gave: bool) -> list[Piece]:
        """What is read when `pieces` are used up: the same again; if they had no sample, once what other ranks read."""
        if gave:
            return [piece for piece in pieces if self._streams.urls[piece.shard] != STDIN]
        names = ", ".join(self._streams.urls[piece.shard] for piece in pieces[:3])
        problem = f"none of the {len(pieces)} shards of rank {self._rank} has a sample for it: {names}"
        if self._damage is not None:
            problem += f" (the last damage skipped: {self._damage})"
        if not self._others:
            raise TooFewSamplesError(problem, cure="Leave empty shards out, or use fewer ranks.")
        log.warning("%s; it reads those of other ranks instead", problem)
        others, self._others = self._others, []
        return others

    def _interleaved(self, pieces: list[Piece]) -> Iterator[Item]:
        """A sample of each open piece in turn; where one ends, the next is opened."""
        waiting = iter(pieces)
        turns: deque[tuple[OpenStream, Iterator[Item]]] = deque()
        while True:
            turns.extend(map(self._begin, itertools.islice(waiting, self._streams.interleave - len(turns))))
            if not turns:
                return
            turn = turns.popleft()
            opened, items = turn
            if self._stop.is_set():
                raise Halted
            item = next(items, None)
            if item is None:
                opened.close()
                self._open.discard(opened)
                continue
            turns.append(turn)
            self._given += 1
            yield item
            del item  # or it would be held here while it is on its way

    def _begin(self, piece: Piece) -> tuple[OpenStream, Iterator[Item]]:
        """Open a piece: the stream, and the samples of it that are this rank's."""
        opened = OpenStream(self._streams.urls[piece.shard], stop=self._stop, remote=self._streams.remote)
        self._open.add(opened)
        self._begun += 1
        self._tally.opened += 1
        self._tally.again += self._begun > len(self._pieces)
        samples = self._lenient(opened) if self._streams.on_error == "skip" else opened.samples(None)
        return opened, map(self._hold, itertools.islice(samples, piece.part, None, piece.parts))

    def _lenient(self, opened: OpenStream) -> Iterator[RawSample]:
        try:
            yield from opened.samples(lambda fault: self._quarantine.add(-1, fault, instead=None))
        except ShardError as error:
            self._damage = error
            kind = type(error).__name__
            self._tally.damaged[kind] += 1
            if self._tally.damaged[kind] == 1:
                log.warning("skipped the rest of a shard (%s, further ones are only counted): %s", kind, error)

    def _hold(self, raw: RawSample) -> Item:
        kept: RawSample = {KEY: raw[KEY], URL: raw[URL]}
        nbytes = _OBJECTS
        for spec in self._streams.specs:
            try:
                found = spec.find(raw)
            except MissingFieldError as error:  # raised or skipped where the others are: when its turn comes
                return Item(kept, nbytes, error.at(url=raw[URL], key=raw[KEY]))
            if found is not None and found not in kept:
                kept[found] = bytes(raw[found])
                nbytes += len(kept[found])
        return Item(kept, nbytes, None)

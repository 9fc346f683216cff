"""Which rank reads which shards in which order, and the shuffle buffer. Pure: a function of seed, epoch and the data.

Shards are permuted by (seed, epoch) and dealt to the ranks like cards. Where there are fewer shards than ranks each
shard is dealt in parts: part i of P is each P-th of its samples. All P readers read it wholly and keep their part,
which costs P times the reading, and is said. Ranks whose share is smaller see it more often in an epoch of stated
length; the deal differs from epoch to epoch, so in the long run each sample comes as often as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from loaders.draws import Purpose, key_of, permutation

__all__ = ["Gauge", "Piece", "deal", "parts_for", "shuffled", "words"]


class Piece(NamedTuple):
    """A shard, or a part of it: samples `part`, `part + parts`, `part + 2 * parts`, ..."""

    shard: int
    part: int
    parts: int


def parts_for(shards: int, world_size: int) -> int:
    """Into how many parts each shard has to be cut for every rank to get one."""
    return -(-world_size // shards)


def deal(
    shards: int, *, seed: int, epoch: int, shuffle: bool, rank: int, world_size: int
) -> tuple[list[Piece], list[Piece]]:
    """What a rank reads in an epoch, in order, and what the others read.

    Over all ranks each piece is read exactly once, and each rank has at least one.
    """
    parts = parts_for(shards, world_size)
    pieces = [Piece(shard, part, parts) for part in range(parts) for shard in range(shards)]
    if shuffle:
        pieces = [pieces[i] for i in permutation(len(pieces), key_of(seed, epoch, Purpose.STREAM_SHARDS)).tolist()]
    others = [piece for at, piece in enumerate(pieces) if at % world_size != rank]
    return pieces[rank::world_size], others


def words(*, seed: int, epoch: int, rank: int) -> Iterator[int]:
    """Draws of 64 bits without end, for the shuffle buffer of one rank in one epoch."""
    key = np.array(key_of(seed, epoch, Purpose.STREAM_BUFFER), dtype=np.uint64)
    stream = np.random.Philox(key=key, counter=np.array([0, 0, rank, 0], dtype=np.uint64))
    while True:
        yield from stream.random_raw(1024).tolist()


class Gauge:
    """How many bytes are held, and were at most. Written by one thread."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.peak = 0

    def add(self, nbytes: int) -> None:
        self.nbytes += nbytes
        self.peak = max(self.peak, self.nbytes)


class _Weighed(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Weighed)


def shuffled(items: Iterable[T], *, limit: int, draws: Iterator[int], gauge: Gauge) -> Iterator[T]:
    """The items in another order: up to `limit` bytes are held, and of those held each is as likely to be the next.

    The first one leaves when an eighth is full, one for every two that come in until all is full, and then as many
    as make room for the next: training begins early, and the order mixes well soon. A single item that is larger
    than the limit is held alone.
    """
    held: list[T] = []
    every_other = False

    def take() -> T:
        at = next(draws) % len(held)
        held[at], held[-1] = held[-1], held[at]
        gauge.add(-held[-1].nbytes)
        return held.pop()

    for item in items:
        while held and gauge.nbytes + item.nbytes > limit:
            yield take()
        held.append(item)
        gauge.add(item.nbytes)
        del item  # or it would be held here while it is on its way
        every_other = not every_other
        if every_other and gauge.nbytes >= limit // 8:
            yield take()
    while held:
        yield take()

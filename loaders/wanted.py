"""What is to be fetched of remote shards, in which order, and when it may be forgotten. No thread, no network.

The plan is announced about a thousand samples ahead (`schedule`). The first sample of a block that is announced brings
the whole rest of the block onto the queue, as one extent of bytes, behind all that is needed before it. Each announced
sample holds a claim on its extent until it was decoded; the block itself holds one until all places that its lane has
in it were announced. What nobody claims any more is forgotten, and its bytes are room for the next.

Somebody waits for the first batch, and its samples lie in as many blocks: of these only the samples themselves are
fetched at first, and the blocks around them afterwards, each with a hole where such a sample was. So a first batch of
64 pictures takes 7 MB, and not the 256 MiB of its blocks, and yet no byte is fetched twice.

Extents that lie side by side are taken together, up to `MERGED_BYTES`, if they are needed at about the same time: a
small dataset has nearly all its blocks in the queue, and neighbours that are needed a thousand samples later would fill
the budget for that long (on 4,000 pictures at 40 ms: 310 a second, with the threads waiting for the host, 63%).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["MERGED_BYTES", "Extent", "Request", "Spot", "Wanted"]

MERGED_BYTES = 4 << 20
"""Of one request made of several extents. At 40 ms a round trip, 8 in flight, that is 800 MB/s."""
NEAR = 64
"""Places in the queue that may lie between extents that are taken together: about what the next moments need."""


class Spot(NamedTuple):
    """A range of bytes of a shard, by its number in the dataset. Two are made for each sample, so it is a tuple."""

    shard: int
    begin: int
    end: int


@dataclass(eq=False, slots=True)
class Request:
    """What is fetched in one go.

    Attributes:
        extents: of one shard, each beginning where the one before it ends.
        data: the bytes, once they are there; None where they lie on the disk.
        error: why they cannot be had.
        done: whether it is settled, this way or that.
        live: extents that are claimed.
        held: bytes that it counts for.
    """

    extents: list[Extent]
    data: memoryview | None = None
    error: BaseException | None = None
    done: bool = False
    live: int = 0
    held: int = 0

    @property
    def spot(self) -> Spot:
        """The range of bytes."""
        first, last = self.extents[0].spot, self.extents[-1].spot
        return Spot(first.shard, first.begin, last.end)

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return sum(extent.nbytes for extent in self.extents)


@dataclass(eq=False, slots=True)
class Extent:
    """A range of bytes that somebody will need.

    Attributes:
        number: the how many-th it came to the queue.
        claims: how many announced samples need it, and one more while further ones may be announced.
        request: with what it is fetched; None while it waits in the queue.
    """

    spot: Spot
    number: int
    claims: int = 0
    request: Request | None = None

    @property
    def nbytes(self) -> int:
        """How many bytes it is."""
        return self.spot.end - self.spot.begin


@dataclass(eq=False, slots=True)
class _Block:
    """A piece of the plan that is being announced."""

    extents: list[Extent]
    left: int
    """Places of it that were not announced yet."""


@dataclass(eq=False)
class Wanted:
    """See the module. Used under its owner's lock.

    Attributes:
        budget: bytes that may be held; more only where somebody waits for what has not been asked for.
        held: bytes of the requests that are under way, or there and claimed.
        let_go: gets the memory of requests that nobody reads from any more.
    """

    budget: int
    held: int = 0
    let_go: Callable[[memoryview], None] | None = None
    _count: int = 0
    _queue: deque[Extent] = field(default_factory=deque)
    _urgent: deque[Extent] = field(default_factory=deque)
    _begins: dict[tuple[int, int], Extent] = field(default_factory=dict)
    _ends: dict[tuple[int, int], Extent] = field(default_factory=dict)
    _blocks: dict[Spot, _Block] = field(default_factory=dict)
    _holes: dict[Spot, list[Spot]] = field(default_factory=dict)

    def claim(self, sample: Spot, piece: Spot, left: int) -> Extent:
        """The extent that holds an announced sample, claimed for it.

        Args:
            sample: where it lies.
            piece: the piece of the plan that it belongs to.
            left: places of the piece from this one on, as `Order.pieces` says.
        """
        block = self._blocks.get(piece)
        if block is None:
            block = self._blocks[piece] = self._begun(sample, piece, left)
        for extent in block.extents:
            shard, begin, end = extent.spot
            if begin <= sample.begin and sample.end <= end and shard == sample.shard:
                break
        else:  # it was a hole, and comes once more: a copy
            extent = self._queued(sample)
        extent.claims += 1
        block.left -= 1
        if block.left <= 0:
            self._close(piece)
        return extent

    def claim_alone(self, sample: Spot, piece: Spot | None = None) -> Extent:
        """As `claim`, fetching nothing but the sample; what is fetched of its piece later leaves it out."""
        extent = self._begins.get((sample.shard, sample.begin))
        if extent is None or extent.spot != sample:
            extent = self._queued(sample)
            if piece is not None:
                self._holes.setdefault(piece, []).append(sample)
        extent.claims += 1
        return extent

    def end_epoch(self) -> None:
        """Nothing more will be announced of the blocks that are open."""
        for piece in list(self._blocks):
            self._close(piece)
        self._holes.clear()

    def release(self, extent: Extent) -> bool:
        """Give one claim back; whether that made room."""
        extent.claims -= 1
        if extent.claims:
            return False
        request = extent.request
        if request is None:
            self._forget(extent)  # the queue passes over it
            return True
        request.live -= 1
        if not request.done or request.live:
            return False
        self._let_go(request)
        return True

    @property
    def waiting(self) -> bool:
        """Whether something may be left to fetch."""
        return bool(self._queue or self._urgent)

    def take(self) -> Request | None:
        """What is to be fetched next; None where nothing is, or where it has no room."""
        while self._urgent:
            extent = self._urgent.popleft()
            if extent.request is None and extent.claims:
                return self._taken(extent)
        while self._queue and (self._queue[0].request is not None or not self._queue[0].claims):
            self._queue.popleft()
        if not self._queue:
            return None
        extent = self._queue[0]
        if self.held and self.held + extent.nbytes > self.budget:
            return None
        self._queue.popleft()
        return self._taken(extent)

    def settle(self, request: Request, *, data: memoryview | None = None, error: BaseException | None = None) -> None:
        """A request has ended: with its bytes, with bytes that lie on the disk (None), or with an error."""
        request.data, request.error, request.done = data, error, True
        if data is None or not request.live:
            self._let_go(request)

    def urge(self, extent: Extent) -> None:
        """Somebody waits for it."""
        if extent.request is None:
            self._urgent.append(extent)

    def _begun(self, sample: Spot, piece: Spot, left: int) -> _Block:
        """The extents of a piece that was not begun: that of the sample first."""
        spots = list(_without(piece, self._holes.pop(piece, ())))
        spots.sort(key=lambda spot: not _within(sample, spot))
        extents = [self._queued(spot) for spot in spots]
        for extent in extents:
            extent.claims += 1
        return _Block(extents, left)

    def _close(self, piece: Spot) -> None:
        for extent in self._blocks.pop(piece).extents:
            self.release(extent)

    def _queued(self, spot: Spot) -> Extent:
        extent = Extent(spot, self._count)
        self._count += 1
        self._queue.append(extent)
        self._begins[spot.shard, spot.begin] = self._ends[spot.shard, spot.end] = extent
        return extent

    def _forget(self, extent: Extent) -> None:
        spot = extent.spot
        for table, key in ((self._begins, spot.begin), (self._ends, spot.end)):
            if table.get((spot.shard, key)) is extent:
                del table[spot.shard, key]

    def _taken(self, extent: Extent) -> Request:
        request = Request(self._neighbours(extent, room=self.budget - self.held - extent.nbytes))
        for each in request.extents:
            each.request = request
            request.live += 1
            self._forget(each)
        request.held = request.nbytes
        self.held += request.held
        return request

    def _neighbours(self, extent: Extent, *, room: int) -> list[Extent]:
        """The extent and those beside it that wait in the queue and fit."""
        found = deque([extent])
        size = extent.nbytes
        for table, at_end in ((self._begins, True), (self._ends, False)):
            while True:
                spot = found[-1 if at_end else 0].spot
                other = table.get((spot.shard, spot.end if at_end else spot.begin))
                if other is None or other.number - extent.number > NEAR:
                    break
                if other.nbytes > room or size + other.nbytes > MERGED_BYTES:
                    break
                size, room = size + other.nbytes, room - other.nbytes
                (found.append if at_end else found.appendleft)(other)
        return list(found)

    def _let_go(self, request: Request) -> None:
        self.held -= request.held
        data, request.held, request.data = request.data, 0, None
        if data is not None and self.let_go is not None:
            self.let_go(data)


def _within(inner: Spot, outer: Spot) -> bool:
    return outer.begin <= inner.begin and inner.end <= outer.end and inner.shard == outer.shard


def _without(piece: Spot, holes: Sequence[Spot]) -> Iterator[Spot]:
    """What is left of a piece."""
    begin = piece.begin
    for hole in sorted(holes, key=lambda hole: hole.begin):
        if begin < hole.begin:
            yield Spot(piece.shard, begin, hole.begin)
        begin = max(begin, hole.end)
    if begin < piece.end:
        yield Spot(piece.shard, begin, piece.end)

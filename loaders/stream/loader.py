"""StreamLoader: batches from what cannot be indexed. The constructor stores and checks; nothing is opened by it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from loaders.fields import DEFAULT_FIELDS, ImageSpec, parse_fields
from loaders.job import Cursor
from loaders.policy import OnError, policy_of
from loaders.reading import Reading
from loaders.slab import Allocate, plain_memory
from loaders.state import backend
from loaders.stream.flow import Streams, Tail
from loaders.stream.job import Making
from loaders.stream.report import StreamReport
from loaders.stream.session import StreamSession
from loaders.stream.spelling import spell
from loaders.stream.state import StreamState, state_of
from loaders.world import check_world, world_of_environment
from wds_tools.cores import usable_cores
from wds_tools.errors import LengthUnknownError, UsageError
from wds_tools.pictures.options import Pictures
from wds_tools.urls import Urls, urls_shown

__all__ = ["StreamLoader"]

_INTERLEAVE = 8
_SHUFFLE_BYTES = 128 << 20  # some 1,200 pictures of ImageNet's size


class StreamLoader:
    """Batches from streams: compressed shards, the output of commands, standard input.

    Use it for what a `ShardLoader` cannot read; it promises less:

    - Ranks share shards, not samples. An epoch over several ranks has the length that you state, and gives as many
      batches on each; a rank that has used its shards up begins them again, which `report()` counts, so those of
      smaller shards see them more often. With fewer shards than ranks each shard is read by several, which keep every
      second (third, ...) sample.
    - Order is a function of seed, epoch, rank, world size, shards and options: repeatable, but another world size
      gives another order.
    - Samples mix within `shuffle_bytes` of `interleave` shards. Class-sorted shards stay sorted in part.
    - A state resumes exactly, but by reading up to its place again, and with the same world size and options only.

    All else is as with ShardLoader. When an epoch ends or is broken off, its threads, descriptors and commands end.

    Args:
        urls: as for ShardLoader; also "-" (standard input, once) and, with allow_pipe, "pipe:COMMAND" (its output is a
            shard; run without a shell; a status other than 0 is an error). A list may mix them. Compression is seen by
            content: gzip, zstd, bzip2, xz, or none.
        batch_size: samples per batch of this rank.
        fields, image: the columns, and what pictures become, as for ShardLoader.
        transform, collate: of one decoded sample, and of a batch's list of them, as for ShardLoader.
        seed: 0 to 2**64 - 1.
        shuffle: False reads shards and samples in order.
        shuffle_bytes: encoded bytes that the shuffle buffer holds; more mixes better. None means 128 MiB.
        interleave: shards that are open at once, a sample from each in turn. None means 8, and 1 without shuffle.
        epoch_samples: how many samples an epoch has, over all ranks; rounded down to whole batches of all ranks. None
            takes what is there: for one rank only, without `len`.
        tail: without epoch_samples, "drop" leaves out a last batch that is not full, "exact" gives it short.
        on_error: "raise"; or "skip" to replace a bad sample by one near it (under tail="exact" to leave it out), and
            to leave out the rest of a damaged shard. What cannot be had is always raised.
        threads: decode threads; None means the cores that this process may use. One more thread reads.
        rank, world_size: of this process; None means RANK and WORLD_SIZE as torchrun sets them, else 0 and 1.
        prefetch: whole batches made ahead of the one that the caller has; None means as `read` says, 2 by default.
        read: how remote shards are asked for (`Reading.remote`). They are streamed, so that blocks and caches play no
            part.
        pictures: what decoding does with transparency, orientation, profiles and bombs.
        allow_pipe: run `pipe:` urls. Only for urls that you wrote yourself: they may say anything.

    Raises:
        UsageError: from the constructor, an argument that cannot be; later, see its subclasses.
    """

    def __init__(
        self,
        urls: Urls,
        *,
        batch_size: int,
        fields: Sequence[str] = DEFAULT_FIELDS,
        image: ImageSpec = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        collate: Callable[[list[dict[str, Any]]], Any] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        shuffle_bytes: int | None = None,
        interleave: int | None = None,
        epoch_samples: int | None = None,
        tail: Tail = "drop",
        on_error: OnError = "raise",
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        prefetch: int | None = None,
        read: Reading = Reading(),  # noqa: B008 - frozen
        pictures: Pictures = Pictures(),  # noqa: B008 - frozen
        allow_pipe: bool = False,
    ) -> None:
        if (rank is None) != (world_size is None):
            raise UsageError("only one of rank and world_size is given", cure="Pass both, or neither.")
        self.urls = urls
        self.allow_pipe = allow_pipe
        self._making = Making(
            batch_size=batch_size,
            transform=transform,
            collate=collate,
            threads=threads if threads is not None else usable_cores(),
            prefetch=prefetch if prefetch is not None else read.prefetch,
            pictures=pictures,
        )
        self._streams = Streams(
            urls=(),  # looked up on first use
            specs=parse_fields(fields, image),
            seed=seed,
            shuffle=shuffle,
            shuffle_bytes=shuffle_bytes if shuffle_bytes is not None else _SHUFFLE_BYTES,
            interleave=interleave if interleave is not None else _INTERLEAVE if shuffle else 1,
            epoch_samples=epoch_samples,
            tail=tail,
            on_error=policy_of(on_error),
            remote=read.remote,
        )
        self._world = (rank, world_size)
        self._session: StreamSession | None = None
        self._cursor = Cursor(0, 0)
        self._broken_off = False  # the epoch at the cursor was begun and not finished
        self._loaded = False
        self._iteration = self._running = 0
        self._given: int | None = None  # the epoch of the iteration that the caller is in

    # Places where a framework puts its own.

    def _resolve_world(self) -> tuple[int, int]:
        return world_of_environment()

    def _allocator(self) -> Allocate:
        return plain_memory

    def _present(self, batch: Any) -> Any:
        return batch

    def _begin(self) -> StreamSession:
        if self._session is None:
            rank, world_size = self._world
            if rank is None or world_size is None:
                rank, world_size = self._resolve_world()
            rank, world_size = check_world(rank, world_size)
            self._session = StreamSession(
                replace(self._streams, urls=spell(self.urls, allow_pipe=self.allow_pipe, remote=self._streams.remote)),
                self._making,
                rank=rank,
                world_size=world_size,
                allocate=self._allocator(),
            )
            weakref.finalize(self, self._session.abandon)
        return self._session

    def __len__(self) -> int:
        """Batches of an epoch on each rank; LengthUnknownError, which is a TypeError too, where none is stated."""
        batches = self._begin().batches()
        if batches is None:
            raise LengthUnknownError(
                "a stream has no length before it has been read", cure="State one with epoch_samples=."
            )
        return batches

    def __iter__(self) -> Iterator[Any]:
        session = self._begin()
        self._given = None  # an iteration before this one is over
        if self.epoch != self._cursor.epoch:
            self._cursor, self._broken_off = Cursor(self.epoch, 0), False
        self._iteration += 1  # and no more: frameworks ask for an iterator, and for another before they take a batch
        return self._iterate(session, self._iteration)

    def _iterate(self, session: StreamSession, iteration: int) -> Iterator[Any]:
        self._running = iteration
        try:
            last = False
            while not last:
                if iteration != self._iteration or session is not self._session:
                    raise UsageError(
                        "the loader was iterated, moved or closed while this iteration ran",
                        cure="Use one iteration at a time, or one loader for each.",
                    )
                job = session.take(self._cursor)
                self._given, self._cursor, last = self._cursor.epoch, job.after, job.last
                self._broken_off, self._loaded = not last, False
                batch = self._present(job.batch)
                del job  # or this frame would keep the batch's memory while the caller has let it go
                yield batch
                del batch
        finally:
            if self._running == iteration:
                session.rest()
            if self._iteration == iteration:
                self._given = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration gives; while one runs, the epoch that it gives."""
        if self._given is not None:
            return self._given
        empty = self._cursor.position > 0 and self._begin().batches(self._cursor.position) == 0
        return self._cursor.epoch + (self._broken_off or empty)  # there is no empty epoch

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its start; a loaded state's own epoch keeps its place."""
        if not (self._loaded and epoch == self._cursor.epoch):
            self._move(Cursor(epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands: JSON, under 400 bytes, equal on all ranks. Counts what the caller got."""
        session = self._begin()
        return state_of(session.streams, self._cursor, world_size=session.world_size).as_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. The next iteration first reads up to its place, without decoding.

        Raises:
            StateError: it is of other shards, options or another world size; the message says what changed.
        """
        session = self._begin()
        loaded = StreamState.of_dict(state)
        loaded.check(state_of(session.streams, self._cursor, world_size=session.world_size))
        self._move(Cursor(loaded.epoch, loaded.position))
        self._loaded = True

    def report(self) -> StreamReport:
        """What was done so far and where the time went."""
        session, tally = self._begin(), self._begin().tally
        counts = session.stats.report(
            threads=self._making.threads,
            slabs_made=session.slabs.made,
            slabs_reused=session.slabs.reused,
            skipped=session.skipped,
            backend=backend(),
            prefetch=self._making.prefetch,
            readers=1,
        )
        return StreamReport(
            **vars(counts),
            shards_opened=tally.opened,
            shards_again=tally.again,
            shards_damaged=tally.damaged.total(),
            buffer_bytes=tally.gauge.peak,
        )

    def close(self) -> None:
        """End threads, streams and commands; twice does nothing, and iterating begins anew."""
        if self._session is not None:
            self._session.rest()
            self._session = self._given = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        fields = ", ".join(spec.text for spec in self._streams.specs)
        return (
            f"{type(self).__name__}({urls_shown(self.urls)}, batch_size={self._making.batch_size}, fields=({fields}))"
        )

    def _repr_html_(self) -> str:
        from loaders.notebook import facts_html, urls_in_words

        streams = self._streams
        facts = {
            "urls": urls_in_words(self.urls),
            "batch_size": self._making.batch_size,
            "fields": ", ".join(spec.text for spec in streams.specs),
            "order": f"shuffled within {streams.shuffle_bytes:,} bytes of {streams.interleave} shards, "
            f"seed {streams.seed}"
            if streams.shuffle
            else "shard order",
            "samples an epoch": streams.epoch_samples,
            "threads": self._making.threads,
        }
        return facts_html(type(self).__name__, facts)

    def _move(self, cursor: Cursor) -> None:
        self._cursor, self._broken_off, self._loaded, self._given = cursor, False, False, None
        self._iteration += 1

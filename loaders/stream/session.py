"""A stream loader at work on one rank: the reading thread's flow, cut into batches that the engine's threads decode.

One thread reads, decompresses and shuffles (the engine's feeder), so that order is a matter of that thread alone; the
decode threads get whole batches of encoded samples. Measured on two busy cores with samples of 107 KB that need no
decoding: 6,000 a second from plain shards, 5,000 from zstd, 4,300 through `cat`, 2,500 from gzip. Everything ends with
its epoch: threads, streams and commands.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from loaders.crops import DRAW_STEPS, Geometry, Mask
from loaders.decode import SampleDecoder
from loaders.draws import Purpose, key_of, uniforms
from loaders.engine import Engine, closed_meanwhile
from loaders.job import CHUNK, Cursor
from loaders.policy import Quarantine
from loaders.slab import Allocate, Slabs
from loaders.stacked import memory_of
from loaders.stats import Stats
from loaders.stream.command import Halted
from loaders.stream.cuts import Cut, Window, found, stated
from loaders.stream.flow import Flow, Streams, Tally
from loaders.stream.job import Maker, Making, StreamJob
from loaders.stream.order import parts_for
from loaders.stream.spelling import STDIN
from wds_tools.errors import TooFewSamplesError, UsageError

__all__ = ["StreamSession"]

log = logging.getLogger(__name__)


class StreamSession:
    """See the module. Built by the loader on first use; `rest` ends what runs, and the next `take` begins anew."""

    def __init__(self, streams: Streams, making: Making, *, rank: int, world_size: int, allocate: Allocate) -> None:
        _check(streams, making, world_size)
        self.streams, self.making = streams, making
        self.rank, self.world_size = rank, world_size
        self.stats, self.tally = Stats(), Tally()
        self.slabs = Slabs(allocate, keep=(making.prefetch + 2) * len(streams.specs))
        self._quarantine = Quarantine(None, fingerprint="")
        self._maker = Maker(streams, making, stats=self.stats, quarantine=self._quarantine)
        self._leader = next((s.image for s in streams.specs if s.image and not isinstance(s.image, Mask)), None)
        self._random = any(isinstance(s.image, Geometry) and s.image.random for s in streams.specs)
        self._engine: Engine[StreamJob, SampleDecoder] | None = None
        self._flow: Flow | None = None
        self._next: Cursor | None = None

    def batches(self, position: int = 0) -> int | None:
        """Batches of each rank from a position on; None where no length is stated."""
        length = self.streams.epoch_samples
        return None if length is None else max(0, length - position) // (self.making.batch_size * self.world_size)

    @property
    def skipped(self) -> Counter[str]:
        """Samples, and rests of shards, that were left out, by the name of the error."""
        return self._quarantine.counts + self.tally.damaged

    def take(self, cursor: Cursor) -> StreamJob:
        """The finished batch at `cursor`. Goes on where the last call ended, or begins anew; rests with the epoch.

        Where less than a batch is left, as behind a state of a run with smaller ones, it is the next epoch's first.
        """
        self.stats.begin()
        begun = time.perf_counter()
        engine = self._engine
        if engine is None or cursor != self._next:
            engine = self._begin(cursor)
        self._next = None
        try:
            job = engine.take()
        except Halted:
            raise closed_meanwhile() from None
        except StopIteration:
            if engine is not self._engine:
                raise closed_meanwhile() from None
            return self.take(Cursor(cursor.epoch + 1, 0))
        if job.last:
            self.rest()
        else:
            self._next = job.after
        self.stats.handed_out(job.slots - len(job.dropped), time.perf_counter() - begun)
        return job

    def rest(self) -> None:
        """End the threads, streams and commands; twice does nothing."""
        if self._engine is not None:
            self._engine.check_thread()
        engine, self._engine = self._engine, None
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.halt()
        if engine is not None:
            engine.close()
        if flow is not None:
            flow.close()

    def abandon(self) -> None:
        """As rest, without waiting: for a finalizer."""
        if self._engine is not None:
            self._engine.abandon()
        if self._flow is not None:
            self._flow.halt()

    def _begin(self, cursor: Cursor) -> Engine[StreamJob, SampleDecoder]:
        self.rest()
        flow = self._flow = Flow(
            self.streams,
            epoch=cursor.epoch,
            rank=self.rank,
            world_size=self.world_size,
            tally=self.tally,
            quarantine=self._quarantine,
        )
        engine = self._engine = Engine(
            self._maker.make_chunk, self._decoder, threads=self.making.threads, ahead=self.making.prefetch
        )
        engine.start(self._jobs(flow, cursor))
        return engine

    def _decoder(self) -> SampleDecoder:
        return SampleDecoder(self.streams.specs, self.making.pictures)

    # What follows runs in the feeder thread.

    def _jobs(self, flow: Flow, cursor: Cursor) -> Iterator[StreamJob]:
        reserve = self.streams.on_error == "skip" and self.streams.tail == "drop"
        window = Window(flow.items(), self.stats, reserve=reserve)
        window.skip(cursor.position // self.world_size)
        position = cursor.position
        for cut in self._cuts(window, position):
            yield self._job(cursor.epoch, position, cut)
            position += len(cut.items) * self.world_size
            del cut  # or the encoded samples would stay here until the next batch is cut

    def _cuts(self, window: Window, position: int) -> Iterator[Cut]:
        size, length, batches = self.making.batch_size, self.streams.epoch_samples, self.batches(position)
        if length is None or batches is None:
            return found(window, size=size, exact=self.streams.tail == "exact")
        return stated(window, size=size, batches=batches, epoch_samples=length)

    def _job(self, epoch: int, position: int, cut: Cut) -> StreamJob:
        specs, making = self.streams.specs, self.making
        slots, dicts = len(cut.items), making.transform is not None or making.collate is not None
        after = position + slots * self.world_size
        places = np.arange(position + self.rank, after, self.world_size, dtype=np.int64)
        key = key_of(self.streams.seed, epoch, Purpose.AUGMENT)
        return StreamJob(
            items=cut.items,
            spares=cut.spares,
            places=places,
            draws=uniforms(key, places, DRAW_STEPS) if self._random else None,
            valid=np.ones(slots, dtype=np.bool_),
            mark_valid=False,
            names=tuple(spec.name for spec in specs),
            empties=[spec.empty(self._leader) for spec in specs],
            slabs=[None if dicts else memory_of(spec, slots, self.slabs) for spec in specs],
            transformed=dicts,
            collate=making.collate,
            after=Cursor(epoch + 1, 0) if cut.last else Cursor(epoch, after),
            last=cut.last,
            chunk=max(1, min(CHUNK, -(-slots // making.threads))),
        )


def _check(streams: Streams, making: Making, world_size: int) -> None:
    """Raise what is wrong before the first step, on every rank alike."""
    shards, length = len(streams.urls), streams.epoch_samples
    if world_size > 1 and STDIN in streams.urls:
        raise UsageError(
            f"standard input cannot be split over {world_size} ranks", url=STDIN, cure="Name files or commands instead."
        )
    if world_size > 1 and length is None:
        raise UsageError(
            f"a stream of unknown length over {world_size} ranks, which would not end together",
            cure="State the length of an epoch with epoch_samples= (of all ranks together), or use a ShardLoader over "
            "uncompressed shards, which counts them itself.",
        )
    if length is not None and length < making.batch_size * world_size:
        raise TooFewSamplesError(
            f"epoch_samples is {length}, less than one batch of {making.batch_size} on each of {world_size} ranks",
            cure="State a longer epoch, or lower batch_size=.",
        )
    if (parts := parts_for(shards, world_size)) > 1:
        log.warning(
            "%d shards for %d ranks: each is read by %d ranks, which keep every %d. sample; as many shards as ranks "
            "would be read once",
            shards,
            world_size,
            parts,
            parts,
        )

"""The plan's samples as the first stage of a webdataset pipeline: dicts of `__key__`, `__url__` and fields as bytes.

`takers` deals the positions of an epoch to ranks and workers: every sample comes once, whoever reads how many shards.

Values are bytes and not views: webdataset's decoders insist on it, and so may what comes after them. Samples are
read in the process that iterates, as their pipelines do it: decoding is what takes long there, and workers spread both.

Epochs are counted as in `loaders.torch.ShardDataset`: in memory that the workers share.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from multiprocessing import context
from typing import Any, get_args

import numpy as np
from webdataset.pytorch import IterableDataset

from loaders.ahead import Announcer
from loaders.interop.takers import Tail, Taker, taken
from loaders.interop.urls import urls_of
from loaders.line import Ints
from loaders.policy import MAX_FAILURES_IN_A_ROW, SKIP_CURE, SKIPPED, OnError, Quarantine, policy_of
from loaders.read import Encoded, SampleReader, Scratch
from loaders.reading import Reading
from loaders.selection import AnyOrder, AnyPlan, Selection, Urls
from loaders.torch.epochs import Begun, Epochs
from loaders.torch.loader import ShardLoader
from loaders.torch.worker import Place, place
from loaders.torch.wrapped import check_caller
from wds_tools.dataset import Dataset
from wds_tools.errors import DataError, TooManyFailuresError, UsageError
from wds_tools.sample import INDEX, SPECIAL, Sample

__all__ = ["Source", "source"]

_FIRST, _AT_ONCE = 16, 512  # samples looked up and announced in one go; few where somebody waits for the first


def source(
    urls: Urls | Selection,
    *,
    seed: int = 0,
    shuffle: bool = True,
    lanes: int | None = None,
    tail: Tail = "exact",
    on_error: OnError = "raise",
    rank: int | None = None,
    world_size: int | None = None,
    read: Reading = Reading(),  # noqa: B008 - frozen
) -> Source:
    """The samples of shards for a webdataset pipeline: `wds.DataPipeline(source(urls), wds.decode("rgb8"), ...)`.

    One epoch an iteration, the next iteration the next epoch; under a DataLoader too, its workers taking part.
    `wds.FluidWrapper(source(urls)).decode("rgb8")...` has the methods that `wds.WebDataset` has.

    Args:
        urls: as for ShardLoader, or as webdataset writes several in one string, joined by "::".
        seed: of the order, 0 to 2**64 - 1.
        shuffle: False gives dataset order. After True a `wds.shuffle` would cost memory and mix no more.
        lanes: sequential runs open at a time, for the whole job; None means as ShardLoader does.
        tail: "exact" gives every sample once, so that workers, and ranks, may differ by one sample; "drop" leaves out
            so many that each worker of each rank has as many as the others, and batches are even.
        on_error: "raise"; or "skip" to leave bad samples out (under "drop" a good one takes their place); or a handler
            of webdataset. This is about the shards: what does not decode is for the handlers of the later stages.
        rank: of this process; None means as torch.distributed or torchrun says.
        world_size: likewise.
        read: how far ahead remote shards are read, and where they are kept.

    Raises:
        UsageError: an argument that cannot be; from iterating, no shards, or `pipe:` urls, which only a
            `loaders.StreamLoader` runs.
        DataError: from iterating, a damaged sample.
        UnavailableError: from iterating, a shard that cannot be read.
    """
    return Source(
        _Order(
            urls_of(urls) if isinstance(urls, str) else urls,
            batch_size=1,
            seed=seed,
            shuffle=shuffle,
            lanes=lanes,
            tail="exact",
            on_error=on_error,
            rank=rank,
            world_size=world_size,
            read=read,
        ),
        tail=tail,
        on_error=on_error,
        read=read,
    )


class _Order(ShardLoader):
    """The loader's arguments, plan and ranks, without its batches."""

    def resolve_world(self) -> tuple[int, int]:
        """Rank and world size, looked up once and for all."""
        rank, world_size, _ = self._part()
        self._world = rank, world_size
        return rank, world_size


class Source(IterableDataset):  # type: ignore[misc,unused-ignore]  # webdataset's name for torch's
    """See `source`, which makes it. Picklable; iterators own what they open."""

    def __init__(self, order: _Order, *, tail: Tail, on_error: OnError, read: Reading) -> None:
        super().__init__()
        if tail not in get_args(Tail):
            raise UsageError(f"tail is {tail!r}, expected one of {', '.join(get_args(Tail))}")
        self._order = order
        self._tail: Tail = tail
        self._skip = policy_of(on_error) == "skip"
        self._read = read
        self._epochs = Epochs()
        self._times = 0

    @property
    def dataset(self) -> Dataset:
        """The shards and where their samples lie; opened on first use."""
        return self._order.dataset

    def __iter__(self) -> Iterator[Sample]:
        check_caller(batches=False)
        here = place()
        self._times += 1
        begun = self._epochs.begin(worker=here.worker, workers=here.workers, seed=here.seed, times=self._times)
        return self._samples(here, begun)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch; may be called while workers are kept."""
        self._epochs.move(epoch)

    def _samples(self, here: Place, begun: Begun) -> Iterator[Sample]:
        rank, world_size = self._order.resolve_world()
        plan, taker = self._order.plan, Taker(rank, world_size, here.worker, max(1, here.workers))
        mine = taken(plan.samples, taker, shuffle=plan.shuffle, tail=self._tail)
        reading = _Reading(
            self.dataset,
            plan,
            plan.epoch(begun.epoch + max(0, begun.number)),
            self._read,
            takers=taker.takers,
            skip=self._skip,
            replace=self._tail == "drop",
        )
        try:
            yield from reading.samples(mine)
        finally:
            reading.close()

    def __getstate__(self) -> dict[str, Any]:
        if context.get_spawning_popen() is not None:  # a worker is being started, which knows nothing of the ranks
            check_caller(batches=False)
            self._order.resolve_world()
        return self.__dict__.copy()

    def __repr__(self) -> str:
        return f"source({self._order.urls!r})"


class _Reading:
    """One pass over some positions of an epoch, by one process."""

    def __init__(
        self, dataset: Dataset, plan: AnyPlan, order: AnyOrder, read: Reading, *, takers: int, skip: bool, replace: bool
    ) -> None:
        self._plan = plan
        self._order = order
        self._skip, self._replace = skip, replace
        self._alone = plan.shuffle and plan.lanes % takers == 0
        self._quarantine = Quarantine(None, fingerprint=plan.data)
        self._scratch = Scratch()
        self._reader = SampleReader(dataset, read, budget=read.budget(plan, takers))

    def close(self) -> None:
        """Close the shards."""
        self._reader.close()

    def samples(self, positions: Ints) -> Iterator[Sample]:
        """Those at the positions, in their order, but for bad ones."""
        ahead = self._reader.begin()
        upto = [0, *range(_FIRST, len(positions), _AT_ONCE), len(positions)]
        parts = (positions[low:high] for low, high in itertools.pairwise(upto))
        announced = (self._announced(ahead, part, urgent=not number) for number, part in enumerate(parts))
        # The next part is announced before this one is read.
        current = next(announced, None)
        while current is not None:
            following = next(announced, None)
            part, samples, claims = current
            read = self._reader.read(samples, self._scratch, claims)
            for position, number in zip(part.tolist(), samples.tolist(), strict=True):
                sample = self._sample(position, number, next(read))
                if sample is not None:
                    yield sample
            current = following

    def _announced(self, ahead: Announcer, positions: Ints, *, urgent: bool) -> tuple[Ints, Ints, Any]:
        samples = self._order.samples(positions)
        claims = ahead.announce(self._order, positions, samples, alone=self._alone, urgent=urgent)
        return positions, samples, claims

    def _sample(self, position: int, number: int, encoded: Encoded) -> Sample | None:
        try:
            return _owned(encoded)
        except SKIPPED as error:
            error.at(url=encoded.url, offset=encoded.offset)
            if not self._skip:
                raise error.at(cure=SKIP_CURE) from error.__cause__
            instead = self._good(position, error) if self._replace else None
            self._quarantine.add(number, error, instead=instead["__key__"] if instead is not None else None)
            return instead

    def _good(self, position: int, error: DataError) -> Sample:
        """The next good sample of the lane, as ShardLoader takes it."""
        failures = 1
        others = itertools.islice(self._order.replacements(position), self._plan.samples - 1)
        for other in others:
            encoded = next(self._reader.read(self._order.samples(np.array([other])), self._scratch))
            try:
                return _owned(encoded)
            except SKIPPED as failure:
                error, failures = failure.at(url=encoded.url, offset=encoded.offset), failures + 1
                if failures == MAX_FAILURES_IN_A_ROW:
                    break
        raise TooManyFailuresError(
            f"{failures} bad samples in a row and no good one to take their place; the last one: {error}",
            url=error.url,
            key=error.key,
            cure="Check the shards with `wds verify`.",
        ) from error


def _owned(encoded: Encoded) -> Sample:
    """A sample as webdataset makes it: what it holds is bytes, and its own."""
    return {
        name: value if name in SPECIAL else bytes(value) for name, value in encoded.parse().items() if name != INDEX
    }

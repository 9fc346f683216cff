"""The plan as jobs: which batches this rank makes, in order, epoch after epoch. Runs in the feeder thread.

Samples are looked up, their random numbers drawn and their bytes announced about a thousand at a time, well ahead of
the batch that is handed to the threads: looked up one batch at a time they would cost ten times as much. An epoch's
first ones are announced before the last ones of the epoch before are handed out, so that no host is idle in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from loaders import draws as random_draws
from loaders.ahead import Announcer
from loaders.crops import DRAW_STEPS
from loaders.job import CHUNK, BatchJob, Cursor
from loaders.plan import share
from loaders.recipe import Recipe
from loaders.selection import AnyOrder, AnyPlan
from loaders.slab import Slabs
from loaders.stacked import memory_of

__all__ = ["Schedule"]

_AHEAD = 1024  # samples planned and announced beyond the batch being scheduled


class Schedule:
    """One rank's batches of a plan.

    Args:
        plan: the order.
        recipe: what a batch holds.
        rank, world_size: whose batches.
        slabs: where pictures will be decoded into.
        begin: begins a run of the plan; what it gives is told which samples will be read soon.
        locate: shard, begin and end of samples, int64 (3, n): a thousand at once cost what sixteen do.
    """

    def __init__(
        self,
        plan: AnyPlan,
        recipe: Recipe,
        *,
        rank: int,
        world_size: int,
        slabs: Slabs,
        begin: Callable[[], Announcer],
        locate: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64] | None],
    ) -> None:
        self.plan = plan
        self.recipe = recipe
        self.rank, self.world_size = rank, world_size
        self._slabs = slabs
        self._begin = begin
        self._locate = locate

    @property
    def global_batch(self) -> int:
        """Samples of one batch of all ranks."""
        return self.recipe.batch_size * self.world_size

    def jobs(self, cursor: Cursor) -> Iterator[BatchJob]:
        """All batches from a place on, without end."""
        return self._handed(self._endless(cursor, self._begin()))

    def epoch_jobs(self, epoch: int, position: int, *, first: int = 0, step: int = 1) -> Iterator[BatchJob]:
        """The batches of one epoch from a position on: number `first` and every `step`-th after it."""
        return self._handed(self._strides(self._begin(), epoch, position, first=first, step=step))

    @property
    def _stride(self) -> int:
        """Batches whose samples are looked up at once."""
        return 1 + _AHEAD // self.recipe.batch_size

    def _handed(self, strides: Iterator[list[BatchJob]]) -> Iterator[BatchJob]:
        """The jobs one by one, planned and announced about a thousand samples ahead."""
        yield from map(self._with_memory, next(strides, ()))  # one batch first, since somebody waits for it
        ahead: deque[BatchJob] = deque()
        for planned in strides:
            ahead.extend(planned)
            while len(ahead) > self._stride or ahead[-1].order.epoch > ahead[0].order.epoch + 1:  # a tiny epoch's
                yield self._with_memory(ahead.popleft())
        while ahead:
            yield self._with_memory(ahead.popleft())

    def _endless(self, cursor: Cursor, ahead: Announcer) -> Iterator[list[BatchJob]]:
        epoch, position, urgent = cursor.epoch, cursor.position, True
        while True:
            for planned in self._strides(ahead, epoch, position, urgent=urgent):
                urgent = False
                yield planned
            epoch, position = epoch + 1, 0

    def _strides(
        self, ahead: Announcer, epoch: int, position: int, *, first: int = 0, step: int = 1, urgent: bool = True
    ) -> Iterator[list[BatchJob]]:
        """The jobs of one epoch, as many at a time as are planned at once; one where somebody waits for it."""
        order = self.plan.epoch(epoch)
        last = self.plan.batches(self.global_batch, position=position) - 1
        numbers = range(first, last + 1, step)
        begin = 0
        while begin < len(numbers):
            end = begin + (1 if urgent else self._stride)
            yield self._planned(order, position, numbers[begin:end], last, ahead, urgent=urgent)
            begin, urgent = end, False

    def _planned(
        self, order: AnyOrder, position: int, numbers: range, last: int, ahead: Announcer, *, urgent: bool
    ) -> list[BatchJob]:
        size = self.global_batch
        shares = [self._share(position + number * size) for number in numbers]
        positions = np.concatenate([mine for mine, _ in shares])
        samples = order.samples(positions)
        alone = numbers.step == 1 and self.plan.shuffle and self.plan.lanes % self.world_size == 0
        claims = ahead.announce(order, positions, samples, alone=alone, urgent=urgent)
        where = self._locate(samples)
        rows = self._draws(order.epoch, positions)
        jobs, at = [], 0
        for number, (mine, valid) in zip(numbers, shares, strict=True):
            upto = at + len(mine)
            after = Cursor(order.epoch, position + (number + 1) * size) if number < last else Cursor(order.epoch + 1, 0)
            draws = rows[at:upto] if rows is not None else None
            job = self._job(order, (mine, samples[at:upto], valid), draws, after)
            job.claims = claims[at:upto] if claims is not None else None
            job.where = where[:, at:upto] if where is not None else None
            jobs.append(job)
            at = upto
        return jobs

    def _share(self, position: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        return share(
            position,
            samples=self.plan.samples,
            rank=self.rank,
            world_size=self.world_size,
            batch_size=self.recipe.batch_size,
            shuffle=self.plan.shuffle,
            tail=self.plan.tail,
        )

    def _draws(self, epoch: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | None:
        if not self.recipe.random:
            return None
        key = random_draws.key_of(self.plan.seed, epoch, random_draws.Purpose.AUGMENT)
        return random_draws.uniforms(key, positions, DRAW_STEPS)

    def _job(
        self,
        order: AnyOrder,
        slots: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]],
        draws: npt.NDArray[np.float64] | None,
        after: Cursor,
    ) -> BatchJob:
        recipe = self.recipe
        positions, samples, valid = slots
        return BatchJob(
            order=order,
            positions=positions,
            samples=samples,
            draws=draws,
            valid=valid,
            mark_valid=self.plan.tail == "pad",
            names=tuple(spec.name for spec in recipe.specs),
            empties=[spec.empty(recipe.leader) for spec in recipe.specs],
            slabs=[None] * len(recipe.specs),
            transformed=recipe.transform is not None or recipe.collate is not None,
            collate=recipe.collate,
            after=after,
            last=after.epoch != order.epoch,
            chunk=max(1, min(CHUNK, -(-len(samples) // recipe.threads))),
        )

    def _with_memory(self, job: BatchJob) -> BatchJob:
        if not job.transformed:
            job.slabs = [memory_of(spec, job.slots, self._slabs) for spec in self.recipe.specs]
        return job

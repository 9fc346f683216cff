"""What comes next of the plan, made known to those who can begin to bring it: the kernel, or the fetching threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loaders.drives import Drives
from loaders.fetch import Ahead, Claim
from loaders.line import Ints
from loaders.order import single_pieces
from loaders.selection import AnyOrder
from loaders.shards import OpenShards
from loaders.wanted import Spot
from wds_tools.dataset import Dataset

__all__ = ["Announcer", "FetchAhead", "KernelAhead"]


class Announcer(Protocol):
    """Of one run of the plan; called by the thread that schedules."""

    def announce(
        self, order: AnyOrder, positions: Ints, samples: Ints, *, alone: bool, urgent: bool
    ) -> Sequence[Claim | None] | None:
        """Say that these samples will be read next.

        Args:
            order: the epoch.
            positions: int64 (n,), ascending.
            samples: int64 (n,), those at the positions.
            alone: whether this process reads all samples of the pieces that begin here; else only those named.
            urgent: whether somebody waits for them.

        Returns:
            For each sample a claim on its bytes, None where it is read where it lies; None where all are.
        """
        ...


class KernelAhead:
    """Local shards: the kernel is told, for each drive by itself."""

    def __init__(self, dataset: Dataset, shards: OpenShards, drives: Drives) -> None:
        self._dataset = dataset
        self._shards = shards
        self._drives = drives
        drives.begin()
        self._mixed = bool(shards.remote.any())

    def announce(self, order: AnyOrder, positions: Ints, samples: Ints, *, alone: bool, urgent: bool) -> None:
        """Say that the runs that begin here will be read soon; a run may cross shards."""
        del samples, alone, urgent
        self._announce(*order.runs(positions))

    def _announce(self, firsts: Ints, counts: Ints) -> None:
        if not len(firsts):
            return
        shards, begins, _ = (part.tolist() for part in self._dataset.locate(firsts))
        last_shards, _, ends = (part.tolist() for part in self._dataset.locate(firsts + counts - 1))
        self._drives.meet(shard for shard in {*shards, *last_shards} if not self._shards.remote[shard])
        for shard, begin, last, end in zip(shards, begins, last_shards, ends, strict=True):
            if shard == last:
                self._tell(shard, begin, end)
            else:
                self._tell(shard, begin, int(self._dataset.sizes[shard]))
                self._tell(last, 0, end)

    def _tell(self, shard: int, begin: int, end: int) -> None:
        if not (self._mixed and self._shards.remote[shard]):
            self._drives.announce(shard, begin, end - begin)


class FetchAhead:
    """Remote shards, and local ones among them."""

    def __init__(self, dataset: Dataset, shards: OpenShards, drives: Drives, ahead: Ahead) -> None:
        self._dataset = dataset
        self._remote = shards.remote
        self._kernel = KernelAhead(dataset, shards, drives)
        self._ahead = ahead
        self._epoch: int | None = None

    def announce(
        self, order: AnyOrder, positions: Ints, samples: Ints, *, alone: bool, urgent: bool
    ) -> Sequence[Claim | None] | None:
        """Put what lies remote on the queue of the fetching threads."""
        if self._epoch not in {None, order.epoch}:
            self._ahead.end_epoch()
        self._epoch = order.epoch
        where = self._dataset.locate(samples)
        away = self._remote[where[0]]
        if not away.all():
            self._kernel.announce(order, positions, samples, alone=alone, urgent=urgent)
        pieces = order.pieces(positions) if alone else single_pieces(samples)
        if (again := positions < np.maximum.accumulate(positions)).any():  # what pads the last batch comes by itself
            for column, single in zip(pieces, single_pieces(samples), strict=True):
                column[again] = single[again]
        found = self._ahead.claims(
            _spots(where, away),
            self._pieces(pieces.first[away], pieces.length[away]) if alone else None,
            pieces.left[away].tolist(),
            singly=urgent,
        )
        if away.all():
            return found
        rest = iter(found)
        return [next(rest) if remote else None for remote in away.tolist()]

    def _pieces(self, firsts: Ints, counts: Ints) -> list[Spot]:
        shards, begins, _ = self._dataset.locate(firsts)
        _, _, ends = self._dataset.locate(firsts + counts - 1)
        return _spots((shards, begins, ends), np.ones(len(firsts), dtype=np.bool_))


def _spots(where: tuple[Ints, Ints, Ints], chosen: npt.NDArray[np.bool_]) -> list[Spot]:
    return list(map(Spot, *(column[chosen].tolist() for column in where)))

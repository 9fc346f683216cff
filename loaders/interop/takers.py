"""Which positions of an epoch which worker of which rank takes. Pure.

Shuffled, worker k of K of rank r of W has the positions p with p mod W = r and (p div W) mod K = k; in dataset order
each rank has a run of them, and each of its workers a run of that. So every position has one taker, a rank's do not
depend on its number of workers, and where W*K divides the lanes each block is read by one process.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from loaders.line import Ints
from wds_tools.errors import TooFewSamplesError

__all__ = ["Tail", "Taker", "taken"]

Tail = Literal["exact", "drop"]


class Taker(NamedTuple):
    """Which worker of which rank."""

    rank: int
    world_size: int
    worker: int
    workers: int

    @property
    def takers(self) -> int:
        """Workers of all ranks."""
        return self.world_size * self.workers


def taken(samples: int, taker: Taker, *, shuffle: bool, tail: Tail) -> Ints:
    """The positions of an epoch, int64 (n,), that one worker of one rank has.

    Raises:
        TooFewSamplesError: tail="drop" would leave nobody a sample.
    """
    takers = taker.takers
    if tail == "drop":
        if samples < takers:
            raise TooFewSamplesError(
                f"the dataset has {samples} samples, less than one for each of {takers} workers of all ranks",
                cure='Use fewer workers, or pass tail="exact".',
            )
        samples -= samples % takers
    if shuffle:
        return np.arange(taker.rank + taker.world_size * taker.worker, samples, takers, dtype=np.int64)
    ranks = _run(range(samples), taker.rank, taker.world_size)
    return np.asarray(_run(ranks, taker.worker, taker.workers), dtype=np.int64)


def _run(whole: range, part: int, parts: int) -> range:
    """One of so many runs, as even as can be, the longer ones first."""
    each, more = divmod(len(whole), parts)
    begin = part * each + min(part, more)
    return whole[begin : begin + each + (part < more)]

"""Which epoch an iteration is, agreed on by worker processes that never speak to each other.

A DataLoader tells a dataset nothing: with new workers each epoch, a counter in the dataset starts from zero in each;
with persistent ones, what the parent sets never arrives. So the counters lie in memory that all of them map:

    base, position, lanes, block      written by the parent: set_epoch and load_state_dict
    said                              written by whoever warns first, so that it is said once
    pinned                            written by a parent that counts by itself: nothing is counted here
    slot of worker 0, of worker 1 ... written by that worker: how many iterations were begun since, and a tag

The tag is of the DataLoader's iteration: a hash of its base seed, which the parent draws anew for each, and of how
often this process has begun. A worker that finds the tag in another slot takes over its count; one that finds it
nowhere counts one up from the highest. Two that come at once both find it nowhere, and count to the same number. So
workers agree though one of them missed an iteration (it was broken off before the worker had started, which takes
seconds with spawn), and though another DataLoader with fewer workers ran in between.

When the parent sets the place, counts become zero and tags stay: a worker that only now comes to an iteration which was
broken off before finds its tag, and counts nothing. Where none of its workers had come to it there is no tag to find.
So `resumable`, which knows where each iteration stands, pins the place instead.

A slot is one aligned word, written in one go; no lock.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

import numpy as np

from loaders.torch.share import Region
from wds_tools.errors import UsageError

__all__ = ["MAX_WORKERS", "Begun", "Epochs"]

MAX_WORKERS = 1018
_PLACE, _SAID, _PINNED, _HEADER = 4, 4, 5, 6
_TAG_BITS = 40
_TAG_MASK = (1 << _TAG_BITS) - 1


class Begun(NamedTuple):
    """What an iteration knows of where it stands.

    Attributes:
        number: iterations begun before it, since the parent last set the place; -1 where none was.
        epoch, position: where the parent set it.
        lanes, block: of the state that was loaded, 0 where none was.
    """

    number: int
    epoch: int
    position: int
    lanes: int
    block: int


class Epochs:
    """See the module. Shared with child processes however they are started; any other copy is a copy."""

    def __init__(self) -> None:
        self._region = Region((_HEADER + MAX_WORKERS) * 8)

    @property
    def _words(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._region.array().view(np.int64)

    def begin(self, *, worker: int, workers: int, seed: int, times: int) -> Begun:
        """Count an iteration.

        Args:
            worker: this one's number, 0 where there are none.
            workers: how many there are.
            seed: the DataLoader's base seed, the same for all workers of one iteration.
            times: how often this process has begun before.
        """
        if worker >= MAX_WORKERS:
            raise UsageError(f"num_workers is {workers}, expected at most {MAX_WORKERS}")
        slots = self._words[_HEADER:]
        seen = slots.copy()
        tag = _tag(workers, seed, times)
        counts, same = seen >> _TAG_BITS, (seen & _TAG_MASK) == tag
        if self._words[_PINNED]:
            count = 1
        elif same[worker]:  # a new process, and the parent seeded torch alike before this iteration and the last
            count = int(counts[worker]) + 1
        else:
            count = int(counts[same].max()) if same.any() else int(counts.max()) + 1
        slots[worker] = count << _TAG_BITS | tag
        return self._begun(count)

    def latest(self) -> Begun:
        """The iteration that was begun last."""
        return self._begun(int((self._words[_HEADER:] >> _TAG_BITS).max()))

    def _begun(self, count: int) -> Begun:
        epoch, position, lanes, block = self._words[:_PLACE].tolist()
        return Begun(count - 1, epoch, position, lanes, block)

    def move(self, epoch: int, position: int = 0) -> None:
        """The next iteration is this epoch, from this position."""
        words = self._words
        words[:2] = epoch, position
        words[_HEADER:] &= _TAG_MASK

    def rebase(self, epoch: int, position: int) -> None:
        """The iteration that is being begun, and will be counted anew by all its workers, is this one."""
        words = self._words
        words[:2] = epoch, position
        words[_HEADER:] = 0

    def pin(self, epoch: int, position: int) -> None:
        """Each iteration from now on is the one to which it was moved last, here to begin with."""
        self._words[_PINNED] = 1
        self.move(epoch, position)

    def first(self) -> bool:
        """True the first time that it is asked, in whichever process."""
        said, self._words[_SAID] = bool(self._words[_SAID]), 1
        return not said

    def adopt(self, lanes: int, block: int) -> None:
        """Use these from the next iteration on."""
        self._words[2:_PLACE] = lanes, block


def _tag(workers: int, seed: int, times: int) -> int:
    content = struct.pack("<QqQ", workers, seed, times)
    return int.from_bytes(hashlib.blake2b(content, digest_size=_TAG_BITS // 8).digest(), "little") or 1

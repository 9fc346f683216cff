"""A flow of samples cut into batches, and which batch is the epoch's last. Pure but for the flow; for one thread."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from loaders.stats import Stats
from loaders.stream.flow import Item
from loaders.stream.spelling import STDIN
from wds_tools.errors import TooFewSamplesError, UsageError

__all__ = ["Cut", "Window", "found", "stated"]

_RESERVE = 16


class Cut(NamedTuple):
    """The samples of a batch, others near them in the stream that may stand in for bad ones, and whether it is last."""

    items: list[Item]
    spares: list[Item]
    last: bool


class Window:
    """The next samples of a flow, and the latest that were read.

    Args:
        items: the flow.
        stats: told how long reading took.
        reserve: whether sixteen more samples are read before each cut, to be its spares.
    """

    def __init__(self, items: Iterator[Item], stats: Stats, *, reserve: bool) -> None:
        self._items = items
        self._stats = stats
        self._ahead: deque[Item] = deque()
        self._recent: deque[Item] = deque(maxlen=_RESERVE if reserve else 0)
        self.taken = 0

    def __len__(self) -> int:
        return len(self._ahead)

    @property
    def reserve(self) -> int:
        """Samples to be read beyond each cut."""
        return self._recent.maxlen or 0

    def fill(self, count: int) -> None:
        """Read until there are so many, or no more."""
        begun = time.perf_counter()
        while len(self._ahead) < count:
            item = next(self._items, None)
            if item is None:
                break
            self._ahead.append(item)
            self._recent.append(item)
        self._stats.made(nbytes=0, read_seconds=time.perf_counter() - begun, decode_seconds=0.0)

    def skip(self, count: int) -> None:
        """Read past so many."""
        for _ in range(count):
            self.fill(1)
            if not self._ahead:
                return
            self._ahead.popleft()
            self.taken += 1

    def cut(self, count: int, *, fewest: int) -> Cut:
        """The next so many, or all there are; the last cut, if fewer than `fewest` remain."""
        taken = [self._ahead.popleft() for _ in range(min(count, len(self._ahead)))]
        self.taken += len(taken)
        return Cut(taken, list(self._recent), len(self._ahead) < fewest)


def stated(window: Window, *, size: int, batches: int, epoch_samples: int) -> Iterator[Cut]:
    """So many batches.

    Raises:
        UsageError: the flow ends before them, as only standard input can.
    """
    for number in range(batches):
        # No more than the epoch needs: what lies behind it may mean that all streams begin again.
        window.fill(size + min(window.reserve, (batches - number - 1) * size))
        if len(window) < size:
            raise UsageError(
                f"the streams ended after {window.taken + len(window)} samples, epoch_samples is {epoch_samples}",
                url=STDIN,
                cure="Standard input cannot be read again: state no more than it brings.",
            )
        yield window.cut(size, fewest=0)._replace(last=number == batches - 1)


def found(window: Window, *, size: int, exact: bool) -> Iterator[Cut]:
    """The batches that there are, each given when what follows is read, so that the last is known as such.

    Args:
        window: the flow.
        size: samples of a batch.
        exact: whether a last batch may be short; else what does not fill one is left out.

    Raises:
        TooFewSamplesError: the whole flow has less than one batch. None at all after `skip` is no error.
    """
    fewest = 1 if exact else size
    begun = window.taken > 0
    while True:
        window.fill(size + max(window.reserve, fewest))
        if len(window) < fewest:
            break
        begun = True
        yield window.cut(size, fewest=fewest)
    if not begun:
        raise TooFewSamplesError(
            f"the streams have {len(window)} samples, less than one batch of {size}",
            cure='Lower batch_size=, or pass tail="exact" for a batch that is short.',
        )

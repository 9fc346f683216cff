"""A DataLoader over a ShardDataset that counts, so that it resumes at any batch by itself, as a ShardLoader does.

    loader = resumable(DataLoader(ShardDataset(urls, batch_size=256, ...), batch_size=None, num_workers=8))

A DataLoader runs ahead of its caller and says nothing of it; and each `iter` of it starts workers and an epoch, though
frameworks ask for iterators which they never use. Here the batches are counted where they are handed out, and nothing
begins before the first batch is asked for. Before each iteration the dataset is told where it stands, in memory that
the workers share, so that none depends on what earlier ones have seen, or see late.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Self

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from loaders.selection import AnyPlan
from loaders.torch.dataset import ShardDataset
from wds_tools.errors import UsageError

__all__ = ["ResumableLoader", "resumable"]


def resumable(loader: DataLoader[Any]) -> ResumableLoader:
    """The batches of a DataLoader over a ShardDataset, with `epoch`, `set_epoch`, `state_dict` and `load_state_dict`.

    Raises:
        UsageError: its dataset is another one, or it makes batches of batches.
    """
    return ResumableLoader(loader)


class ResumableLoader:
    """See `resumable`. One epoch an iteration; one that is broken off ends its epoch, if it gave a batch."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        dataset = loader.dataset
        if not isinstance(dataset, ShardDataset):
            raise UsageError(f"the DataLoader is over a {type(dataset).__name__}, expected a ShardDataset")
        if loader.batch_size is not None:
            raise UsageError(
                "the DataLoader makes batches, and a ShardDataset gives whole batches already",
                cure="Pass DataLoader(dataset, batch_size=None, num_workers=...).",
            )
        self.loader = loader
        self._dataset = dataset  # Lightning warns of whatever has a `dataset` that is iterable
        self._batches: Iterator[Any] | None = None  # nowhere else, so that its workers end when it is let go
        self._latest: weakref.ref[Iterator[Any]] | None = None  # which is not let go while an error refers to it
        self._iteration = 0
        self._taken = 0  # batches of the epoch that the dataset stands at
        self._running = False

    @property
    def plan(self) -> AnyPlan:
        """What decides the order."""
        return self._dataset.plan

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration gives; while one runs, the epoch that it gives."""
        begun = self._taken > 0 and not self._running
        return int(self._dataset.state_dict(batches=0)["epoch"]) + begun

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank."""
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        self._running = False
        if self._taken:
            self._stop()
            self._dataset.set_epoch(self.epoch)
            self._taken = 0
        self._iteration += 1
        return self._iterate(self._iteration)

    def _iterate(self, iteration: int) -> Iterator[Any]:
        try:
            while True:
                if iteration != self._iteration:
                    raise UsageError(
                        "the loader was iterated, moved or closed while this iteration ran",
                        cure="Use one iteration at a time, or one loader for each.",
                    )
                if self._batches is None:
                    self._dataset.pin()  # an iteration that gave no batch counts for nothing
                    self._batches = iter(self.loader)
                    self._latest = weakref.ref(self._batches)
                try:
                    batch = next(self._batches)
                except StopIteration:
                    return
                self._taken, self._running = self._taken + 1, True
                yield batch
                del batch
        finally:
            if iteration == self._iteration:
                self._running = False
                self._batches = None

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its start; a loaded state's own epoch keeps its place."""
        self._stop()
        self._dataset.set_epoch(epoch)
        self._taken = 0

    def state_dict(self) -> dict[str, Any]:
        """As a ShardLoader's, which can load it, at any number of workers; counts the batches that were handed out."""
        return self._dataset.state_dict(batches=self._taken)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            StateError: it is of another dataset, seed, order or tail; the message says what changed.
        """
        self._stop()
        self._dataset.load_state_dict(state)
        self._taken = 0

    def _stop(self) -> None:
        self._batches, self._running = None, False
        self._iteration += 1

    def close(self) -> None:
        """End the workers, persistent ones too; twice does nothing, and iterating begins anew, with others."""
        self._stop()
        latest = None if self._latest is None else self._latest()
        if isinstance(latest, _MultiProcessingDataLoaderIter):
            latest._shutdown_workers()  # noqa: SLF001 - a DataLoader, and the frames of what it raised, keep it
        self.loader._iterator = None  # noqa: SLF001 - it would reuse workers that are no more
        self._dataset.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"resumable({self._dataset!r}, num_workers={self.loader.num_workers})"

"""ShardDataset: the loader's plan under torch's DataLoader, for transforms that hold the interpreter's lock.

    loader = DataLoader(ShardDataset(urls, batch_size=256, ...), batch_size=None, num_workers=8)

Worker k of K makes the batches k, k + K, k + 2K ... of the same plan, and DataLoader takes from the workers in turn: so
the batches are ShardLoader's, byte for byte and in order, whatever K. Where nothing needs processes, ShardLoader is
simpler and faster.

Workers share no memory for what they read: local shards come from the page cache, remote ones go through a cache on
disk (`Reading.cache_dir`), so that each byte is fetched once per machine. Without one they are refused; a temporary one
would have to hold the dataset too, in a place that nobody chose. What has no room in it is fetched by each worker for
itself, sample by sample.

What no DataLoader can tell is where its caller stands, since it runs ahead: `state_dict(batches=n)` takes the count
from the caller, and `resumable` keeps it. torchdata's StatefulDataLoader keeps count by the iterator's two methods.

Rank and world size are looked up when length or iteration are first asked for: by the parent for spawned workers, while
it pickles; forked ones have the parent's torch.distributed and environment in their own memory.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import context
from typing import Any, Self

from torch.utils.data import IterableDataset, get_worker_info

from loaders.decoded.options import DecodedCache
from loaders.decoded.store import disown
from loaders.fields import DEFAULT_FIELDS, ImageSpec
from loaders.job import Cursor
from loaders.placements import PlacedSample
from loaders.plan import Tail
from loaders.policy import OnError
from loaders.reading import Reading
from loaders.selection import AnyPlan, Selection, Urls
from loaders.session import Session
from loaders.slab import plain_memory
from loaders.state import state_of
from loaders.torch.epochs import Begun, Epochs
from loaders.torch.loader import ShardLoader, as_tensors
from loaders.torch.share import shared, shared_memory
from loaders.torch.worker import end_with_parent, leave_if_orphaned, limit_threads, place, seed_generators, starter
from loaders.torch.wrapped import check_caller
from wds_tools.errors import StateError, UsageError
from wds_tools.pictures.options import Pictures

__all__ = ["ShardDataset"]


class _Source(ShardLoader):
    """The loader's arguments and plan, without its own iteration."""

    def resolve_world(self) -> None:
        """Look rank and world size up, once and for all."""
        rank, world_size, _ = self._part()
        self._world = rank, world_size

    def whole(self) -> tuple[AnyPlan, int]:
        """The plan and the global batch size."""
        _, world_size, recipe = self._part()
        return self.plan, recipe.batch_size * world_size

    def adopt(self, lanes: int, block: int) -> bool:
        """Use a loaded state's lanes and block; says whether the plan is another one now."""
        if not lanes or (self.plan.lanes, self.plan.block) == (lanes, block):
            return False
        self._adopted = dataclasses.replace(state_of(self.plan, Cursor(0, 0)), lanes=lanes, block=block)
        return True

    def warn(self) -> None:
        """Say where blocks are read by several ranks."""
        rank, world_size, _ = self._part()
        self._warn(self.plan, rank, world_size)

    def session(self, *, worker: bool, threads: int | None) -> Session:
        """Of this process."""
        rank, world_size, recipe = self._part()
        if worker and recipe.read.cache is None and self.dataset.remote_shards.any():
            raise UsageError(
                "worker processes over remote shards, and no place on disk that they share: each would fetch all of it",
                cure='Pass read=Reading(cache_dir="/local/disk/cache"), with room for the dataset; or use a '
                "ShardLoader, which decodes in threads and fetches each byte once.",
            )
        return Session(
            self.dataset,
            self.plan,
            dataclasses.replace(recipe, threads=threads or 1) if worker else recipe,
            rank=rank,
            world_size=world_size,
            allocate=shared_memory if worker else plain_memory,
            reuse=not worker,
            owner=starter() if worker else None,  # all workers may end between two epochs
        )


class ShardDataset(IterableDataset[Any]):
    """Whole batches of decoded samples, for `DataLoader(dataset, batch_size=None, num_workers=K)`.

    Batches are those of `loaders.torch.ShardLoader`, which documents the arguments; each iteration of the DataLoader is
    the next epoch. In workers the global generators of `random`, numpy and torch are seeded by (seed, epoch, rank,
    worker), so that a transform that uses them differs everywhere and repeats in a second run.

    Args:
        urls: shards, or a selection such as `loaders.mix(...)`.
        batch_size: samples per batch of this rank; either this or global_batch_size.
        global_batch_size: samples per batch of all ranks together.
        fields: the columns.
        image: what pictures become.
        transform: takes and returns one decoded sample, a dict.
        collate: takes the list of a batch's samples and returns the batch.
        seed: of the order and of all random numbers.
        shuffle: False gives dataset order.
        lanes: sequential runs open at a time, for the whole job.
        tail: "drop", "pad" or "exact".
        on_error: "raise" or "skip".
        threads: decode threads of each worker, 1 by default; without workers the cores that this process may use. More
            than one makes the random numbers of a transform depend on their timing.
        rank: of this process; None means as torch.distributed or torchrun says.
        world_size: likewise.
        read: how far ahead is read; a worker holds `prefetch` batches beside those that DataLoader has it send ahead.
        pictures: what decoding does with transparency, orientation, profiles and bombs.
        quarantine: a file to which skipped samples are listed.
        exclude: such a file, or sample indices, to be replaced without being read.

    Raises:
        UsageError: as ShardLoader; and from iterating, if a DataLoader or a framework would batch or shard again.
        UnavailableError: there is too little shared memory for a batch; the message names it and what to lower.
    """

    def __init__(
        self,
        urls: Urls | Selection,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        fields: Sequence[str] = DEFAULT_FIELDS,
        image: ImageSpec = None,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        collate: Callable[[list[dict[str, Any]]], Any] | None = None,
        seed: int = 0,
        shuffle: bool = True,
        lanes: int | None = None,
        tail: Tail = "drop",
        on_error: OnError = "raise",
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        read: Reading = Reading(),  # noqa: B008 - frozen
        pictures: Pictures = Pictures(),  # noqa: B008 - frozen
        quarantine: str | os.PathLike[str] | None = None,
        exclude: str | os.PathLike[str] | Iterable[int] | None = None,
        decoded_cache: DecodedCache | str | None = None,
    ) -> None:
        self._source = _Source(
            urls,
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            fields=fields,
            image=image,
            transform=transform,
            collate=collate,
            seed=seed,
            shuffle=shuffle,
            lanes=lanes,
            tail=tail,
            on_error=on_error,
            threads=threads,
            rank=rank,
            world_size=world_size,
            read=read,
            pictures=pictures,
            quarantine=quarantine,
            exclude=exclude,
            decoded_cache=decoded_cache,
        )
        self._threads = threads
        self._epochs = Epochs()
        if (cache := self._source.recipe.decoded) is not None and cache.ram:
            weakref.finalize(self, disown, cache, os.getpid())  # what workers kept for this process
        self._session: Session | None = None
        self._process: int | None = None  # whose session it is: threads do not cross a fork
        self._inherited: Session | None = None  # the parent's, kept from being ended here
        self._times = 0
        self._current: _Batches | None = None

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank, the same on every rank and for any number of workers."""
        check_caller()
        plan, global_batch = self._source.whole()
        plan.check(global_batch)
        return plan.batches(global_batch)

    def __iter__(self) -> Iterator[Any]:
        check_caller()
        begun = self._count()
        session = self._begin(begun)
        cursor = _cursor(begun, session.plan, session.global_batch)
        self._current = batches = _Batches(self, session, cursor, begun.number)
        leave_if_orphaned(session.close)  # while it was opened
        return batches

    def _count(self) -> Begun:
        here = place()
        self._times += 1
        return self._epochs.begin(worker=here.worker, workers=here.workers, seed=here.seed, times=self._times)

    def _begin(self, begun: Begun) -> Session:
        info = get_worker_info()
        worker = info is not None
        if self._source.adopt(begun.lanes, begun.block) and self._process == os.getpid():
            self.close()
        if self._session is None or self._process != os.getpid():
            if worker:
                limit_threads()
            self._inherited = self._session
            self._session = self._source.session(worker=worker, threads=self._threads)
            self._process = os.getpid()
            weakref.finalize(self, self._session.abandon)
            if worker:
                end_with_parent(self._session.close)
            if (info is None or info.id == 0) and self._epochs.first():
                self._source.warn()
        return self._session

    @property
    def plan(self) -> AnyPlan:
        """What decides the order."""
        return self._source.plan

    def placements(self, *, epoch: int, batch: int) -> list[PlacedSample]:
        """What a batch of this rank is made of, and where its pictures are cut: `ShardLoader.placements`.

        `batch` is counted as a DataLoader hands them out, whatever the number of workers.
        """
        return self._source.placements(epoch=epoch, batch=batch)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its start; a loaded state's own epoch keeps its place."""
        latest = self._epochs.latest()
        if latest.number >= 0 or latest.epoch != epoch:
            self._epochs.move(epoch)

    def pin(self) -> None:
        """Leave it to the caller to set the place before each iteration; for now it is the latest one's.

        Counting, a worker that comes late to one that was broken off, before any
        other worker had come to it, would count it for the next.
        """
        plan, global_batch = self._source.whole()
        cursor = _cursor(self._epochs.latest(), plan, global_batch)
        self._epochs.pin(cursor.epoch, cursor.position)

    def rebase(self, cursor: Cursor) -> None:
        """The iteration that this process has just begun is this one; what is begun next is its successor."""
        self._epochs.rebase(cursor.epoch, cursor.position)
        self._count()

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Where the run stands: the state of `ShardLoader`, which either can load.

        Args:
            batches: how many batches of the epoch begun last the caller has consumed. A DataLoader with workers runs
                ahead of its caller and reports nothing, so only the caller knows.

        Raises:
            UsageError: `batches` is not given where workers make them, or is more than there are.
        """
        plan, global_batch = self._source.whole()
        begun = self._epochs.latest()
        cursor = _cursor(begun, plan, global_batch)
        if batches is None:
            batches = self._counted(begun)
        count = plan.batches(global_batch, position=cursor.position)
        if not 0 <= batches <= count:
            raise UsageError(
                f"batches is {batches}, expected 0 to {count}, which the epoch has from position {cursor.position} on"
            )
        if batches == count:
            return state_of(plan, Cursor(cursor.epoch + 1, 0), self._source.recipe.backend).as_dict()
        after = Cursor(cursor.epoch, cursor.position + batches * global_batch)
        return state_of(plan, after, self._source.recipe.backend).as_dict()

    def _counted(self, begun: Begun) -> int:
        """The batches handed out, where this process knows: nothing is begun, or it is here, or this is a worker."""
        if begun.number < 0 or get_worker_info() is not None:
            return 0  # a worker's own share is in its iterator's state
        current = self._current
        if current is not None and current.process == os.getpid() and current.number == begun.number:
            return current.taken
        raise UsageError(
            "workers make the batches, and a DataLoader does not say how many the caller had",
            cure="Pass state_dict(batches=n), counted in the training loop; or use torchdata's StatefulDataLoader.",
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on from a state, at any number of workers, world size and batch size.

        Raises:
            StateError: it is of another dataset, seed, order or tail; the message says what changed.
        """
        self._source.load_state_dict(state)
        self._epochs.adopt(state["lanes"], state["block"])
        self._epochs.move(state["epoch"], state["position"])

    def close(self) -> None:
        """End this process's threads and close the shards; twice does nothing, and iterating begins anew."""
        if self._session is not None and self._process == os.getpid():
            self._session.close()
        self._session = self._current = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if context.get_spawning_popen() is not None:  # a worker is being started
            check_caller()
            self._source.resolve_world()
        return {**self.__dict__, "_session": None, "_process": None, "_current": None, "_inherited": None}

    def __repr__(self) -> str:
        return repr(self._source).replace(type(self._source).__name__, type(self).__name__, 1)

    def _repr_html_(self) -> str:
        html = self._source._repr_html_()
        return html.replace(type(self._source).__name__, type(self).__name__, 1)


def _cursor(begun: Begun, plan: AnyPlan, global_batch: int) -> Cursor:
    """Where an iteration starts. No epoch is empty: where less than a batch is left, the next one starts."""
    empty = plan.batches(global_batch, position=begun.position) == 0
    if begun.number <= 0 and not empty:
        return Cursor(begun.epoch, begun.position)
    return Cursor(begun.epoch + max(0, begun.number) + empty, 0)


class _Batches:
    """One iteration in one process. Its two state methods are what StatefulDataLoader calls in each worker."""

    def __init__(self, dataset: ShardDataset, session: Session, cursor: Cursor, number: int) -> None:
        self._worker, self._workers, _ = place()
        self.process = os.getpid()
        self.number = number
        self.taken = 0
        self._dataset = dataset
        self._session = session
        self._cursor = cursor
        self._start()

    def _start(self) -> None:
        if self._workers:
            cursor, session = self._cursor, self._session
            seed_generators(session.plan.seed, cursor.epoch, cursor.position, session.rank, self._worker)
        step = max(1, self._workers)
        self._jobs = self._session.part(self._cursor, first=self._worker + self.taken * step, step=step)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        batch = as_tensors(next(self._jobs).batch)
        self.taken += 1
        return shared(batch) if self._workers else batch

    def state_dict(self) -> dict[str, Any]:
        """This process's place in the epoch."""
        return {
            "epoch": self._cursor.epoch,
            "position": self._cursor.position,
            "taken": self.taken,
            "workers": self._workers,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there.

        Raises:
            StateError: it is of another number of workers.
        """
        if state["workers"] != self._workers:
            raise StateError(
                f"the state is of num_workers={state['workers']}, now {self._workers}",
                cure="Use the same number, or ShardDataset.state_dict(batches=n), which any number can load.",
            )
        self._cursor = Cursor(state["epoch"], state["position"])
        self.taken = state["taken"]
        self._dataset.rebase(self._cursor)
        self.number = 0
        self._start()

"""ShardLoader: shards to batches of numpy arrays, in an order that is a function of (seed, epoch, position).

The constructor stores and checks its arguments. Shards are looked up, ranks resolved and threads started when the
first batch, or the length, is asked for.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from loaders.arguments import check_count, check_flag
from loaders.decoded.options import DecodedCache, decoded_cache_of
from loaders.draws import check_seed
from loaders.engine import Observer
from loaders.fields import DEFAULT_FIELDS, ImageSpec, parse_fields
from loaders.job import BatchJob, Cursor
from loaders.lanes import warn_of_shared_blocks
from loaders.make import Worker
from loaders.placements import PlacedSample, placements
from loaders.plan import TAILS, Tail
from loaders.policy import OnError, policy_of
from loaders.reading import Reading
from loaders.recipe import Recipe, sized
from loaders.report import Report
from loaders.selection import Access, AnyPlan, Opened, Options, Selection, Urls, as_selection, default_openness
from loaders.session import Session
from loaders.slab import Allocate, plain_memory
from loaders.state import State, state_of
from loaders.world import check_world, rank_share, world_of_environment
from wds_tools.cores import usable_cores
from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError
from wds_tools.pictures.kernel import capability
from wds_tools.pictures.options import Pictures
from wds_tools.urls import urls_shown

__all__ = ["ShardLoader", "Urls"]


class ShardLoader:
    """Batches of decoded samples, one epoch an iteration.

    Iterating gives one epoch of batches, the next iteration the next epoch; `set_epoch` overrides. An iteration that
    is broken off ends its epoch too. A batch is a NamedTuple with the fields' names, and belongs to the caller: its
    memory is not used again while anything refers to it. A loader pickles and copies at any time; the copy begins anew
    at the place where this one stands. In a batch a picture field is uint8 (N, H, W, 3), an int
    field int64 (N,), an array field stacked; everything else is a list of N.

    Args:
        urls: a string with braces, a glob, a folder, a `dataset.json`, a path, or a list of these; or a selection:
            `loaders.mix(...)`, `loaders.balanced(...)`.
        batch_size: samples per batch of this rank; either this or global_batch_size is given.
        global_batch_size: samples per batch of all ranks together, a multiple of the world size.
        fields: the columns; ";" separates alternatives, a final "?" allows a sample to lack the field.
        image: what pictures become: a crop for all of them, or a dict by field. None keeps their own size.
        transform: takes and returns one decoded sample, a dict; runs in the decode threads, so it should release the
            interpreter's lock or be short.
        collate: takes the list of a batch's samples (dicts) and returns the batch, in place of the above.
        seed: 0 to 2**64 - 1. The same seed gives the same epochs, whatever the ranks and threads.
        shuffle: False gives dataset order.
        lanes: sequential runs open at a time, for the whole job; None means 960 (240 for remote shards that were packed
            in shuffled order), or what a loaded state says.
        tail: "drop" leaves out what does not fill a global batch; "pad" repeats samples and adds an element `valid`,
            bool (N,); "exact" gives every sample once, in a last batch that may be short or empty.
        on_error: "raise", or "skip" to replace a bad sample by the next good one of its lane; or a handler of
            webdataset that says one of the two (`warn_and_continue`).
        threads: decode threads, in place of a DataLoader's num_workers; None means the cores that this process may use.
        rank: of this process; None means RANK as torchrun sets it, else 0.
        world_size: number of ranks; None means WORLD_SIZE, else 1.
        read: how far ahead is read.
        pictures: what decoding does with transparency, orientation, profiles and bombs.
        quarantine: a file to which skipped samples are listed.
        exclude: such a file, or sample indices, to be replaced without being read.
        decoded_cache: keep decoded pictures, "ram:8GB" or "FOLDER:200GB" or a `DecodedCache`: later epochs then cost a
            crop, a flip and a copy. Crops are cut from pictures of a stated size, so pixels differ a little from those
            without it (docs/arrays.md).

    Raises:
        UsageError: from the constructor, an argument that cannot be; later, see its subclasses.
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
        sizes = {"batch_size": batch_size, "global_batch_size": global_batch_size}
        for name, value in (*sizes.items(), ("threads", threads), ("lanes", lanes)):
            if value is not None:
                check_count(name, value)
        check_flag("shuffle", shuffle)
        if (batch_size is None) == (global_batch_size is None):
            raise UsageError(
                f"batch_size is {batch_size} and global_batch_size is {global_batch_size}, expected one of the two",
                cure="Pass batch_size= (of each rank) or global_batch_size= (of all ranks together).",
            )
        if tail not in TAILS:
            raise UsageError(f"tail is {tail!r}, expected one of {', '.join(TAILS)}")
        if (rank is None) != (world_size is None):
            raise UsageError("only one of rank and world_size is given", cure="Pass both, or neither.")
        self.urls = urls
        self.batch_size = batch_size
        self.global_batch_size = global_batch_size
        specs = parse_fields(fields, image)
        self._recipe = Recipe(
            batch_size=batch_size or 1,  # of a global one the share is known with the world size
            specs=specs,
            transform=transform,
            collate=collate,
            on_error=policy_of(on_error),
            exclude=exclude if exclude is None or isinstance(exclude, str | os.PathLike) else tuple(exclude),
            quarantine=Path(quarantine) if quarantine is not None else None,
            threads=threads if threads is not None else usable_cores(),
            read=read,
            pictures=pictures,
            decoded=sized(decoded_cache_of(decoded_cache), specs),
        )
        self._seed, self._shuffle, self._tail = seed, shuffle, tail
        check_seed(seed)
        self._lanes = lanes
        self._world = (rank, world_size)
        self._opened: Opened | None = None
        self._session: Session | None = None
        self._adopted: State | None = None
        self._cursor = Cursor(0, 0)
        self._broken_off = False  # the epoch at the cursor was begun and not finished
        self._loaded = False
        self._iteration = 0
        self._running: int | None = None  # the epoch of the iteration that the caller is in
        self._warned = False
        self._observer: Observer[BatchJob, Worker] | None = None
        self._told = False  # of what the kernel lacks

    # Places where a framework puts its own.

    def _resolve_world(self) -> tuple[int, int]:
        return world_of_environment()

    def _allocator(self) -> Allocate:
        return plain_memory

    def _present(self, batch: Any) -> Any:
        return batch

    @property
    def recipe(self) -> Recipe:
        """What a batch is made of: the arguments, checked."""
        return self._recipe

    @property
    def dataset(self) -> Dataset:
        """The shards and where their samples lie; opened on first use."""
        return self._selected().dataset

    def _selected(self) -> Opened:
        if self._opened is None:
            read = self._recipe.read
            self._opened = as_selection(self.urls).opened(Access(remote=read.remote, cache_dir=read.cache))
        return self._opened

    @property
    def plan(self) -> AnyPlan:
        """What decides the order."""
        adopted, lanes, block_bytes = self._adopted, self._lanes, self._recipe.read.block_bytes
        default = default_openness(self.dataset)
        if lanes is None:
            lanes = adopted.lanes if adopted else default.lanes
        return self._selected().plan(
            Options(
                lanes=lanes,
                block=adopted.block if block_bytes is None and adopted else None,
                block_bytes=block_bytes or default.block_bytes,
                seed=self._seed,
                shuffle=self._shuffle,
                tail=self._tail,
            )
        )

    def _part(self) -> tuple[int, int, Recipe]:
        """Rank, world size, and the recipe with this rank's batch size."""
        rank, world_size = self._world
        if rank is None or world_size is None:
            rank, world_size = self._resolve_world()
        rank, world_size = check_world(rank, world_size)
        if self.global_batch_size is None:
            return rank, world_size, self._recipe
        return rank, world_size, replace(self._recipe, batch_size=rank_share(self.global_batch_size, world_size))

    def _begin(self) -> Session:
        if self._session is None:
            rank, world_size, recipe = self._part()
            plan = self.plan
            self._warn(plan, rank, world_size)
            self._session = Session(
                self.dataset,
                plan,
                recipe,
                rank=rank,
                world_size=world_size,
                allocate=self._allocator(),
                observer=self._observer,
            )
            weakref.finalize(self, self._session.abandon)
        return self._session

    def _warn(self, plan: AnyPlan, rank: int, world_size: int) -> None:
        """Of the first rank, and once: closing a loader and iterating it anew tells nobody anything new."""
        if rank == 0 and plan.shuffle and not self._warned:
            self._warned = True
            warn_of_shared_blocks(lanes=plan.lanes, block=plan.block, world_size=world_size)

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank, the same on every rank."""
        session = self._begin()
        return session.plan.batches(session.global_batch)

    def __iter__(self) -> Iterator[Any]:
        session = self._begin()
        self._running = None  # an iteration before this one is over
        if self.epoch != self._cursor.epoch:
            self._cursor, self._broken_off = Cursor(self.epoch, 0), False
        self._iteration += 1  # and no more: frameworks ask for an iterator, and for another before they take a batch
        return self._iterate(session, self._iteration)

    def _iterate(self, session: Session, iteration: int) -> Iterator[Any]:
        last = False
        try:
            while not last:
                if iteration != self._iteration or session is not self._session:
                    raise UsageError(
                        "the loader was iterated, moved or closed while this iteration ran",
                        cure="Use one iteration at a time, or one loader for each.",
                    )
                job = session.take(self._cursor)
                self._running, self._cursor, last = self._cursor.epoch, job.after, job.last
                self._broken_off, self._loaded = not last, False
                batch = self._present(job.batch)
                del job  # or this frame would keep the batch's memory while the caller has let it go
                yield batch
                del batch
        finally:
            if iteration == self._iteration:
                self._running = None

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration gives; while one runs, the epoch that it gives.

        A script that goes on from a state counts on from here: `for epoch in range(loader.epoch, epochs):`. An
        iteration that is broken off is over as soon as it is let go, which leaving a `for` loop does.
        """
        if self._running is not None:
            return self._running
        # After a state there may be less left than one batch of the size in use now: there is no empty epoch.
        return self._cursor.epoch + (self._broken_off or not self._left())

    def _left(self) -> bool:
        """Whether the epoch at the cursor has a batch left."""
        if self._cursor.position == 0:
            return True
        _, world_size, recipe = self._part()
        return self.plan.batches(recipe.batch_size * world_size, position=self._cursor.position) > 0

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its start; a loaded state's own epoch keeps its place."""
        if not (self._loaded and epoch == self._cursor.epoch):
            self._move(Cursor(epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands: JSON, under 400 bytes, equal on all ranks. Counts what the caller got."""
        return state_of(self._begin().plan, self._cursor, self._recipe.backend).as_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, at any world size, batch size and number of threads.

        Raises:
            StateError: it is of another dataset, seed, order or tail; the message says what changed.
        """
        loaded = State.of_dict(state)
        before, self._adopted = self._adopted, loaded
        try:
            loaded.check(self.plan, self._recipe.backend)
        except Exception:
            self._adopted = before
            raise
        if self._session is not None and (self._session.plan.lanes, self._session.plan.block) != (
            loaded.lanes,
            loaded.block,
        ):
            self.close()
        self._move(Cursor(loaded.epoch, loaded.position))
        self._loaded = True

    def _move(self, cursor: Cursor) -> None:
        self._cursor, self._broken_off, self._loaded, self._running = cursor, False, False, None
        self._iteration += 1

    def observe(self, observer: Observer[BatchJob, Worker]) -> None:
        """Tell this object what the threads do, such as a `loaders.Trace`. What runs is ended, as `close` does."""
        self.close()
        self._observer = observer

    def report(self) -> Report:
        """What was done so far, where the time went, and what sets the pace."""
        session = self._begin()
        told, self._told = self._told, True
        return session.report(self._cursor, missing="" if told else capability().missing)

    def placements(self, *, epoch: int, batch: int) -> list[PlacedSample]:
        """What a batch of this rank is made of, and where its pictures are cut; headers are read, nothing is decoded.

        The run is not disturbed, and need not have begun. `batch` is counted from 0 at the epoch's start, in batches of
        this loader's size. See `loaders.placements`.
        """
        rank, world_size, recipe = self._part()
        plan = self.plan
        plan.check(recipe.batch_size * world_size)
        return placements(self.dataset, plan, recipe, epoch=epoch, batch=batch, rank=rank, world_size=world_size)

    def close(self) -> None:
        """End the threads and close the shards; twice does nothing, and iterating begins anew."""
        if self._session is not None:
            self._session.close()
            self._session = self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or what is pickled, has no threads or open shards: it goes on at the same place by itself."""
        begun = {"_session": None, "_running": None, "_observer": None}
        return {**self.__dict__, **begun, "_broken_off": False, "_loaded": self._loaded or self._broken_off}

    def __repr__(self) -> str:
        fields = ", ".join(spec.text for spec in self._recipe.specs)
        size = f"batch_size={self.batch_size}" if self.batch_size else f"global_batch_size={self.global_batch_size}"
        return f"{type(self).__name__}({urls_shown(self.urls)}, {size}, fields=({fields}))"

    def _repr_html_(self) -> str:
        from loaders.notebook import facts_html, urls_in_words

        specs, opened = self._recipe.specs, self._opened
        found = None if opened is None else f"{len(opened.dataset):,} in {len(opened.dataset.urls):,} shards"
        facts = {
            "urls": urls_in_words(self.urls),
            "samples": found,
            "batch_size": self.batch_size,
            "global_batch_size": self.global_batch_size,
            "fields": ", ".join(spec.text for spec in specs),
            "image": ", ".join(f"{spec.name}: {spec.image}" for spec in specs if spec.image is not None) or None,
            "order": f"shuffled, seed {self._seed}" if self._shuffle else "dataset order",
            "tail": self._tail,
            "threads": self._recipe.threads,
            "place": f"epoch {self._cursor.epoch}, {self._cursor.position:,} samples of the whole job handed out",
        }
        return facts_html(type(self).__name__, facts)

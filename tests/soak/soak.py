"""Trainings one after the other, each with a trouble at a moment that the seed draws, for so many seconds.

A training is one epoch of the plan through one feed. What it is given is held against a reference that was computed
before anything was broken: order, keys and bytes. Where it ends with an error, that has to be of the right class and to
name what was broken; the damage is mended, and the training goes on from its state, on the same loader or on a new one,
to the end of the epoch. In the end memory, threads, descriptors, processes and files are what they were.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.soak import disk
from tests.soak.faults import FAULTS, Fault, Scene
from tests.soak.feeds import BATCH, FEEDS, Feed, Places, plain
from tests.soak.site import Shards, Web, content, key_of
from tests.soak.usage import Usage, check_flat, grown, usage

__all__ = ["Soak", "soak"]

EPOCHS = 8
_DISK = 8 << 20  # of 20 MB
_BEFORE = 0.2  # of the troubles are there before the loader looks


def soak(seconds: float, seed: int) -> dict[str, Any]:
    """Train for so long; the figures.

    Raises:
        AssertionError: a training was given something else than its plan, or ended with another error than it may; or
            something grew.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        shards = Shards(folder)
        web = stack.enter_context(Web(shards.folder))
        places = Places(
            folder=shards.folder, url=web.url, cache=folder / "cache", disk=folder / "disk", cache_bytes=_DISK
        )
        mounted = stack.enter_context(disk.small_disk(places.disk, _DISK))
        places.cache.mkdir()
        own = folder / "tmp"
        own.mkdir()
        stack.enter_context(_temporary_folder(own))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()  # full caches by the hundred; and who keeps records keeps the errors in them, and their files
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        run = Soak(Scene(shards=shards, web=web, places=places), own, folder, seed, disks=mounted)
        run.go(seconds)
        figures = run.figures()
        check_flat(figures["held"])
        return figures


@contextlib.contextmanager
def _temporary_folder(folder: Path) -> Iterator[None]:
    before, os.environ["TMPDIR"], tempfile.tempdir = os.environ.get("TMPDIR"), str(folder), None
    try:
        yield
    finally:
        tempfile.tempdir = None
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before


class Soak:
    """See `soak`.

    Args:
        scene: what is trained on, and can be broken.
        temporary: the folder of temporary files.
        folder: where all lies.
        seed: of everything that is drawn.
        disks: whether there is a small disk to be filled.
    """

    def __init__(self, scene: Scene, temporary: Path, folder: Path, seed: int, *, disks: bool) -> None:
        self._scene = scene
        self._temporary, self._folder = temporary, folder
        self._seed = seed
        self._draw = random.Random(seed)
        self._disks = disks
        self._plan = _reference(scene.shards)
        self._contents = [content(number) for number in range(scene.shards.samples)]
        self._outcomes: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._held: list[tuple[float, Usage]] = []
        self._seconds = 0.0

    def go(self, seconds: float) -> None:
        """Train until the time is over; a training that has begun is ended."""
        begun = time.monotonic()
        for feed in self._feeds():
            self._train(feed, FAULTS[0])
        self._held.append((time.monotonic() - begun, self._usage()))
        while (passed := time.monotonic() - begun) < seconds:
            feed = self._draw.choice(self._feeds())
            fault = self._draw.choice([fault for fault in FAULTS if fault.applies(feed)])
            try:
                self._train(feed, fault)
            except BaseException as error:
                error.add_note(f"seed {self._seed}, after {passed:.0f} s: {feed.name}, {fault.name}")
                raise
            self._held.append((time.monotonic() - begun, self._usage()))
        self._seconds = time.monotonic() - begun

    def figures(self) -> dict[str, Any]:
        """What was done, what came of it and what is held."""
        return {
            "seed": self._seed,
            "seconds": round(self._seconds),
            "small_disk": self._disks,
            **dict(sorted(self._counts.items())),
            "outcomes": dict(sorted(self._outcomes.items())),
            "held": grown(self._held),
        }

    def _feeds(self) -> list[Feed]:
        return [feed for feed in FEEDS if self._disks or feed.cache != "disk"]

    def _usage(self) -> Usage:
        return usage(self._temporary, self._folder)

    def _train(self, feed: Feed, fault: Fault) -> None:
        """One epoch, with one trouble in it, and what is left of it once that is mended."""
        epoch, at = self._draw.randrange(EPOCHS), 1 + self._draw.randrange(len(self._plan[0]))
        if not fault.stops and self._draw.random() < _BEFORE:
            at = 0
        self._empty_caches(feed)
        with contextlib.ExitStack() as trouble, contextlib.ExitStack() as opened:

            def strike() -> str:
                return trouble.enter_context(fault.struck(self._scene, self._draw))

            named = strike() if at == 0 else ""
            loader = opened.enter_context(feed.opened(self._scene.places, hasty=fault.hasty))
            taken = self._broken(loader, fault, epoch, at, named, strike)
            if taken < len(self._plan[epoch]) and not (fault.stops and self._draw.random() < 0.5):
                state = loader.state_dict() if taken else None
                trouble.close()
                if fault.shards or feed.workers or self._draw.random() < 0.5:
                    opened.close()
                    gc.collect()  # an iterator of torch lives as long as what it raised, and is not to be forked
                    loader = opened.enter_context(feed.opened(self._scene.places, hasty=False))
                self._go_on(loader, state, epoch, taken)

    def _broken(self, loader: Any, fault: Fault, epoch: int, at: int, named: str, strike: Callable[[], str]) -> int:
        """The epoch, struck behind batch `at`, to its end or to the right error; how many batches came."""
        taken = 0
        try:
            loader.set_epoch(epoch)
            for batch in loader:
                self._check(batch, epoch, taken)
                taken += 1
                if taken == at and fault.stops:
                    break
                if taken == at:
                    named = strike()
        except Exception as error:  # noqa: BLE001 - it is looked at
            fault.check(error, named)
            self._count(fault, type(error).__name__)
        else:
            assert fault.stops or taken == len(self._plan[epoch])
            self._count(fault, "stopped" if fault.stops else "whole")
        return taken

    def _go_on(self, loader: Any, state: Mapping[str, Any] | None, epoch: int, taken: int) -> None:
        """From the state to the end of the epoch, over what is mended."""
        if state is None:
            loader.set_epoch(epoch)
        else:
            assert (state["epoch"], state["position"]) == (epoch, taken * BATCH)
            loader.load_state_dict(state)
        for batch in loader:
            self._check(batch, epoch, taken)
            taken += 1
        assert taken == len(self._plan[epoch])
        self._counts["gone_on"] += 1

    def _check(self, batch: Any, epoch: int, number: int) -> None:
        """Order, keys and bytes."""
        wanted = self._plan[epoch][number]
        assert batch.cls.tolist() == wanted, f"batch {number} of epoch {epoch} has other samples"
        assert list(batch.txt) == list(map(key_of, wanted))
        assert all(bytes(found) == self._contents[n] for found, n in zip(batch.bin, wanted, strict=True))
        self._counts["batches"] += 1

    def _count(self, fault: Fault, outcome: str) -> None:
        self._counts["trainings"] += 1
        self._outcomes[f"{fault.name}: {outcome}"] += 1

    def _empty_caches(self, feed: Feed) -> None:
        if feed.cache == "disk":
            disk.free(self._scene.places.disk)
        elif feed.cache and self._draw.random() < 0.5:
            disk.free(self._scene.places.cache)


def _reference(shards: Shards) -> list[list[list[int]]]:
    """The samples of each batch of each epoch; every sample but those of the last, short batch once."""
    with plain(shards.folder) as loader:
        plan = [[batch.cls.tolist() for batch in loader] for _ in range(EPOCHS)]
    for epoch in plan:
        numbers = [number for batch in epoch for number in batch]
        assert len(set(numbers)) == len(numbers) == shards.samples // BATCH * BATCH
    return plan

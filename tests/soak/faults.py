"""What happens to a training, and what may come of it: the plan to the byte, or an error of the right class."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from tests.cases.inputs_memory import children
from tests.soak import disk
from tests.soak.feeds import Feed, Places
from tests.soak.site import Shards, Web
from wds_tools.errors import (
    ShardChangedError,
    ShardError,
    ShardMissingError,
    StaleIndexError,
    UnavailableError,
)

__all__ = ["FAULTS", "Fault", "Scene"]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What can be broken."""

    shards: Shards
    web: Web
    places: Places


Mend: TypeAlias = Callable[[], None]
Strike: TypeAlias = Callable[[Scene, random.Random], tuple[str, Mend]]
"""Breaks something; what an error then has to name, and how it is mended."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One kind of trouble.

    Attributes:
        name: for the figures.
        strike: brings it about.
        errors: what may end the epoch; nothing, where it has to yield its plan.
        applies: to which feeds.
        hasty: whether the loader is to give up soon.
        stops: the consumer stops there.
        shards: whether it changes shards, so that a loader that has seen them may not go on with what is put back.
    """

    name: str
    strike: Strike
    errors: tuple[type[Exception], ...] = ()
    applies: Callable[[Feed], bool] = lambda _: True
    hasty: bool = False
    stops: bool = False
    shards: bool = False

    @contextmanager
    def struck(self, scene: Scene, draw: random.Random) -> Iterator[str]:
        """Broken while the block runs; what an error has to name."""
        named, mend = self.strike(scene, draw)
        try:
            yield named
        finally:
            mend()

    def check(self, error: Exception, named: str) -> None:
        """An epoch may end with that, and it names what was broken.

        Raises:
            AssertionError: it may not.
        """
        right = isinstance(error, self.errors) and named in str(error)
        if not right:
            raise AssertionError(f"{self.name}: the epoch ended with {type(error).__name__}: {error}") from error


def _nothing(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    return "", lambda: None


def _shard(break_it: Callable[[Shards, random.Random], str]) -> Strike:
    def strike(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
        name = break_it(scene.shards, draw)
        return name, lambda: scene.shards.mend(name)

    return strike


def _dies_and_returns(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    scene.web.die()
    scene.web.mend_in(draw.random())
    return "", scene.web.mend


def _is_gone(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    scene.web.die()
    return "127.0.0.1", scene.web.mend


def _stands_and_goes_on(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    scene.web.stand()
    scene.web.mend_in(2 * draw.random())
    return "", scene.web.mend


def _disk_fills(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    disk.fill(scene.places.disk)
    return "", lambda: None  # it is emptied when nobody uses it


def _worker_is_killed(scene: Scene, draw: random.Random) -> tuple[str, Mend]:
    workers = [process for process in children() if process not in scene.web.processes]
    if workers:
        os.kill(draw.choice(workers), signal.SIGKILL)
    return "DataLoader worker", lambda: None


DAMAGED = (ShardError, ShardChangedError, StaleIndexError)

FAULTS = (
    Fault(name="none", strike=_nothing),
    Fault(
        name="shard truncated in place",
        strike=_shard(Shards.truncate),
        errors=DAMAGED,
        shards=True,
        applies=lambda feed: not feed.web,
    ),
    Fault(name="shard cut short", strike=_shard(Shards.cut), errors=DAMAGED, shards=True),
    Fault(name="shard replaced", strike=_shard(Shards.replace), errors=DAMAGED, shards=True),
    Fault(name="shard deleted", strike=_shard(Shards.delete), errors=(ShardMissingError,), shards=True),
    Fault(name="server dies and returns", strike=_dies_and_returns, applies=lambda feed: feed.web),
    Fault(name="server gone", strike=_is_gone, errors=(UnavailableError,), applies=lambda feed: feed.web, hasty=True),
    Fault(name="server stands and goes on", strike=_stands_and_goes_on, applies=lambda feed: feed.web),
    Fault(name="disk fills", strike=_disk_fills, applies=lambda feed: feed.cache == "disk"),
    Fault(
        name="worker killed",
        strike=_worker_is_killed,
        errors=(RuntimeError, UnavailableError),
        applies=lambda feed: feed.workers > 0,
    ),
    Fault(name="consumer stops", strike=_nothing, stops=True),
)

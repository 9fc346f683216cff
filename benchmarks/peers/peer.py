"""What a contestant of the race is: a name, what it needs, what it makes of the pictures beforehand, and its epoch.

A peer's module says all of this without importing anything of the peer: that happens in a process of its own, with an
interpreter of its own where the peer needs other versions of packages than we do (`install`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BATCH", "PARALLEL", "SIZE", "Peer", "Work", "loose_pictures"]

BATCH = 64
PARALLEL = 2
SIZE = 224


@dataclass(frozen=True, kw_only=True)
class Work:
    """What every contestant gets; all of it goes through JSON.

    Attributes:
        pictures: the folder of class folders with the loose pictures.
        shards: the same, as tars.
        own: what the peer's `prepare` wrote; None where it prepares nothing.
        parallel: worker processes, or threads, by what the peer is made for.
    """

    pictures: str
    shards: list[str]
    own: str | None = None
    parallel: int = PARALLEL


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One contestant.

    Attributes:
        name: in the tables.
        does: what it was asked to do, in a few words.
        run: one epoch over the work, as an iterable of how many pictures each batch has, in uint8 of 224x224x3 with a
            label each. The first is there when everything is set up.
        prepare: writes the pictures in the peer's own format into an empty folder; None where it takes files or tars.
        load: imports what it needs; what that raises is why the peer cannot run.
        packages: distributions whose versions are named, the peer's own first.
        environment: the requirements file, and so the interpreter, it runs with (`install`); None is ours.
        ours: it is this project.
        limit: it is no loader but what no loader can pass by decoding with libjpeg-turbo.
    """

    name: str
    does: str
    run: Callable[[Work], Iterator[int]]
    prepare: Callable[[Work, Path], None] | None = None
    load: Callable[[], object] = _nothing
    packages: tuple[str, ...] = ()
    environment: str | None = None
    ours: bool = False
    limit: bool = False


def loose_pictures(work: Work) -> tuple[list[Path], list[int]]:
    """The loose pictures and their labels, as an ImageFolder sees them: classes numbered by name."""
    files = sorted(Path(work.pictures).glob("*/*.jpg"))
    number = {name: at for at, name in enumerate(sorted({path.parent.name for path in files}))}
    return files, [number[path.parent.name] for path in files]

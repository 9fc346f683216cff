"""Which entries belong to which dataset, and which datasets are in use.

An epoch is a permutation: within a dataset every extent is needed equally soon, and least-recently-used would throw out
what is needed next (15% hits where keeping gives 50%, with a cache of half the data). So entries stay while their
dataset is in use, and only what belongs to no dataset in use makes room for another, the longest unused first.

`datasets/<hash>` lists the names of a dataset's entries, a line each, behind a first line for people. An entry may be
in several lists: it is stored once. Whoever uses a dataset holds its list by a shared lock, which the kernel ends with
the process; the list's modification time is when it was last taken up. Names are added before the entry is made, so
that a kill leaves no entry without a list. Lists are made, added to and removed under the ledger's lock.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from wds_tools.sources.cache import locks
from wds_tools.sources.cache.inspection import entries, inspect
from wds_tools.sources.cache.ledger import Balance
from wds_tools.sources.cache.names import group_name, is_entry

__all__ = ["Group", "Membership", "ages", "groups", "make_room", "remove_entry", "remove_idle_lists"]

DATASETS = "datasets"


class Membership:
    """This process's use of a dataset: its list, held by a shared lock until `close`."""

    def __init__(self, descriptor: int, names: set[str]) -> None:
        self._descriptors = [descriptor]
        self._names = names

    @classmethod
    def begin(cls, folder: Path, dataset: str) -> Self:
        """Take up a dataset; only under the ledger's lock.

        Raises:
            OSError: the folder cannot be written.
        """
        path = folder / DATASETS / group_name(dataset)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            locks.share(descriptor)
            lines = _lines(path)
            if not lines:
                os.write(descriptor, json.dumps(dataset).encode("ascii") + b"\n")
            os.utime(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, set(filter(is_entry, lines)))

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Put an entry on the list; only under the ledger's lock. One that is there already may come twice."""
        os.write(self._descriptors[0], f"{name}\n".encode("ascii"))
        self._names.add(name)

    def close(self) -> None:
        """Stop using it. Twice does nothing."""
        with contextlib.suppress(IndexError):
            os.close(self._descriptors.pop())


class Group(NamedTuple):
    """A dataset in the cache: its list, what people call it, when it was last taken up, whether it is in use."""

    path: Path
    title: str
    used_at: float
    in_use: bool
    names: frozenset[str]


def groups(folder: Path) -> Iterator[Group]:
    """All datasets of a cache."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted((folder / DATASETS).iterdir()):
            with contextlib.suppress(FileNotFoundError):
                lines, used_at = _lines(path), path.stat().st_mtime
                names = frozenset(filter(is_entry, lines))
                yield Group(path, _title(lines), used_at, locks.is_shared(path), names)


def ages(folder: Path) -> dict[str, float]:
    """For each name on any list when its datasets were last taken up; infinity while one of them is in use."""
    found: dict[str, float] = {}
    for group in groups(folder):
        at = math.inf if group.in_use else group.used_at
        for name in group.names:
            found[name] = max(found.get(name, 0.0), at)
    return found


def make_room(balance: Balance, need: int) -> bool:
    """Remove entries of unused datasets, the longest unused first, until `need` bytes fit; whether they do."""
    age = ages(balance.folder)
    idle = [(age.get(path.name, 0.0), path) for path in entries(balance.folder)]
    for at, path in sorted(idle):
        if balance.fits(need) or at == math.inf:
            break
        remove_entry(balance, path)
    remove_idle_lists(balance)
    return balance.fits(need)


def remove_entry(balance: Balance, path: Path) -> int:
    """Remove one entry and give its bytes back; how many they were."""
    found = inspect(path)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    cost = 0 if found is None else found.cost
    balance.book(-cost)
    return cost


def remove_idle_lists(balance: Balance) -> None:
    """Remove the lists of datasets that are not in use and have nothing in the cache any more."""
    there = {path.name for path in entries(balance.folder)}
    for group in groups(balance.folder):
        if not group.in_use and not group.names & there:
            group.path.unlink(missing_ok=True)


def _lines(path: Path) -> list[str]:
    return path.read_text("ascii", errors="replace").splitlines()


def _title(lines: list[str]) -> str:
    with contextlib.suppress(ValueError, IndexError):
        return str(json.loads(lines[0]))
    return "?"

"""Decode, random crop to 224x224, flip, uint8 batches of 64: this loader, every other one that is installed, the limit.

Each contestant lives in a process of its own for the whole run, with an interpreter of its own where it needs one; its
loader is made anew for each sample. The clock starts with the first batch, so that nobody pays for starting workers or
compiling here (`first_batch` measures that for those that people use most). All get the same two cores, and two worker
processes or threads, whichever they are made for. What each of them decodes and how it resizes stands beside it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.material import VERSION, Material, once
from benchmarks.peers import PEERS
from benchmarks.peers.limit import LIMIT
from benchmarks.peers.ours import OURS_PILLOW, OURS_SIMPLEJPEG, OURS_STOCK
from benchmarks.peers.peer import BATCH, PARALLEL, SIZE, Peer, Work
from benchmarks.peers.process import PeerError, PeerProcess, interpreter
from benchmarks.table import OURS, Row, ratio
from benchmarks.timing import Contestant, Timing, Watch, compare

__all__ = ["ENVIRONMENTS", "RACE", "Entry", "Starters", "race"]

RACE = f"decode, crop {SIZE}, batches of {BATCH}"
ENVIRONMENTS = "environments"
"""The folder beside the material in which `python -m benchmarks.peers.install` makes them."""

GOALS = {OURS: (2.4, 1.15), OURS_STOCK: (1.7, 0.85), OURS_SIMPLEJPEG: (0.85, None), OURS_PILLOW: (None, None)}
"""What each of ours must reach: so many times the fastest other loader, and so much of the limit."""


@dataclass(frozen=True)
class Entry:
    """A contestant that has begun to run."""

    peer: Peer
    process: PeerProcess
    work: Work

    def epoch(self) -> Iterator[int]:
        """See `timing`."""
        return self.process.run(self.work)


@dataclass
class Starters:
    """Who runs, and why the others do not.

    Attributes:
        entries: by name.
        absent: the reasons, by name.
        versions: of what each of them stands on, by name.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def enter(
        self, stack: ExitStack, material: Material, peer: Peer, *, name: str, cores: int, environments: Path
    ) -> None:
        """Start a contestant, let it prepare, and see that it makes two batches."""
        logs = material.folder / "logs"
        logs.mkdir(exist_ok=True)
        process = stack.enter_context(
            PeerProcess(peer, python=interpreter(peer, environments), log=logs / f"{_slug(name)}.txt", cores=cores)
        )
        try:
            self.versions[name] = process.load()
            work = _prepared(process, peer, material, min(cores, PARALLEL))
            process.attempt(work)
        except PeerError as error:
            self.absent[name] = str(error)
            process.close()
        else:
            self.entries[name] = Entry(peer, process, work)


def race(
    material: Material, watch: Watch, *, names: Sequence[str] | None = None, environments: Path | None = None
) -> list[Row]:
    """All contestants in turn; what each of ours must reach beside the fastest of the others and the limit; the absent.

    Args:
        material: what to decode.
        watch: how much care is taken.
        names: of the contestants; default all.
        environments: where `install` made them; default beside the material.
    """
    starters = Starters()
    with ExitStack() as stack:
        for name in names or PEERS:
            starters.enter(
                stack,
                material,
                PEERS[name],
                name=name,
                cores=PARALLEL,
                environments=environments or material.folder / ENVIRONMENTS,
            )
        contestants: dict[str, Contestant] = {name: entry.epoch for name, entry in starters.entries.items()}
        timings = compare(contestants, watch)
    return [*_rows(timings, starters), *_goals(timings), *_absent(starters)]


def _prepared(process: PeerProcess, peer: Peer, material: Material, parallel: int) -> Work:
    work = Work(pictures=str(material.pictures), shards=material.shards, parallel=parallel)
    if peer.prepare is None:
        return work
    own = material.folder / f"{_slug(peer.environment or peer.name)}-{material.count}-v{VERSION}"

    def make(target: Path) -> None:
        sys.stderr.write(f"  {peer.name}: preparing ...\n")
        process.prepare(work, target)

    own = once(own, make)
    return Work(pictures=work.pictures, shards=work.shards, parallel=parallel, own=str(own))


def _rows(timings: Mapping[str, Timing], starters: Starters) -> list[Row]:
    rows = [
        Row(
            work=RACE,
            who=name,
            value=timing.rate,
            unit="pictures/s",
            ratio=ratio(timings[OURS], timing) if OURS in timings and name != OURS else None,
            noisy=timing.noisy,
            spread=timing.spread,
            of_limit=ratio(timing, timings[LIMIT]) if LIMIT in timings else None,
            note=f"{PEERS[name].does} ({_versions(starters.versions[name])})",
        )
        for name, timing in timings.items()
    ]
    return sorted(rows, key=lambda row: -(row.value or 0))


def _goals(timings: Mapping[str, Timing]) -> list[Row]:
    others = [name for name in timings if not (PEERS[name].ours or PEERS[name].limit)]
    fastest = max(others, key=lambda name: timings[name].rate, default=None)
    rows = []
    for name, goals in GOALS.items():
        for rival, goal in zip((fastest, LIMIT), goals, strict=True):
            if goal is not None and name in timings and rival in timings:
                assert rival is not None
                reached = ratio(timings[name], timings[rival])
                rows.append(Row(work=f"over {rival}", who=name, value=reached, unit="x", ratio=reached, goal=goal))
    return rows


def _absent(starters: Starters) -> list[Row]:
    return [Row(work=RACE, who=name, value=None, unit="", note=reason) for name, reason in starters.absent.items()]


def _versions(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items()) or "the system's library"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

"""One core, then two: what the second is worth, and what a picture costs in Python, where a process has but one lock.

A picture takes T microseconds on one core, of which its process holds the lock of the interpreter for G and is in C
without it for the rest. A process with c cores so makes min(c / T, 1 / G) pictures a second and cannot keep more than
T / G cores busy; a machine with more of them wants more processes, which one for each GPU gives anyway. G is measured
as what our loader costs when nothing is decoded, less what reading the same bytes costs (`os.pread` holds no lock), so
it has parsing headers, drawing crops, and moving chunks and batches between threads in it.

Contestants are those of `race`, started on so many cores (as `taskset` does) with as many workers or threads.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.material import Material
from benchmarks.peers import PARTS, PEERS
from benchmarks.peers.limit import LIMIT
from benchmarks.peers.overhead import FREE, FREE_NULL, NULL, READS
from benchmarks.peers.peer import PARALLEL
from benchmarks.race import ENVIRONMENTS, Starters
from benchmarks.table import OURS, Row, ratio
from benchmarks.timing import Timing, Watch, compare

__all__ = ["scaling"]

NAMES = (OURS, LIMIT, "Dataset of files (cv2)", "webdataset + simplejpeg + cv2", "DALI (CPU)")
MOST_PYTHON = 10.0
"""Microseconds a picture that ours may take in Python."""


def scaling(
    material: Material, watch: Watch, *, names: Sequence[str] | None = None, environments: Path | None = None
) -> list[Row]:
    """Rates on one core and on two, and their ratio; then the microseconds of a picture."""
    starters, wanted = Starters(), [*(names or NAMES), FREE, NULL, FREE_NULL, READS]
    with ExitStack() as stack:
        for name in wanted:
            for cores in range(1, PARALLEL + 1):
                starters.enter(
                    stack,
                    material,
                    (PEERS | PARTS)[name],
                    name=_on(name, cores),
                    cores=cores,
                    environments=environments or material.folder / ENVIRONMENTS,
                )
        timings = compare({name: entry.epoch for name, entry in starters.entries.items()}, watch)
    rows = [row for name in wanted if name != READS for row in _rates(name, timings, starters)]
    return rows + (_overhead(timings) if all(_on(name, 1) in timings for name in (OURS, NULL, READS)) else [])


def _on(name: str, cores: int) -> str:
    return f"{name}, {cores} core{'s' * (cores > 1)}"


def _rates(name: str, timings: Mapping[str, Timing], starters: Starters) -> list[Row]:
    rows = []
    for cores in range(1, PARALLEL + 1):
        who = _on(name, cores)
        work = _on("null decode" if name in {NULL, FREE_NULL} else "decode, crop 224", cores)
        if who in starters.absent:
            rows.append(Row(work=work, who=name, value=None, unit="", note=starters.absent[who]))
            continue
        ours, limit, timing = timings.get(_on(OURS, cores)), timings.get(_on(LIMIT, cores)), timings[who]
        rows.append(
            Row(
                work=work,
                who=name,
                value=timing.rate,
                unit="pictures/s",
                ratio=ratio(ours, timing) if ours and name in PEERS and name != OURS else None,
                noisy=timing.noisy,
                spread=timing.spread,
                of_limit=ratio(timing, limit) if limit and name in PEERS else None,
            )
        )
    one, two = timings.get(_on(name, 1)), timings.get(_on(name, PARALLEL))
    if one and two:
        rows.append(Row(work=f"{PARALLEL} cores over 1", who=name, value=ratio(two, one), unit="x"))
    return rows


def _overhead(timings: Mapping[str, Timing]) -> list[Row]:
    """Microseconds of one core, each the median of the rounds' differences, which are close in time."""

    def figure(of: Callable[..., float], *names: str) -> float:
        rounds = zip(*(timings[_on(name, 1)].rates for name in names), strict=True)
        return statistics.median(of(*(1e6 / rate for rate in rates)) for rates in rounds)

    python = figure(lambda null, reads: null - reads, NULL, READS)
    rows = [
        ("all of it (T)", figure(lambda ours: ours, OURS), "us"),
        ("without decoding", figure(lambda null: null, NULL), "us"),
        ("reading", figure(lambda reads: reads, READS), "us"),
        ("Python (G)", python, "us"),
        (
            "cores that one process keeps busy (T / G)",
            figure(lambda ours, null, reads: ours / (null - reads), OURS, NULL, READS),
            "cores",
        ),
    ]
    return [
        Row(
            work="a picture on 1 core",
            who=f"{OURS}, {name}",
            value=value,
            unit=unit,
            ratio=value if name == "Python (G)" else None,
            goal=MOST_PYTHON if name == "Python (G)" else None,
            at_most=True,
        )
        for name, value, unit in rows
    ]

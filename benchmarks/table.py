"""What came out, as rows: printed as a table, kept as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.timing import Timing

__all__ = ["OURS", "Row", "environment", "ratio", "rows_of", "text", "write_json"]

OURS = "shardstream"
PACKAGES = ("torch", "numpy", "pillow", "webdataset", "simplejpeg", "opencv-python-headless")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contestant at one piece of work.

    Attributes:
        work: what was to be done.
        who: who did it.
        value: how much or how fast, the median over the rounds; None for a contestant that did not run.
        unit: of the value.
        ratio: ours over theirs, the median over the rounds; for what is no race, the value over its limit.
        goal: what the ratio must reach (or, with `at_most`, stay under).
        at_most: whether less is better.
        noisy: samples that the machine disturbed and that were kept after several tries.
        spread: the slowest and the fastest round, in `unit`.
        of_limit: the value over what the hardware allows, the median over the rounds.
        note: what it was asked to do, or why it did not run.
    """

    work: str
    who: str
    value: float | None
    unit: str
    ratio: float | None = None
    goal: float | None = None
    at_most: bool = False
    noisy: int = 0
    spread: tuple[float, float] | None = None
    of_limit: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached; None without one."""
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


def rows_of(
    work: str, timings: Mapping[str, Timing], goals: Mapping[str, float], *, unit: str = "samples/s"
) -> list[Row]:
    """A row for each contestant, with our ratio to it: the median over the rounds, each of which lies close in time."""
    ours = timings[OURS]
    return [
        Row(
            work=work,
            who=who,
            value=timing.rate,
            unit=unit,
            ratio=None if who == OURS else ratio(ours, timing),
            goal=goals.get(who),
            noisy=timing.noisy,
            spread=timing.spread,
        )
        for who, timing in timings.items()
    ]


def ratio(ours: Timing, theirs: Timing) -> float:
    """Ours over theirs in each round, which lie close in time; of these the median."""
    return statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))


_VERDICT = {True: "ok", False: "SHORT", None: ""}


def text(rows: Iterable[Row]) -> str:
    """The table as plain text."""
    lines = [("work", "who", "value", "", "spread", "of limit", "ours/theirs", "goal", "")]
    lines += [
        (
            row.work,
            row.who,
            "-" if row.value is None else _figure(row.value),
            row.unit,
            "" if row.spread is None else f"{_figure(row.spread[0])} .. {_figure(row.spread[1])}",
            "" if row.of_limit is None else f"{row.of_limit:.2f}",
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "" if row.goal is None else f"{'<=' if row.at_most else '>='} {row.goal:g}",
            " ".join(filter(None, [_VERDICT[row.met], f"({row.noisy} noisy)" if row.noisy else "", _absence(row)])),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = {2, 4, 5, 6, 7}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _absence(row: Row) -> str:
    return f"did not run: {row.note}" if row.value is None else ""


def environment() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def write_json(path: Path, rows: Iterable[Row], facts: Mapping[str, object]) -> None:
    """Keep the rows, and under what circumstances they came about."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {**facts, "rows": [{**asdict(row), "met": row.met} for row in rows]}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

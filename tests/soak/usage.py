"""What a process holds at one moment, and whether that grew over many."""

from __future__ import annotations

import gc
import os
import re
import statistics
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.builders import settle
from tests.cases.inputs_memory import children, descriptors
from wds_tools.sources.http import close_idle

__all__ = ["Usage", "check_flat", "grown", "usage"]

MOST_GROWN_MB = 12.0
"""Between the medians of two halves. An epoch that is not let go is 20 MB."""


@dataclass(frozen=True)
class Usage:
    """What is held once nothing runs.

    Attributes:
        memory_mb: anonymous and shared memory that is in use. Not libraries: which share of those is this process's
            depends on who else runs on the machine.
        threads: of the kernel's count.
        descriptors: open files.
        children: processes, the server's aside.
        files: in the folder for temporary files, and hidden unfinished ones elsewhere.
        shm: of this user in /dev/shm.
    """

    memory_mb: float
    threads: int
    descriptors: int
    children: int
    files: int
    shm: int

    def counts(self) -> dict[str, int]:
        """All but memory, which never is quite the same."""
        return {name: value for name, value in asdict(self).items() if name != "memory_mb"}


def usage(temporary: Path, folder: Path) -> Usage:
    """Of this process, when what earlier work dropped has ended and idle connections are closed."""
    gc.collect()
    settle()
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(30)
    close_idle()
    return Usage(
        memory_mb=_memory(),
        threads=len(os.listdir("/proc/self/task")),
        descriptors=descriptors(),
        children=len(children()),
        files=sum(not name.startswith("pymp-") for name in os.listdir(temporary)) + len(list(folder.rglob(".*.tmp"))),
        shm=len([name for name in os.listdir("/dev/shm") if name.startswith("shardstream-")]),
    )


def _memory() -> float:
    status = Path("/proc/self/status").read_text()
    return sum(map(int, re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", status, re.MULTILINE))) / 1000


def grown(found: Sequence[tuple[float, Usage]]) -> dict[str, Any]:
    """How memory and counts went: the first third warms up, the rest is held against itself.

    Args:
        found: with the seconds since the beginning.
    """
    warm = found[len(found) // 3 :]
    half = len(warm) // 2
    before, after = (statistics.median(each.memory_mb for _, each in part) for part in (warm[:half], warm[half:]))
    slope = statistics.linear_regression([at for at, _ in warm], [each.memory_mb for _, each in warm]).slope
    first, last = warm[0][1].counts(), warm[-1][1].counts()
    return {
        "memory_mb": {
            "first": round(before, 1),
            "last": round(after, 1),
            "most": round(max(each.memory_mb for _, each in found), 1),
            "slope_mb_a_minute": round(60 * slope, 3),
        },
        **{name: {"first": first[name], "last": last[name]} for name in first},
    }


def check_flat(held: Mapping[str, Any]) -> None:
    """Nothing is more than it was after the warming up; memory may go up and down by a little.

    Raises:
        AssertionError: with the figures.
    """
    memory = held["memory_mb"]
    counts = [each for name, each in held.items() if name != "memory_mb"]
    assert memory["last"] - memory["first"] < MOST_GROWN_MB, held
    assert all(each["last"] <= each["first"] for each in counts), held

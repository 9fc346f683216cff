"""How much memory processes hold, by the kernel's books: what is theirs alone, and their part of what they share.

PSS (proportional set size) adds up over processes without counting shared pages twice, which RSS does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["children_of", "held_bytes"]

_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)
_PROC = Path("/proc")


def held_bytes(processes: Iterable[int], *, proc: Path = _PROC) -> int | None:
    """PSS of these processes together; those that have ended count nothing. None where the system does not say."""
    found = [_held(proc / str(process)) for process in processes]
    return None if all(each is None for each in found) else sum(each or 0 for each in found)


def children_of(process: int | None = None, *, proc: Path = _PROC) -> list[int]:
    """The processes that a process has started, and those that these have started; this process by default."""
    found: list[int] = []
    waiting = [os.getpid() if process is None else process]
    while waiting:
        threads = proc / str(waiting.pop()) / "task"
        try:
            children = [int(word) for each in threads.glob("*/children") for word in each.read_text().split()]
        except OSError:  # it has ended meanwhile
            continue
        found += children
        waiting += children
    return found


def _held(folder: Path) -> int | None:
    try:
        match = _PSS.search((folder / "smaps_rollup").read_bytes())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None

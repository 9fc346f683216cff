"""What an engine is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

from shardwriter.summary import PackSummary
from shardwriter.task import Task
from shardwriter.watch import Watch

__all__ = ["Engine", "Outcome"]


class Outcome(NamedTuple):
    """What came of one part.

    Attributes:
        part: its number.
        summary: where it is whole.
        error: where it is not.
    """

    part: int
    summary: PackSummary | None
    error: Exception | None = None


class Engine(Protocol):
    """Works off all parts of a run."""

    def __call__(self, task: Task, parts: int, watch: Watch) -> Generator[Outcome, None, None]:
        """Outcomes as they come, one a part at the most; a part without one was not tried."""
        ...

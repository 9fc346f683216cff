"""Who watches a run: what is called while it goes on. None of it decides a byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Watch"]


def _silent(_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Called from the thread that runs.

    Attributes:
        progress: called with the number of samples done since the last call.
        resumed: called with the number of those that an earlier run had done, once a part; by default `progress` is.
        told: called with a few words on what has come of it, whenever they change.
    """

    progress: Callable[[int], object] = _silent
    resumed: Callable[[int], object] | None = None
    told: Callable[[str], object] = _silent

    def begin(self, done: int) -> None:
        """Say how many samples an earlier run had done."""
        if done:
            (self.resumed or self.progress)(done)

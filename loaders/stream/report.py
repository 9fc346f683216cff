"""What a stream loader did: a loader's report, and what is particular to streams."""

from __future__ import annotations

from dataclasses import dataclass

from loaders.report import Report

__all__ = ["StreamReport"]


@dataclass(frozen=True, kw_only=True)
class StreamReport(Report):
    """As `Report`, for a StreamLoader.

    Attributes:
        shards_opened: streams that were begun.
        shards_again: of these, those that had been read in the same epoch before, since it is longer than they are.
        shards_damaged: streams whose rest was skipped.
        buffer_bytes: the most encoded bytes that the shuffle buffer held at once.
    """

    shards_opened: int
    shards_again: int
    shards_damaged: int
    buffer_bytes: int

    def __str__(self) -> str:
        return (
            f"{super().__str__()}; {self.shards_opened} shards opened"
            + (f", {self.shards_again} of them again in the same epoch" if self.shards_again else "")
            + (f", the rest of {self.shards_damaged} skipped" if self.shards_damaged else "")
            + f"; the shuffle buffer held up to {self.buffer_bytes / 1e6:,.1f} MB"
        )

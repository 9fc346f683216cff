"""The parts of a run in this process, one after the other, each by as many threads as there are jobs.

It makes on one machine what the parts make on many, byte for byte, and a run of parts that a cluster began can be ended
here.
"""

from __future__ import annotations

from collections.abc import Generator

from shardwriter.engines.base import Outcome
from shardwriter.part import pack_part
from shardwriter.task import Task
from shardwriter.watch import Watch
from wds_tools.errors import ShardstreamError

__all__ = ["run_parts"]


def run_parts(task: Task, parts: int, watch: Watch) -> Generator[Outcome, None, None]:
    """All parts in order, up to the first that fails: what stopped it (a full disk) stops the next one too."""
    for number in range(parts):
        try:
            yield Outcome(number, pack_part(task, number, parts, watch))
        except ShardstreamError as error:
            yield Outcome(number, None, error)
            return

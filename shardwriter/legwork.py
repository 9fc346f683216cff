"""What one leg of a run has come to: its shards, what they hold, and what could not be packed."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

from shardwriter.journal import ShardLine
from shardwriter.plan import Leg
from shardwriter.settings import Settings
from shardwriter.shards import Shards
from wds_tools.index.listing import ShardRecord
from wds_tools.tally import Tally

__all__ = ["LegWork", "Opened"]


class LegWork:
    """What a leg has come to.

    Attributes:
        leg: the leg.
        shards: its shards.
        tally: of all samples in committed shards.
        misnamed: pictures of another format than their name says, in committed shards.
        failed: kind to count of what could not be packed, up to the present place.
        resumed: samples that were there already.
    """

    def __init__(
        self,
        leg: Leg,
        settings: Settings,
        on_commit: Callable[[ShardRecord, Any], None],
        before_commit: Callable[[], None],
    ) -> None:
        self.leg = leg
        self.tally = Tally()
        self.misnamed = 0
        self.failed: Counter[str] = Counter()
        self.resumed = 0
        self.shards = Shards(
            leg.target,
            max_samples=settings.max_samples,
            max_bytes=settings.max_bytes,
            checksum=settings.checksum,
            on_commit=on_commit,
            before_commit=before_commit,
        )
        self.open = Opened()

    def take(self, line: ShardLine) -> None:
        """Count a committed shard, of this run or of one before."""
        self.tally.merge(line.tally)
        self.misnamed += line.misnamed


class Opened:
    """What is known of the shard that is being filled."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.misnamed = 0
        self.contents = array("Q")

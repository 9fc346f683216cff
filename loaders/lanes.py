"""How lanes fall to ranks: whether each block of the dataset is read by one rank or by several.

Position p is lane p mod L and belongs to rank p mod W. When W divides L a rank owns whole lanes, so each byte is read
by one rank. Else the samples of a lane go round W / gcd(W, L) ranks, so that so many read from each block: the batches
are the same, but caches hold, and remote hosts send, each block several times.
"""

from __future__ import annotations

import logging
import math

__all__ = ["nearest_lanes", "ranks_per_block", "warn_of_shared_blocks"]

log = logging.getLogger(__name__)


def ranks_per_block(*, lanes: int, block: int, world_size: int) -> int:
    """How many ranks read from each block of `block` samples; 1 where the world size divides the lanes."""
    return min(block, world_size // math.gcd(world_size, lanes))


def nearest_lanes(lanes: int, world_size: int) -> int:
    """The number of lanes nearest to this one that the world size divides; of two equally near ones the larger."""
    return max(world_size, (lanes + world_size // 2) // world_size * world_size)


def warn_of_shared_blocks(*, lanes: int, block: int, world_size: int) -> None:
    """Say in the log where several ranks read from each block, and which number of lanes avoids it."""
    ranks = ranks_per_block(lanes=lanes, block=block, world_size=world_size)
    if ranks > 1:
        log.warning(
            "%d ranks do not divide %d lanes, so %d of them read from each block; lanes=%d avoids that",
            world_size,
            lanes,
            ranks,
            nearest_lanes(lanes, world_size),
        )

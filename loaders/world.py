"""Which rank of how many this process is."""

from __future__ import annotations

import os

from wds_tools.errors import UsageError

__all__ = ["check_world", "rank_share", "world_of_environment"]


def world_of_environment() -> tuple[int, int]:
    """(rank, world size) as torchrun sets RANK and WORLD_SIZE, else (0, 1)."""
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError as error:
        raise UsageError(
            f"the environment has RANK={os.environ.get('RANK')!r} and WORLD_SIZE={os.environ.get('WORLD_SIZE')!r}, "
            "expected numbers",
            cure="Pass rank= and world_size=.",
        ) from error


def check_world(rank: int, world_size: int) -> tuple[int, int]:
    """The same pair, if it makes sense.

    Raises:
        UsageError: it does not.
    """
    if world_size < 1 or not 0 <= rank < world_size:
        raise UsageError(
            f"rank is {rank} of world_size {world_size}, expected 0 to world_size - 1",
            cure="Pass both rank= and world_size=, or neither.",
        )
    return rank, world_size


def rank_share(global_batch_size: int, world_size: int) -> int:
    """Each rank's samples of a global batch.

    Raises:
        UsageError: it does not divide; the message has the arithmetic and the nearest sizes that do.
    """
    each, rest = divmod(global_batch_size, world_size)
    if rest:
        near = [size * world_size for size in (each, each + 1) if size]
        raise UsageError(
            f"global_batch_size={global_batch_size} over {world_size} ranks is "
            f"{global_batch_size / world_size:.2f} each",
            cure=f"Pass {' or '.join(map(str, near))}, or another number of ranks.",
        )
    return each

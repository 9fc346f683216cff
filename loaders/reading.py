"""How far ahead is read, and how remote shards are: the part of a loader's arguments that no batch depends on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loaders.arguments import MOST_PREFETCHED, check_count
from loaders.plan import DEFAULT_BLOCK_BYTES
from loaders.selection import AnyPlan
from loaders.wanted import MERGED_BYTES
from wds_tools.addresses import given
from wds_tools.errors import UsageError
from wds_tools.sources.options import Remote

__all__ = ["Reading"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How far ahead is read, and how remote shards are.

    Attributes:
        block_bytes: bytes of consecutive samples that are read in one go; None means 256 KiB (4 MiB for remote shards
            that were packed in shuffled order), or what a loaded state says. Larger blocks suit slow disks and far
            hosts, and mix worse.
        prefetch: whole batches made ahead of the one that the caller has.
        prefetch_bytes: encoded bytes announced or held ahead; None means 1.5 times what the open lanes need. Remote
            shards that no cache on disk takes are held in memory so far.
        cache_dir: where remote shards are kept on disk, shared by all processes of the machine. None keeps nothing.
        cache_bytes: the most that is kept, over all datasets in `cache_dir`; None leaves a twentieth of the disk free.
        remote: how remote hosts are asked; None means the defaults.
    """

    block_bytes: int | None = None
    prefetch: int = 2
    prefetch_bytes: int | None = None
    cache_dir: str | os.PathLike[str] | None = None
    cache_bytes: int | None = None
    remote: Remote | None = None

    def __post_init__(self) -> None:
        sizes = ("block_bytes", "prefetch_bytes", "cache_bytes")
        for name, value in ((name, getattr(self, name)) for name in sizes):
            if value is not None and value < 1:
                raise UsageError(f"Reading.{name} is {value}, expected at least 1 byte")
        check_count("Reading.prefetch", self.prefetch, most=MOST_PREFETCHED)
        if self.cache_bytes is not None and self.cache_dir is None:
            raise UsageError(
                f"Reading.cache_bytes is {self.cache_bytes:,} without a cache_dir",
                cure='Say where: Reading(cache_dir="/local/disk/cache", cache_bytes=...).',
            )
        if self.cache_dir is not None:
            given(self.cache_dir, "Reading.cache_dir")
        if self.remote is not None and not isinstance(self.remote, Remote):
            raise UsageError(f"Reading.remote is {self.remote!r}, expected a loaders.Remote")

    @property
    def cache(self) -> Path | None:
        """`cache_dir` as a path."""
        return None if self.cache_dir is None else Path(self.cache_dir)

    def check(self, plan: AnyPlan, world_size: int) -> None:
        """Raise UsageError where the rank's open lanes need more than prefetch_bytes."""
        lanes, need = _need(plan, world_size)
        if self.prefetch_bytes is not None and self.prefetch_bytes < need:
            raise UsageError(
                f"Reading.prefetch_bytes is {self.prefetch_bytes:,}, but {lanes} open lanes of {plan.block} samples of "
                f"{plan.sample_bytes:,.0f} bytes need {need:,}",
                cure=f"Pass prefetch_bytes={need} or more, fewer lanes=, or less than "
                f"block_bytes={self.block_bytes or DEFAULT_BLOCK_BYTES}.",
            )

    def budget(self, plan: AnyPlan, world_size: int) -> int:
        """Bytes of remote shards that a rank holds in memory at most: at least what keeps all requests busy."""
        if self.prefetch_bytes is not None:
            return self.prefetch_bytes
        _, need = _need(plan, world_size)
        return max(need + need // 2, 2 * (self.remote or Remote()).in_flight * MERGED_BYTES)


def _need(plan: AnyPlan, world_size: int) -> tuple[int, int]:
    """A rank's open lanes, and the bytes of their blocks."""
    lanes = -(-plan.lanes // world_size) if plan.shuffle else 1
    return lanes, int(min(lanes * plan.block, plan.samples) * plan.sample_bytes)

"""How many cores this process may use: affinity and the cgroup's quota, not the machine's total.

A container with a quota of 2 on a 64-core machine reports 64 cores to `os.cpu_count`; 64 decode threads there only
take turns.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["usable_cores"]

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """At least 1: the smaller of the affinity mask and the cgroup's CPU quota, rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return max(1, min(cores, quota) if quota else cores)


def _quota(cgroup: Path) -> int | None:
    try:
        text = (cgroup / "cpu.max").read_text()  # version 2: "200000 100000", or "max 100000"
    except OSError:
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()  # version 1: -1 means none
            text = f"{quota.strip()} {(cgroup / 'cpu' / 'cpu.cfs_period_us').read_text()}"
        except OSError:
            return None
    try:
        quota_us, period_us = (int(part) for part in text.split())
    except ValueError:
        return None
    return -(-quota_us // period_us) if quota_us > 0 and period_us > 0 else None

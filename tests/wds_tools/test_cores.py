"""Cores that may be used: affinity, and the quota of both kinds of cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wds_tools.cores import usable_cores

AFFINITY = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", AFFINITY),
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("99999999 100000", AFFINITY),
        ("odd", AFFINITY),
    ],
)
def test_version_2(tmp_path: Path, text: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", AFFINITY), ("150000", min(2, AFFINITY)), ("100000", 1)])
def test_version_1(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == cores


def test_no_cgroup(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == AFFINITY


def test_affinity_counts() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)

"""Streams to test with: the same samples as compressed shards of several kinds; and what a process has open."""

from __future__ import annotations

import gc
import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.builders import settle, write_labels

COUNTS = [17, 40, 3, 0, 23]


def compress(folder: str) -> None:
    """Every .tar in a folder as .tar.gz of two gzip members and as .tar.zst of two frames; the .tar stays."""
    for path in sorted(Path(folder).glob("*.tar")):
        data = path.read_bytes()
        middle = len(data) // 2
        path.with_suffix(".tar.gz").write_bytes(gzip.compress(data[:middle]) + gzip.compress(data[middle:]))
        frames = zstandard.ZstdCompressor()
        path.with_suffix(".tar.zst").write_bytes(frames.compress(data[:middle]) + frames.compress(data[middle:]))


@pytest.fixture(scope="session")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of five shards, 83 samples, `cls` being the sample's number; each as .tar, .tar.gz and .tar.zst."""
    folder = write_labels(tmp_path_factory.mktemp("labels"), COUNTS)
    compress(folder)
    return folder


@pytest.fixture
def left_behind() -> Callable[[], tuple[int, set[str], int]]:
    """Counts what this process holds: descriptors, threads of ours, children (zombies too)."""
    settle()  # once, before the test: its own threads are none to wait for

    def count() -> tuple[int, set[str], int]:
        threads = {thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream")}
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threads, _children()

    return count


def _children() -> int:
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        found += int(fields[1]) == os.getpid()
    return found

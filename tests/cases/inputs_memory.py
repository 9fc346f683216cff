"""Large datasets that take little disk, small file systems, and what processes hold."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.builders import write_labels

__all__ = ["children", "descriptors", "in_small_shm", "large_dataset", "pss"]


def large_dataset(folder: Path, shards: int, samples: int) -> str:
    """A dataset of many shards that are all links to one: `shards * samples` samples to index, few on the disk."""
    folder.mkdir(parents=True)
    write_labels(folder, [samples])
    for shard in range(1, shards):
        (folder / f"s-{shard:06d}.tar").symlink_to("s-0000.tar")
    return str(folder)


def pss(process: int) -> float:
    """The proportional set size of a process in MB: pages that several share count for each by its part."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert found
    return int(found[1]) / 1000


def children(process: int | None = None) -> list[int]:
    """The processes that this one started and has not seen the end of, zombies too."""
    found = []
    for task in Path(f"/proc/{process or os.getpid()}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found += [int(word) for word in (task / "children").read_text().split()]
    return sorted(found)


def descriptors(process: int | None = None) -> int:
    """How many files a process has open."""
    return len(os.listdir(f"/proc/{process or os.getpid()}/fd"))


def in_small_shm(command: Sequence[str | Path], size: str) -> subprocess.CompletedProcess[str] | None:
    """Run a command where /dev/shm is a file system of this size; None where this user may not mount one."""
    mount = f"mount -t tmpfs -o size={size} tmpfs /dev/shm"
    unshare = ["unshare", "-m", "sh", "-c"]
    if subprocess.run([*unshare, mount], capture_output=True, check=False).returncode:
        return None
    root = Path(__file__).parents[2]
    return subprocess.run(
        [*unshare, f'{mount} && exec "$@"', "sh", *command],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

"""A small disk for caches, that can be filled: a tmpfs where this user may mount one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["fill", "free", "small_disk"]

_BALLAST = "ballast"


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of so many bytes there while the block runs; whether that was allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no byte free."""
    with (folder / _BALLAST).open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(bytes(1 << 16)):
            pass


def free(folder: Path) -> None:
    """Take away all that lies there."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

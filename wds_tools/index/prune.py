"""What the index cache holds, and how it is emptied. Nothing else prunes it: an index is small and costs a scan."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wds_tools.errors import UnavailableError

__all__ = ["Kept", "clear_index", "kept_index"]


class Kept(NamedTuple):
    """Files of an index cache, and their bytes."""

    files: int
    bytes: int


def kept_index(root: Path) -> Kept:
    """What is kept under the cache directory `root`."""
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in _files(root)]
    return Kept(len(sizes), sum(sizes))


def clear_index(root: Path) -> Kept:
    """Remove it; what. A process that has a file mapped keeps its pages, and the next start makes the index again.

    Raises:
        UnavailableError: the folder cannot be written.
    """
    files = count = 0
    try:
        for entry in _files(root):
            with contextlib.suppress(FileNotFoundError):  # another process was first
                size = entry.stat(follow_symlinks=False).st_size
                Path(entry.path).unlink()
                files, count = files + 1, count + size
    except OSError as error:
        raise UnavailableError(f"cannot be cleared: {error.strerror or error}", url=str(root / "index")) from error
    return Kept(files, count)


def _files(root: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / "index") as entries:
        yield from [entry for entry in entries if entry.is_file(follow_symlinks=False)]

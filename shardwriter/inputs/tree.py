"""Folders as they are read for packing: sorted, since the order of a directory differs between machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shardwriter.inputs.base import path_shown
from wds_tools.errors import UnavailableError

__all__ = ["entries", "identity", "is_folder", "is_hidden", "names"]


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder, sorted by name.

    Raises:
        UnavailableError: it cannot be read.
    """
    try:
        with os.scandir(folder) as inside:
            return sorted(inside, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(folder, error) from error


def names(folder: Path) -> Iterator[str]:
    """The names of all that lies in a folder, in no order, as they are read.

    Raises:
        UnavailableError: it cannot be read.
    """
    try:
        with os.scandir(folder) as inside:
            for entry in inside:
                yield entry.name
    except OSError as error:
        raise _unreadable(folder, error) from error


def is_hidden(name: str) -> bool:
    """Whether files and folders of this name are left out: hidden ones, and what macOS archivers add."""
    return name.startswith(".") or name == "__MACOSX"


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder to go into, or a link to one."""
    return entry.is_dir() and not is_hidden(entry.name)


def identity(folder: Path) -> tuple[int, int]:
    """What is the same for a folder and all links to it."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _unreadable(folder: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"the folder {path_shown(folder)} cannot be read: {error.strerror}", cure="Make it readable, or leave it out."
    )

"""Read the small files that people name or lay beside shards: whole, and no more than they can sensibly be.

A path from a command line may be anything: `/dev/zero` would fill the memory, and a pipe without writer wait for ever.
"""

from __future__ import annotations

import os
import stat

from wds_tools.errors import UsageError, counted

__all__ = ["read_lines", "read_small"]

MOST_BYTES = 64 << 20
"""A million class names, or half a million lines of a quarantine file."""


def read_small(path: str | os.PathLike[str], *, most: int = MOST_BYTES) -> bytes:
    """The whole file.

    Args:
        path: of a regular file.
        most: the bytes that it may have.

    Raises:
        OSError: it is not there, or cannot be read.
        UsageError: it is a device, a pipe or the like, or larger.
    """
    # O_NONBLOCK: opening a named pipe without writer would wait here; regular files ignore it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # of a folder the system says it
            raise UsageError("a file is needed, not a pipe or a device", url=str(path), cure="Write it to a file.")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise UsageError(f"the file has more than the {counted(most, 'byte')} that are read of its kind", url=str(path))
    return data


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a file such as classes.txt that are not blank, as names: bytes that are not UTF-8 become surrogates.

    Raises:
        OSError, UsageError: as for `read_small`.
    """
    # Not splitlines, which also splits at signs that a folder's name may hold.
    lines = read_small(path).decode(errors="surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in lines if line.strip()]

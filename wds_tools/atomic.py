"""All or nothing on disk: a temporary name beside the target, written, synced, renamed over it, the folder synced.

The temporary name is `.NAME.<random>.tmp`, which `addresses.is_temporary` knows and no folder or glob ever matches.
On any exception, KeyboardInterrupt included, it is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from wds_tools.errors import UnavailableError
from wds_tools.sample import BytesLike

__all__ = ["sync_folder", "temporaries", "temporary_beside", "write_atomic"]


def temporary_beside(path: Path) -> Path:
    """A new name for the unfinished form of `path`, in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def temporaries(path: Path) -> list[Path]:
    """The unfinished forms of `path` that lie beside it: of writers that are at work, or were killed."""
    form = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    return sorted(each for each in path.parent.iterdir() if form.fullmatch(each.name))


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable, where the system can (Windows cannot, some network disks will not)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: Path, pieces: Iterable[BytesLike], *, durable: bool = True) -> None:
    """Put `pieces`, one after the other, into the file `path`: wholly or not at all. What was there is replaced.

    Args:
        path: the final name; its folder exists.
        pieces: the content, made while it is written.
        durable: whether to wait for the disk, so that it is there after a power cut too. A cache needs not.

    Raises:
        UnavailableError: the disk is full, read-only or out of permission.
    """
    temporary = temporary_beside(path)
    try:
        # Not tempfile: its files are for this user alone (0600), and others read these. O_EXCL: never another's file.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(descriptor, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise UnavailableError(f"cannot be written: {error.strerror or error}", url=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()

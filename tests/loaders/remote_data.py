"""Datasets on a web server of our own, for the tests of loaders over http."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.faulty import FaultyServer
from wds_tools.make_index import make_index

__all__ = ["asked_bytes", "indexed", "served"]


def indexed(folder: str) -> str:
    """The folder, with its listing."""
    make_index(folder)
    return folder


@contextmanager
def served(folder: str | Path, *, at: str = "/d/") -> Iterator[FaultyServer]:
    """All files of a folder on a server."""
    files = {f"{at}{path.name}": path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    with FaultyServer(files) as server:
        yield server


def asked_bytes(server: FaultyServer, *, suffix: str = ".tar") -> dict[str, list[range]]:
    """The ranges of bytes that were asked for, by path."""
    asked: dict[str, list[range]] = {}
    for request in server.requests:
        if request.path.endswith(suffix):
            assert request.range is not None
            first, last = request.range
            assert last is not None
            asked.setdefault(request.path, []).append(range(first, last + 1))
    return asked

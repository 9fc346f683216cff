"""What tests of the cache share: an origin that counts, bytes that tell where they are from, and a short way in."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Self

from wds_tools.errors import RangesRefusedError, ShardChangedError, TruncatedShardError
from wds_tools.sources.base import Source
from wds_tools.sources.cache import CachedFile, DiskCache
from wds_tools.sources.cache.layout import EXTENT, Layout
from wds_tools.sources.cache.names import is_entry

URL = "http://host/data/a.tar"
MIB = 1 << 20


def content(size: int, seed: int = 0) -> bytes:
    """Bytes without repetition, the same for a seed."""
    return random.Random(seed).randbytes(size)


class Fake:
    """An origin in memory. It notes what it was asked, and may change, limit its rate or have no ranges."""

    def __init__(self, data: bytes, *, url: str = URL, version: str | None = '"1"', ranges: bool = True) -> None:
        self.data = data
        self.url = url
        self.says = version
        self.has_ranges = ranges
        self.limited = False
        self.asked: list[tuple[int, int]] = []
        self.closed = 0
        self.ranges: bool | None = None
        self.version: str | None = None
        self.expected: str | None = None
        self.fault: BaseException | None = None
        self._lock = threading.Lock()

    def size(self) -> int:
        if self.version is None:
            self.read_into(0, memoryview(bytearray(1)))
        return len(self.data)

    def expect(self, *, size: int | None = None, version: str | None = None) -> Self:
        del size
        self.expected = self.version = version
        return self

    def read_into(self, offset: int, buffer: memoryview) -> None:
        with self._lock:
            self.asked.append((offset, len(buffer)))
        if self.fault is not None:
            raise self.fault
        if self.expected not in {None, self.says}:
            raise ShardChangedError("another object lies there than before", url=self.url)
        self.version, self.ranges = self.says, self.has_ranges
        if offset and not self.has_ranges:
            raise RangesRefusedError("the server does not answer ranges", url=self.url)
        piece = self.data[offset : offset + len(buffer)]
        if len(piece) < len(buffer):
            raise TruncatedShardError("too short", url=self.url)
        buffer[:] = piece

    def announce(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def opened(
    cache: DiskCache, origin: Fake, *, url: str | None = None, version: str | None = None, dataset: str = "d"
) -> CachedFile:
    return cache.open(url or origin.url, size=len(origin.data), version=version, inner=origin, dataset=dataset)


def read(file: Source, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def whole(cache: DiskCache, origin: Fake, *, dataset: str = "d") -> bytes:
    with opened(cache, origin, dataset=dataset) as file:
        return read(file, 0, len(origin.data))


def entry_files(root: Path) -> list[Path]:
    """The entries of a cache, sorted by the people's part of their names."""
    found = [path for path in (root / "shards").glob("*") if is_entry(path.name)]
    return sorted(found, key=lambda path: path.name.split("-", 2)[2])


def cost(size: int) -> int:
    """Bytes that a whole object of `size` is booked with."""
    layout = Layout(size)
    return layout.overhead + sum(map(layout.cost, range(layout.extents)))


__all__ = ["EXTENT", "MIB", "URL", "Fake", "content", "cost", "entry_files", "opened", "read", "whole"]

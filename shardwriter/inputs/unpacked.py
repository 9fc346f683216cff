"""Compressed shards made readable at any place: decompressed once, in order, into a nameless temporary file."""

from __future__ import annotations

import os
from typing import Self

import numpy as np

from shardwriter.inputs.spool import Spool
from wds_tools.errors import TruncatedShardError
from wds_tools.sources.base import Source
from wds_tools.tar.compressed import Decompressed, compression

__all__ = ["SpooledFile", "unpack"]

_CHUNK = 1 << 20


class SpooledFile:
    """A part of a spool as a Source. Closing it does nothing: the spool is closed by its owner."""

    def __init__(self, spool: Spool, begin: int, size: int, url: str) -> None:
        self._spool = spool
        self._begin = begin
        self._size = size
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def size(self) -> int:
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if offset + len(buffer) > self._size:
            raise TruncatedShardError(
                f"the shard ends at byte {self._size:,}, {offset + len(buffer):,} expected",
                url=self._url,
                offset=offset,
            )
        buffer[:] = self._spool.read(self._begin + offset, len(buffer))

    def announce(self, offset: int, length: int) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def unpack(source: Source, spool: Spool) -> SpooledFile | None:
    """Decompress a shard to the end of the spool; None where it is not compressed.

    Raises:
        ShardError: the compressed data are damaged or cut off. UnavailableError: no room for them.
    """
    packed = compression(source)
    if packed is None:
        return None
    begin = spool.nbytes
    stream = Decompressed(source, packed)
    try:
        while True:
            buffer = np.empty(_CHUNK, np.uint8).data
            count = stream.readinto(buffer)
            if not count:
                break
            spool.add([buffer[:count]])
    finally:
        stream.close()
    spool.flush()
    return SpooledFile(spool, begin, spool.nbytes - begin, os.fspath(source.url))

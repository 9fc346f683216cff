"""Compressed shards: which they are, by their first bytes, and a stream of what is in them.

They cannot be indexed, since nothing in them can be reached without all that lies before; they stream. gzip, bzip2
and xz end with a length or checksum of their own, so a cut is found whatever it cuts; zstandard's reader does not
tell the end of a frame from the end of the file (`shows_cuts`). Several parts one behind the
other are read as one. Memory is bounded by the stream's window (at most 128 MiB for zstd) and by one sample.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from typing import Any, Protocol

from wds_tools.errors import ShardError, ShardstreamError, TruncatedShardError
from wds_tools.sources.base import Source

__all__ = ["Decompressed", "sniff"]

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"))
_CHUNK = 1 << 18
_MAX_ZSTD_WINDOW = 1 << 27


def sniff(begin: bytes) -> str | None:
    """The name of the compression that a file begins with, given its first 6 bytes; None for anything else."""
    return next((name for magic, name in _MAGIC if begin.startswith(magic)), None)


class _Stream(Protocol):
    def readinto(self, buffer: Any, /) -> int | None: ...
    def close(self) -> None: ...


class Decompressed:
    """What a compressed source holds, as a stream.

    Raises (from readinto):
        TruncatedShardError: the compressed data end too early.
        ShardError: they are damaged, or no decompressor is installed.
    """

    def __init__(self, source: Source, compression: str) -> None:
        self.url = source.url
        self.compression = compression
        self.shows_cuts = compression != "zstd"
        self._raw = _SourceStream(source)
        self._stream = self._open()

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            return self._stream.readinto(buffer) or 0
        except ShardstreamError:
            raise  # the source's own, already said well
        except EOFError as error:
            raise TruncatedShardError(
                f"the {self.compression} data end too early, at byte {self._raw.tell()}",
                url=self.url,
                cure="The shard was cut while it was copied or written: copy it again.",
            ) from error
        except _damages() as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        self._stream.close()

    def _open(self) -> _Stream:
        buffered = io.BufferedReader(self._raw, _CHUNK)
        if self.compression == "gzip":
            return gzip.GzipFile(fileobj=buffered, mode="rb")
        if self.compression == "bzip2":
            return bz2.BZ2File(buffered)
        if self.compression == "xz":
            return lzma.LZMAFile(buffered)
        return self._open_zstd(buffered)

    def _open_zstd(self, buffered: Any) -> _Stream:
        try:
            import zstandard
        except ImportError as error:
            raise ShardError(
                "the shard is compressed with zstd, for which Python has no decompressor before 3.14",
                url=self.url,
                cure="Install it (pip install 'shardstream[zstd]'), or reshard without compression.",
            ) from error
        stream: _Stream = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).stream_reader(
            buffered, read_across_frames=True
        )
        return stream

    def _damaged(self, error: Exception) -> ShardError:
        return ShardError(
            f"the {self.compression} data are damaged before byte {self._raw.tell()}: {error}",
            url=self.url,
            cure="Copy the shard again, or make it again.",
        )


def _damages() -> tuple[type[Exception], ...]:
    """What the decompressors raise on damage. zstandard is loaded when one of its streams is open, or not needed."""
    zstandard = sys.modules.get("zstandard")
    zstd = () if zstandard is None else (zstandard.ZstdError,)
    return (OSError, ValueError, zlib.error, lzma.LZMAError, *zstd)


class _SourceStream(io.RawIOBase):
    """A source read from its beginning to its end."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        count = min(len(view), self._source.size() - self._position)
        if count > 0:
            self._source.read_into(self._position, view[:count])
            self._position += count
        return max(count, 0)

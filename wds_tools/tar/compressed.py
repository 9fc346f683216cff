"""Compressed shards: which they are, by their first bytes, and a stream of what is in them.

They cannot be indexed, since nothing in them can be reached without all that lies before; they stream. gzip, bzip2
and xz end with a length or checksum of their own, so a cut is found whatever it cuts; zstandard's reader does not
tell the end of a frame from the end of the file (`shows_cuts`). Several parts one behind the other are read as one.
Memory is bounded by the decompressor's window (at most 128 MiB for zstd, 256 MiB for xz) and by one sample.
"""

from __future__ import annotations

import functools
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from wds_tools.errors import ShardError, ShardstreamError, TruncatedShardError
from wds_tools.sources.base import Source

__all__ = ["SNIFFED", "UNPACKERS", "Arriving", "Decompressed", "compression", "sniff"]

SNIFFED = 10

_MAGIC = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2"),  # "BZh" alone might be a member's name
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
)
UNPACKERS = {"gzip": "gunzip -k FILE", "zstd": "zstd -d FILE", "bzip2": "bunzip2 -k FILE", "xz": "xz -dk FILE"}
"""The command that makes a plain shard beside a compressed one, by the name that `sniff` gives."""
_CHUNK = 1 << 18
_MAX_ZSTD_WINDOW = 1 << 27
_MAX_XZ_MEMORY = 1 << 28  # `xz -9` needs a quarter of it; a header may ask for 4 GB


def sniff(begin: bytes) -> str | None:
    """The name of the compression that a file begins with, given its first `SNIFFED` bytes; None for anything else."""
    return next((name for magic, name in _MAGIC if magic.match(begin)), None)


def compression(source: Source) -> str | None:
    """The name of the compression of an open shard, by its content; None for a plain tar."""
    begin = bytearray(min(SNIFFED, source.size()))
    source.read_into(0, memoryview(begin))
    return sniff(bytes(begin))


class _Stream(Protocol):
    def readinto1(self, buffer: Any, /) -> int: ...
    def close(self) -> None: ...


class Arriving(io.RawIOBase):
    """The base of what comes as a stream, as from a pipe, where there is no source; `tell` counts the bytes."""

    url: str = ""


class Decompressed:
    """What a compressed source, or a compressed stream of bytes, holds, as a stream.

    Raises (from readinto):
        TruncatedShardError: the compressed data end too early.
        ShardError: they are damaged, or no decompressor is installed.
    """

    def __init__(self, source: Source | Arriving, compression: str) -> None:
        self.url = source.url
        self.compression = compression
        self.shows_cuts = compression != "zstd"
        self._raw = source if isinstance(source, Arriving) else _SourceStream(source)
        self._stream = self._open()
        self._failed: Exception | None = None

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer, or as much of it as there is; damage is raised when all that lies before has been given."""
        filled = 0
        try:
            while self._failed is None and filled < len(buffer) and (count := self._stream.readinto1(buffer[filled:])):
                filled += count
        except Exception as error:  # noqa: BLE001 - raised below, or by the next call
            self._failed = error.with_traceback(None)  # whose frames would hold this stream
        if self._failed is not None and not filled:
            raise self._translated(self._failed)
        return filled

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, ShardstreamError):
            return error  # the source's own, already said well
        translated: ShardError | None = None
        if isinstance(error, EOFError):
            translated = TruncatedShardError(
                f"the {self.compression} data end too early, at byte {self._raw.tell()}",
                url=self.url,
                offset=self._raw.tell(),
                cure="It was cut while it was copied or written: copy it again.",
            )
        elif isinstance(error, _damages()):
            translated = self._damaged(error)
        if translated is None:
            return error
        translated.__cause__ = error
        return translated

    def close(self) -> None:
        self._stream.close()

    def _open(self) -> _Stream:
        buffered: Any = io.BufferedReader(self._raw, _CHUNK)
        try:
            return _OPENERS[self.compression](buffered)
        except ImportError as error:
            raise ShardError(
                f"the shard is compressed with {self.compression}, for which this Python has no decompressor",
                url=self.url,
                cure=f"{_CURES.get(self.compression, 'Use a Python that has it')}, or decompress the shard: "
                f"`{UNPACKERS[self.compression]}`.",
            ) from error

    def _damaged(self, error: Exception) -> ShardError:
        return ShardError(
            f"the {self.compression} data are damaged before byte {self._raw.tell()}: {error}",
            url=self.url,
            offset=self._raw.tell(),
            cure="Copy the shard again, or make it again.",
        )


def _gzip(stream: Any) -> _Stream:
    return gzip.GzipFile(fileobj=stream, mode="rb")


def _bzip2(stream: Any) -> _Stream:
    import bz2  # Pythons are built without it where its library was missing, as with xz

    return _Parts(stream, bz2.BZ2Decompressor, b"BZh")


def _xz(stream: Any) -> _Stream:
    import lzma

    new = functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _MAX_XZ_MEMORY)
    return _Parts(stream, new, b"\xfd7zXZ\0")


class _Parts:
    """Compressed parts one behind the other, as BZ2File and LZMAFile read them, with two differences.

    These take a part whose begin is damaged for rubbish behind the end, and leave out all that follows; here only what
    does not begin like a part is rubbish. And they have no limit for the memory that the data ask for.
    """

    def __init__(self, stream: Any, new: Callable[[], Any], magic: bytes) -> None:
        self._stream = stream
        self._new = new
        self._magic = magic
        self._part = new()

    def readinto1(self, buffer: Any, /) -> int:
        data = b""
        while not data:
            packed = b""
            if self._part.eof:
                packed = self._next()
                if not packed:
                    return 0
            elif self._part.needs_input and not (packed := self._stream.read1(_CHUNK)):
                raise EOFError("the data have no end")
            data = self._part.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()

    def _next(self) -> bytes:
        """The begin of the next part, or nothing; zeros between parts are padding."""
        packed: bytes = self._part.unused_data.lstrip(b"\0")
        while len(packed) < len(self._magic) and (more := self._stream.read1(_CHUNK)):
            packed = (packed + more).lstrip(b"\0")
        if not packed or not packed.startswith(self._magic[: len(packed)]):
            return b""
        self._part = self._new()
        return packed


def _zstd(stream: Any) -> _Stream:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    opened: _Stream = decompressor.stream_reader(stream, read_across_frames=True)
    return opened


_OPENERS: dict[str, Callable[[Any], _Stream]] = {"gzip": _gzip, "zstd": _zstd, "bzip2": _bzip2, "xz": _xz}
_CURES = {"zstd": "Install it (pip install 'shardstream[zstd]')"}


def _damages() -> tuple[type[Exception], ...]:
    """What the decompressors raise on damage. Those of a module that is not loaded are raised by nobody."""
    own = (("lzma", "LZMAError"), ("zstandard", "ZstdError"))
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in own)
    return (OSError, ValueError, zlib.error, *filter(None, loaded))


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

"""Remote shards read once, from the first byte to the last: one request each, whatever the server can do.

`iter_streamed` gives the samples of an open stream, compressed or not, as `shard.iter_samples` does of a source. What
is missing at its end is seen: by the stream's length, or its own end mark, or else by the archive's end.

`open_pass` opens any shard for walks that go forward (scans, listings of contents): a local one as it is, a remote one
over a stream. Steps back, as to the data of a link, are ranged reads of their own. A stream that does not say its
length is first brought to a nameless temporary file, since a walk has to know where the end is. `open_copy` does that
with every remote shard, for those who look at it several times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any, Self

from wds_tools import addresses
from wds_tools.errors import TruncatedShardError
from wds_tools.grouping import OnBad
from wds_tools.sample import RawSample
from wds_tools.shard import ShardNotes, Targets, iter_stream, link_targets
from wds_tools.sources.base import Source, Stream
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source, open_stream
from wds_tools.tar.compressed import SNIFFED, Arriving, Decompressed, sniff

__all__ = ["ForwardSource", "Incoming", "iter_streamed", "open_copy", "open_pass"]

_PIECE = 1 << 20
_HEAD = 4096
_END = 1024  # the two zero blocks


class Incoming(Arriving):
    """A stream as a raw file object, whose first bytes can be looked at before they are read."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self.url = stream.url
        self._stream = stream
        self._position = 0
        self._head = b""

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def head(self, count: int) -> bytes:
        """The next bytes, without taking them; fewer only where the stream ends. Called once, at its begin."""
        self._head = _taken(self._stream, count)
        return self._head

    def readinto(self, buffer: Any, /) -> int:
        if not self._head:
            count = self._stream.readinto(buffer)
        else:
            count = min(len(self._head), len(buffer))
            buffer[:count], self._head = self._head[:count], self._head[count:]
        self._position += count
        return count

    def drain(self) -> None:
        """Read to the end, so that it is seen how the stream ends."""
        spare = memoryview(bytearray(1 << 16))
        while self.readinto(spare):
            pass


def iter_streamed(
    stream: Stream, *, remote: Remote | None = None, notes: ShardNotes | None = None, on_bad: OnBad | None = None
) -> Iterator[RawSample]:
    """The samples of a shard that arrives as a stream, in order, compressed or not; as `shard.iter_samples`.

    Args:
        stream: at its first byte; stays open.
        remote: how to ask for what links lead to, which is read by ranges.
        notes: filled with what is seen on the way.
        on_bad: takes the faults of single samples.
    """
    incoming = Incoming(stream)
    packed = sniff(incoming.head(SNIFFED))
    url = stream.url
    if packed is None:
        with _Behind(url, remote) as behind:
            targets, whole = behind.targets, stream.shows_cuts
            yield from iter_stream(incoming, url=url, notes=notes, on_bad=on_bad, whole=whole, targets=targets)
    else:
        with closing(Decompressed(incoming, packed)) as plain:
            yield from iter_stream(plain, url=url, notes=notes, on_bad=on_bad, whole=plain.shows_cuts)
    incoming.drain()


class _Behind:
    """What a stream's links lead to: the shard as a source, which asks nothing before it is needed."""

    def __init__(self, url: str, remote: Remote | None) -> None:
        self._source = open_source(url, remote=remote) if addresses.is_remote(url) else None
        self.targets: Targets | None = link_targets(self._source) if self._source is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._source is not None:
            self._source.close()


def open_pass(url: str, *, remote: Remote | None = None) -> Source:
    """Open a shard to be walked through from its begin to its end; the caller closes it.

    Raises:
        UsageError: an address of a kind that is not read.
        ShardMissingError, UnavailableError: it cannot be had.
    """
    if not addresses.is_remote(url):
        return open_source(url)
    stream = open_stream(url, remote=remote)
    try:
        length = getattr(stream, "length", None)
        if length is None:
            return _Spooled(stream)
        return ForwardSource(stream, length, remote=remote)
    except BaseException:
        stream.close()
        raise


def open_copy(url: str, *, remote: Remote | None = None) -> Source:
    """Open a shard to be read in any order: a remote one is fetched whole, in one request. The caller closes it.

    Raises:
        UsageError, ShardMissingError, UnavailableError: as `open_pass`.
        TruncatedShardError: it came without a proof that it is all.
    """
    if not addresses.is_remote(url):
        return open_source(url)
    with open_stream(url, remote=remote) as stream:
        return _Spooled(stream)


class ForwardSource:
    """A stream as a source: cheap for reads that go forward, and what is jumped over is read and let go.

    Args:
        stream: at its first byte; closed with this.
        size: its bytes.
        remote: how to ask for ranges that lie behind.
    """

    def __init__(self, stream: Stream, size: int, *, remote: Remote | None = None) -> None:
        self._stream = stream
        self._size = size
        self._remote = remote
        self._position = 0
        self._head: bytes | None = None
        self._behind: Source | None = None

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._stream.url

    @property
    def version(self) -> str | None:
        """What tells this object from a later one under the same address."""
        return getattr(self._stream, "version", None)

    def size(self) -> int:
        """Bytes in all."""
        return self._size

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on, or raise what the stream raises."""
        end = offset + len(buffer)
        if end > self._size:
            raise TruncatedShardError(f"it ends after {self._size:,} bytes, {end:,} expected", url=self.url)
        if self._head is None:  # is looked at more than once: what kind of file is it?
            self._head = _taken(self._stream, min(_HEAD, self._size))
            self._position = len(self._head)
        if offset < len(self._head):
            count = min(end, len(self._head)) - offset
            buffer[:count] = self._head[offset : offset + count]
            offset, buffer = offset + count, buffer[count:]
        if not buffer:
            return
        if offset < self._position:
            self._read_behind(offset, buffer)
            return
        self._skip(offset - self._position)
        self._fill(buffer)
        self._position = end

    def announce(self, offset: int, length: int) -> None:
        """Nothing: it comes by itself."""

    def close(self) -> None:
        """End the transfer; twice does nothing."""
        self._stream.close()
        if self._behind is not None:
            self._behind.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _skip(self, count: int) -> None:
        spare = memoryview(bytearray(min(count, _PIECE)))
        while count:
            part = spare[: min(count, len(spare))]
            self._fill(part)
            count -= len(part)

    def _fill(self, buffer: memoryview) -> None:
        filled = 0
        while filled < len(buffer):
            count = self._stream.readinto(buffer[filled:])
            if not count:
                raise TruncatedShardError("the stream ended before its stated length", url=self.url)
            filled += count

    def _read_behind(self, offset: int, buffer: memoryview) -> None:
        if self._behind is None:
            self._behind = open_source(self.url, remote=self._remote)
        self._behind.read_into(offset, buffer)


class _Spooled:
    """A stream of unknown length, all of it in a nameless temporary file."""

    def __init__(self, stream: Stream) -> None:
        self._url = stream.url
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        try:
            buffer = memoryview(bytearray(_PIECE))
            while count := stream.readinto(buffer):
                self._file.write(buffer[:count])
            if not stream.shows_cuts:
                self._check_end()
        except BaseException:
            self._file.close()
            raise
        stream.close()

    def _check_end(self) -> None:
        """Nothing but the archive tells whether this is all."""
        size = self.size()
        ends = memoryview(bytearray(min(_END, size)))
        self.read_into(size - len(ends), ends)
        begin = memoryview(bytearray(min(SNIFFED, size)))
        self.read_into(0, begin)
        if any(ends) and sniff(bytes(begin)) is None:
            raise TruncatedShardError(
                f"the transfer ended after {size:,} bytes, and neither a length nor an end of archive shows all",
                url=self._url,
                offset=size,
                cure="Ask again; a server that states a Content-Length shows such a cut by itself",
            )

    @property
    def url(self) -> str:
        """The address as the user or the listing gave it."""
        return self._url

    def size(self) -> int:
        """Bytes in all."""
        return self._file.seek(0, 2)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on."""
        self._file.seek(offset)
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        if len(data) < len(buffer):
            raise TruncatedShardError(f"it ends after {self.size():,} bytes", url=self._url, offset=self.size())

    def announce(self, offset: int, length: int) -> None:
        """Nothing: it was just written."""

    def close(self) -> None:
        """Give the file back; twice does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _taken(stream: Stream, count: int) -> bytes:
    """The next bytes; fewer only where the stream ends."""
    taken = bytearray(count)
    filled = 0
    while filled < count and (more := stream.readinto(memoryview(taken)[filled:])):
        filled += more
    return bytes(taken[:filled])

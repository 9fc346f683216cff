"""One stream, opened: its samples in order, whatever it comes from. Commands start at once, files open at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

from loaders.stream.command import Command, Descriptor, Halted, StandardInput
from loaders.stream.spelling import PIPE, STDIN
from wds_tools import addresses
from wds_tools.errors import DataError, ShardError, TruncatedShardError, UnavailableError
from wds_tools.sample import RawSample
from wds_tools.shard import ShardNotes, iter_samples, iter_stream
from wds_tools.sources.base import Source, Stream
from wds_tools.sources.options import Remote
from wds_tools.sources.resolve import open_source, open_stream
from wds_tools.streamed import iter_streamed
from wds_tools.tar.compressed import SNIFFED, Decompressed, sniff

__all__ = ["OpenStream"]


class _Stop(Protocol):
    def is_set(self) -> bool: ...


class OpenStream:
    """An open stream. `close` ends what it holds, a running command too; twice does nothing.

    Args:
        url: as `spelling.spell` gives it.
        stop: says when reading should be given up.
        remote: how remote hosts are asked.
    """

    def __init__(self, url: str, *, stop: _Stop, remote: Remote | None = None) -> None:
        self.url = url
        self._stop = stop
        self._remote = remote
        self._stream: Stream | None = None
        self._from: Source | Descriptor | None = None
        if url.startswith(PIPE):
            self._from = Command(url, stop)
        elif url == STDIN:
            self._from = StandardInput(stop)
        elif addresses.is_remote(url):
            self._stream = open_stream(url, remote=remote)
        else:
            self._from = open_source(url)

    def samples(self, on_bad: Callable[[DataError], None] | None) -> Iterator[RawSample]:
        """Its samples, once. `on_bad` takes the faults of single samples, which are then left out.

        Raises:
            ShardError: damage, naming the last whole sample before it.
            UnavailableError: it could not be read, or its command failed.
        """
        notes = ShardNotes()
        try:
            if isinstance(self._from, Descriptor):
                yield from _arriving(self._from, notes, on_bad)
            elif self._from is not None:
                yield from iter_samples(self._from, notes=notes, on_bad=on_bad)
            elif self._stream is not None:
                yield from iter_streamed(self._stream, remote=self._remote, notes=notes, on_bad=on_bad)
        except UnavailableError:
            if self._stream is not None and self._stop.is_set():
                raise Halted from None  # it was closed under the read, by whoever told it to stop
            raise
        except ShardError as error:
            if notes.last_key is not None and not isinstance(error, TruncatedShardError):  # which names it already
                error.problem += f"; the last whole sample is {notes.last_key!a}"
            raise error.at(url=self.url) from error.__cause__

    def kill(self) -> None:
        """Let a running command, or a transfer, end without waiting for it."""
        if isinstance(self._from, Command):
            self._from.kill()
        elif self._stream is not None:
            self._stream.close()

    def close(self) -> None:
        for opened in (self._from, self._stream):
            if opened is not None:
                opened.close()


def _arriving(stream: Descriptor, notes: ShardNotes, on_bad: Callable[[DataError], None] | None) -> Iterator[RawSample]:
    packed = sniff(stream.head(SNIFFED))
    if packed is None:
        yield from iter_stream(stream, url=stream.url, notes=notes, on_bad=on_bad)
        stream.drain()
        return
    with closing(Decompressed(stream, packed)) as plain:
        yield from iter_stream(plain, url=stream.url, notes=notes, on_bad=on_bad, whole=plain.shows_cuts)
        stream.drain()

"""What lies in a shard, from its headers alone: for looking at shards, also damaged ones.

`contents` gives one entry a sample as it comes along, without the checks of `shard.iter_samples`: a key that comes
back is listed again, a link is listed as a link, and everything up to the first damaged header is given out before the
error is raised. The data are jumped over, so listing a shard of 1 GB reads a few MB; a compressed shard has to be read
whole, and its offsets are those of the tar inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wds_tools.errors import ShardError
from wds_tools.grouping import group
from wds_tools.names import is_litter, is_metadata, split_name
from wds_tools.pieces import header_pieces
from wds_tools.sample import KEY, RawSample
from wds_tools.shard import iter_samples, link_targets, parse_sample
from wds_tools.sources.base import Source
from wds_tools.tar.compressed import Decompressed, compression
from wds_tools.tar.feed import SourceFeed
from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.walk import Member, Walk, walk_source, walk_stream

__all__ = ["Entry", "compression", "contents", "find", "keys", "printable", "read_range"]


class Entry(NamedTuple):
    """One sample of a shard.

    Attributes:
        url: the shard.
        key: the sample's key.
        offset: where its first header begins.
        end: where its last member ends, padding included.
        fields: bytes of each field, None for a link, whose data lie elsewhere. In the shard's order.
    """

    url: str
    key: str
    offset: int
    end: int
    fields: dict[str, int | None]

    @property
    def bytes(self) -> int:
        """Of all fields together."""
        return sum(size or 0 for size in self.fields.values())


def contents(source: Source) -> Iterator[Entry]:
    """The samples of an open shard, in order.

    Raises:
        ShardError: when the walk comes to damage; all before it has been given out.
    """
    packed = compression(source)
    if packed is None:
        yield from _grouped(walk_source(source), source.url)
        return
    stream = Decompressed(source, packed)
    try:
        yield from _grouped(walk_stream(stream, url=source.url, whole=stream.shows_cuts), source.url)
    finally:
        stream.close()


def keys(source: Source) -> Iterator[str]:
    """The keys of an uncompressed shard's samples, as the index counts them; headers only, about 1.5 us a sample.

    Raises:
        ShardError: the shard is damaged.
    """
    steps = Walk(SourceFeed(source, skim=True), ShardNotes())
    for sample in group(header_pieces(steps), url=source.url):
        yield sample[KEY]


def find(source: Source, key: str) -> RawSample | None:
    """The first sample with this key, read; None where there is none."""
    if compression(source) is not None:
        return next((sample for sample in iter_samples(source) if sample["__key__"] == key), None)
    entry = next((entry for entry in contents(source) if entry.key == key), None)
    return None if entry is None else read_range(source, entry.offset, entry.end)


def read_range(source: Source, begin: int, end: int) -> RawSample:
    """The sample whose members lie from `begin` to `end`."""
    buffer = bytearray(end - begin)
    source.read_into(begin, memoryview(buffer))
    return parse_sample(buffer, url=source.url, offset=begin, targets=link_targets(source))


def printable(text: str) -> str:
    """The text as it is, or with escapes where a terminal or a pipe would choke on it (line breaks, no UTF-8)."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _grouped(members: Iterator[Member], url: str) -> Iterator[Entry]:
    entry: Entry | None = None
    try:
        for member in members:
            names = _names(member)
            if names is None:
                continue
            key, field = names
            if entry is not None and (entry.key != key or field in entry.fields):
                yield entry
                entry = None
            entry = entry or Entry(url, key, member.header, member.stop, {})
            entry.fields[field] = member.size if member.kind == "file" else None
            entry = entry._replace(end=member.stop)
    except ShardError:
        if entry is not None:
            yield entry
        raise
    if entry is not None:
        yield entry


def _names(member: Member) -> tuple[str, str] | None:
    if member.kind in {"dir", "other"} or is_metadata(member.name) or is_litter(member.name):
        return None
    return split_name(member.name)

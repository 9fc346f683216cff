"""One shard: its samples in order, its index, and one sample from its bytes.

`iter_samples` reads a shard through, `scan` finds where its samples begin without reading their data, `parse_sample`
makes a sample of the bytes between two of those offsets. All three see the same samples, and all count in ShardNotes
what is no part of any: folders, metadata, litter of archivers, names that make no sample. What a user should know of
that is logged, one line a shard.

Values are views on the bytes read, without a copy, and stay valid for as long as they are kept; up to 4 KiB they are
bytes (`iter_samples`), since a view of two bytes would keep a MiB alive.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wds_tools.errors import ShardError, StaleIndexError, TruncatedShardError, shown
from wds_tools.grouping import OnBad, group
from wds_tools.pieces import data_pieces, header_pieces
from wds_tools.sample import KEY, BytesLike, RawSample
from wds_tools.sources.base import Source
from wds_tools.tar import runs
from wds_tools.tar.compressed import UNPACKERS, Decompressed, compression
from wds_tools.tar.feed import BufferFeed, Readable, SourceFeed, StreamFeed
from wds_tools.tar.links import Targets
from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.walk import Walk, walk, walk_source

__all__ = ["ShardNotes", "ShardScan", "Targets", "iter_samples", "iter_stream", "link_targets", "parse_sample", "scan"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ShardScan:
    """Where the samples of a shard lie.

    Attributes:
        url: the shard.
        size: bytes of the file.
        offsets: uint64 (samples + 1,): the first header of each sample, and the end of the last member.
        fields: how many samples have each field.
        notes: what else there was.
    """

    url: str
    size: int
    offsets: npt.NDArray[np.uint64]
    fields: Mapping[str, int]
    notes: ShardNotes

    @property
    def samples(self) -> int:
        return len(self.offsets) - 1


def parse_sample(buffer: BytesLike, *, url: str, offset: int, targets: Targets | None = None) -> RawSample:
    """The sample whose members fill `buffer`, as views on it.

    Args:
        buffer: the bytes from the sample's first header up to the next sample's. Entries of other kinds in between are
            passed over.
        url: the shard, for `__url__` and for messages.
        offset: where `buffer` begins in the shard.
        targets: `link_targets` of the shard, for links that leave the sample; without it only those inside it are
            followed.

    Raises:
        StaleIndexError: the bytes hold another number of samples than one.
        HeaderError, TruncatedShardError: they are no whole members.
        GroupingError: a field twice.
        MemberError: a sparse member, or a link that leads nowhere.
    """
    view = memoryview(buffer)
    return runs.plain_sample(view, url) or _parse_slowly(view, url, offset, targets)


def link_targets(source: Source) -> Targets:
    """What the links of an uncompressed shard lead to; the shard is scanned when the first link is asked for."""
    return Targets(lambda: walk_source(source), lambda offset, size: _read(source, offset, size))


def iter_samples(
    source: Source, *, notes: ShardNotes | None = None, on_bad: OnBad | None = None
) -> Iterator[RawSample]:
    """The samples of a shard in order, compressed or not.

    Args:
        source: the open shard; stays open.
        notes: filled with what is seen on the way.
        on_bad: takes the faults of single samples (MemberError, GroupingError), which are then left out; without it
            they are raised.

    Yields:
        Samples with `__key__`, `__url__`, and for each field bytes (up to 4 KiB) or a view.

    Raises:
        NotATarError, HeaderError: the shard is damaged.
        TruncatedShardError: after the last whole sample; names the offset and that sample's key.
        UnavailableError: from the source.
    """
    notes = notes if notes is not None else ShardNotes()
    packed = compression(source)
    if packed is None:
        yield from _samples(Walk(SourceFeed(source), notes), link_targets(source), on_bad)
        return
    stream = Decompressed(source, packed)
    try:
        yield from iter_stream(stream, url=source.url, notes=notes, on_bad=on_bad, whole=stream.shows_cuts)
    finally:
        stream.close()


def iter_stream(
    stream: Readable,
    *,
    url: str = "",
    notes: ShardNotes | None = None,
    on_bad: OnBad | None = None,
    whole: bool = False,
    targets: Targets | None = None,
) -> Iterator[RawSample]:
    """The samples of an uncompressed shard that arrives as a stream, as `iter_samples`.

    Args:
        stream: read from its present place to its end; stays open.
        url: for `__url__` and for messages.
        notes: filled with what is seen on the way.
        on_bad: takes the faults of single samples.
        whole: whether the stream itself shows when it is cut. If not, as with pipes, a shard without an end of archive
            counts as cut.
        targets: what links lead to; without it they are refused.
    """
    notes = notes if notes is not None else ShardNotes()
    return _samples(Walk(StreamFeed(stream, url=url), notes, whole=whole), targets, on_bad)


def scan(source: Source, *, notes: ShardNotes | None = None) -> ShardScan:
    """Find where the samples of a shard begin, reading headers only.

    Raises:
        ShardError: as `iter_samples`, and for a compressed shard, which cannot be indexed.
    """
    if (packed := compression(source)) is not None:
        raise ShardError(
            f"the shard is compressed ({packed}) and cannot be indexed",
            url=source.url,
            cure=f"Decompress it (`{UNPACKERS[packed]}`), which hardly makes pictures larger; or stream it "
            "with loaders.StreamLoader.",
        )
    notes = notes if notes is not None else ShardNotes()
    steps = Walk(SourceFeed(source, skim=True), notes)
    offsets = array("Q")
    fields: Counter[str] = Counter()
    for sample in group(header_pieces(steps), url=source.url, notes=notes):
        _, _, *names = sample
        offsets.append(sample[names[0]])
        fields.update(names)
    offsets.append(steps.end)
    _say(source.url, notes)
    found = np.array(offsets, np.uint64)
    return ShardScan(url=source.url, size=source.size(), offsets=found, fields=dict(fields), notes=notes)


def _samples(steps: Walk, targets: Targets | None, on_bad: OnBad | None) -> Iterator[RawSample]:
    notes, url = steps.notes, steps.feed.url
    try:
        yield from group(data_pieces(steps, targets), url=url, notes=notes, on_bad=on_bad)
    except TruncatedShardError as error:
        last = "no sample is whole" if notes.last_key is None else f"the last whole sample is {shown(notes.last_key)}"
        error.problem += f"; {last}"
        raise
    _say(url, notes)


def _parse_slowly(view: memoryview, url: str, offset: int, targets: Targets | None) -> RawSample:
    def read(begin: int, size: int) -> BytesLike:
        return view[begin - offset : begin - offset + size]

    inside = Targets(lambda: walk(view, base=offset, url=url), read)
    steps = Walk(BufferFeed(view, base=offset, url=url), ShardNotes(), position=offset)
    samples = list(group(data_pieces(steps, targets or inside), url=url))
    if len(samples) != 1:
        keys = ", ".join(shown(sample[KEY]) for sample in samples[:3])
        raise StaleIndexError(
            f"one sample was expected in {len(view)} bytes, found {len(samples)} ({keys})",
            url=url,
            offset=offset,
            cure="The index is not of this shard: index it anew with `wds index`.",
        )
    return samples[0]


def _read(source: Source, offset: int, size: int) -> BytesLike:
    if offset + size > source.size():
        raise TruncatedShardError(
            f"the shard ends at byte {source.size()}, before a link's target ({size} bytes from {offset} on)",
            url=source.url,
            offset=source.size(),
            cure="It was cut while it was copied or written: copy it again.",
        )
    buffer = bytearray(size)
    source.read_into(offset, memoryview(buffer))
    return buffer


def _say(url: str, notes: ShardNotes) -> None:
    if warnings := notes.warnings():
        _log.warning("%s: %s", url, "; ".join(warnings))

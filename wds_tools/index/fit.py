"""Whether another loader's index fits the shard: nothing is believed that the shard does not bear out.

Offsets must rise, none may lie beyond the end, the archive must end behind the last sample, and at some twenty places,
first and last among them, the shard must really have the header that the index promises (name and size too, where
the index has them). DALI's offsets are of data; where more than one block lies before the data (long names, folders)
those blocks are read to find where the sample's headers begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wds_tools.errors import HeaderError, ListingError, StaleIndexError, shown
from wds_tools.index.offsets import OffsetArray
from wds_tools.index.sidecars import Component, escaped, makes_sample, parse_dali
from wds_tools.sources.base import Source
from wds_tools.tar import headers

__all__ = ["PROBES", "offsets_from_dali", "offsets_from_energon"]

PROBES = 20
_GAP_LIMIT = 4 << 20  # bytes of other members and extension headers between two samples that are looked through
_TAIL_LIMIT = 1 << 20  # zeros behind the last sample that are looked through; GNU tar writes 10 KiB at most
_EXTENSIONS = frozenset(b"xgLK")


def offsets_from_energon(data: bytes, source: Source, *, place: str, probes: int = PROBES) -> OffsetArray:
    """The offsets in an Energon index, checked against the shard.

    Args:
        data: the index file's content.
        source: the shard, open.
        place: where the index lies, for messages.
        probes: how many samples are looked at.

    Returns:
        uint64 (n + 1,): each sample's first header, and the end.

    Raises:
        ListingError: it is damaged (StaleIndexError: it does not fit the shard).
    """
    if not data or len(data) % 8:
        raise ListingError(f"an Energon index is a row of 8-byte numbers, this has {len(data)} bytes", url=place)
    offsets = np.frombuffer(data, dtype="<u8").astype(np.uint64)
    _check_row(offsets, source, place)
    first = int(offsets[0])
    if first and len(offsets) > 1:
        _check_nothing_before(source, first, place)
    for at in _probes(len(offsets) - 1, probes):
        _header_at(source, int(offsets[at]), place)
    return offsets


def offsets_from_dali(data: bytes, source: Source, *, place: str, probes: int = PROBES) -> OffsetArray:
    """The offsets in a DALI index, checked against the shard; as `offsets_from_energon`."""
    samples = parse_dali(data, place)
    if not samples:
        raise ListingError("a DALI index without samples says nothing about the shard", url=place)
    ends = [0, *(sample[-1].end for sample in samples)]
    begins = [_begin(source, end, sample[0], place) for end, sample in zip(ends, samples, strict=False)]
    offsets = np.array([*begins, ends[-1]], dtype=np.uint64)
    _check_row(offsets, source, place)
    for at in _probes(len(samples), probes):
        for component in samples[at]:
            _check_component(source, component, place)
    return offsets


def _begin(source: Source, end: int, first: Component, place: str) -> int:
    """Where the headers of the member begin whose data lies at `first.data`, the member before it ending at `end`."""
    if first.data - end == 512:
        return end
    for member in _members_between(source, end, first.data, place):
        if member.data == first.data:
            return member.begin
        _refuse_sample(member, place)
    raise StaleIndexError(f"the shard has no member whose data is at {first.data}", url=place)


def _check_nothing_before(source: Source, first: int, place: str) -> None:
    """Before the first sample there may be folders and metadata, but no sample that the index leaves out."""
    for member in _members_between(source, 0, first, place):
        _refuse_sample(member, place)


class _Between(NamedTuple):
    """A member whose headers lie in a range that is looked through."""

    begin: int
    data: int
    header: headers.Header
    extended: bool


def _members_between(source: Source, begin: int, end: int, place: str) -> Iterator[_Between]:
    if not 0 < end - begin <= _GAP_LIMIT or end > source.size():
        raise StaleIndexError(f"the index leaves out what lies from {begin} to {end}", url=place)
    blocks = memoryview(bytearray(end - begin))
    source.read_into(begin, blocks)
    first = at = begin
    while at < end:
        header = _parsed(blocks[at - begin : at - begin + 512], at, place)
        if header.kind not in _EXTENSIONS:
            yield _Between(first, at + 512, header, at > first)
        at += 512 + (header.size + 511) // 512 * 512
        if header.kind not in _EXTENSIONS:
            first = at


def _refuse_sample(member: _Between, place: str) -> None:
    """A file whose name lies in an extension may be a sample: then a scan must tell."""
    if member.header.kind in b"07" and (member.extended or makes_sample(headers.decode_name(member.header.name))):
        raise StaleIndexError(f"the index leaves out a file of the shard at {member.begin}", url=place)


def _parsed(block: memoryview, offset: int, place: str) -> headers.Header:
    try:
        return headers.parse(bytes(block), url=place, offset=offset)
    except HeaderError as error:
        raise StaleIndexError(f"the shard has no header at {offset}, where the index needs one", url=place) from error


def _header_at(source: Source, offset: int, place: str) -> headers.Header:
    block = bytearray(512)
    source.read_into(offset, memoryview(block))
    return _parsed(memoryview(block), offset, place)


def _check_component(source: Source, component: Component, place: str) -> None:
    header = _header_at(source, component.data - 512, place)
    if header.kind not in b"07" or header.size != component.size:
        raise StaleIndexError(
            f"the member with data at {component.data} has {header.size} bytes, not {component.size}", url=place
        )
    name = headers.decode_name(header.name)
    if component.name is not None and len(header.name) < 100 and escaped(name) != component.name:
        raise StaleIndexError(
            f"the member with data at {component.data} is {shown(name)}, not {shown(component.name)}", url=place
        )


def _check_row(offsets: OffsetArray, source: Source, place: str) -> None:
    """Rising, in whole blocks, inside the shard, and the archive ends behind the last sample."""
    rising = bool(np.all(offsets[1:] > offsets[:-1])) and not bool((offsets % 512).any())
    end, size = int(offsets[-1]), source.size()
    if not rising or end > size:
        raise StaleIndexError(f"offsets up to {end} do not fit a shard of {size} bytes", url=place)
    rest = bytearray(min(_TAIL_LIMIT, size - end))
    source.read_into(end, memoryview(rest))
    if any(rest) or size - end > _TAIL_LIMIT:
        raise StaleIndexError(f"the shard goes on behind {end}, where the index ends", url=place)


def _probes(count: int, most: int) -> list[int]:
    """Up to so many sample numbers, evenly spread, first and last among them."""
    return sorted({round(at * (count - 1) / (most - 1)) for at in range(most)}) if count else []

"""Whether another loader's index fits the shard: nothing is believed that the shard does not bear out.

Offsets must rise, none may lie beyond the end, the archive must end behind the last sample, and at some twenty places,
first and last among them, the shard must really have the header that the index promises (name and size too, where
the index has them). DALI's offsets are of data; where more than one block lies before the data (long names, folders)
those blocks are read to find where the sample's headers begin.
"""

from __future__ import annotations

import numpy as np

from wds_tools.errors import HeaderError, ListingError, StaleIndexError
from wds_tools.offsets import OffsetArray
from wds_tools.sidecars import Component, escaped, parse_dali
from wds_tools.sources.base import Source
from wds_tools.tar import headers

__all__ = ["offsets_from_dali", "offsets_from_energon"]

_PROBES = 20
_GAP_LIMIT = 4 << 20  # bytes of other members and extension headers between two samples that are looked through
_TAIL_LIMIT = 1 << 20  # zeros behind the last sample that are looked through; GNU tar writes 10 KiB at most
_EXTENSIONS = frozenset(b"xgLK")


def offsets_from_energon(data: bytes, source: Source, *, place: str) -> OffsetArray:
    """The offsets in an Energon index, checked against the shard.

    Args:
        data: the index file's content.
        source: the shard, open.
        place: where the index lies, for messages.

    Returns:
        uint64 (n + 1,): each sample's first header, and the end.

    Raises:
        ListingError: it is damaged (StaleIndexError: it does not fit the shard).
    """
    if not data or len(data) % 8:
        raise ListingError(f"an Energon index is a row of 8-byte numbers, this has {len(data)} bytes", url=place)
    offsets = np.frombuffer(data, dtype="<u8").astype(np.uint64)
    _check_row(offsets, source, place)
    for at in _probes(len(offsets) - 1):
        _header_at(source, int(offsets[at]), place)
    return offsets


def offsets_from_dali(data: bytes, source: Source, *, place: str) -> OffsetArray:
    """The offsets in a DALI index, checked against the shard; as `offsets_from_energon`."""
    samples = parse_dali(data, place)
    if not samples:
        raise ListingError("a DALI index without samples says nothing about the shard", url=place)
    ends = [0, *(sample[-1].end for sample in samples)]
    begins = [_begin(source, end, sample[0], place) for end, sample in zip(ends, samples, strict=False)]
    offsets = np.array([*begins, ends[-1]], dtype=np.uint64)
    _check_row(offsets, source, place)
    for at in _probes(len(samples)):
        for component in samples[at]:
            _check_component(source, component, place)
    return offsets


def _begin(source: Source, end: int, first: Component, place: str) -> int:
    """Where the headers of the member begin whose data lies at `first.data`, the member before it ending at `end`."""
    gap = first.data - end
    if gap == 512:
        return end
    if not 512 < gap <= _GAP_LIMIT or first.data > source.size():
        raise StaleIndexError(f"the DALI index has data at {first.data} behind a member that ends at {end}", url=place)
    blocks = bytearray(gap)
    source.read_into(end, memoryview(blocks))
    begin, at = -1, 0
    while at < gap:
        header = _parsed(memoryview(blocks)[at : at + 512], end + at, place)
        begin = at if begin < 0 else begin
        after = at + 512 + (header.size + 511) // 512 * 512
        if header.kind not in _EXTENSIONS:
            if at + 512 == gap:
                return end + begin
            begin = -1
        at = after
    raise StaleIndexError(f"the shard has no member whose data is at {first.data}", url=place)


def _parsed(block: memoryview | bytearray, offset: int, place: str) -> headers.Header:
    try:
        return headers.parse(bytes(block), url=place, offset=offset)
    except HeaderError as error:
        raise StaleIndexError(f"the shard has no header at {offset}, where the index needs one", url=place) from error


def _header_at(source: Source, offset: int, place: str) -> headers.Header:
    block = bytearray(512)
    source.read_into(offset, memoryview(block))
    return _parsed(block, offset, place)


def _check_component(source: Source, component: Component, place: str) -> None:
    header = _header_at(source, component.data - 512, place)
    if header.kind not in b"07\0" or header.size != component.size:
        raise StaleIndexError(
            f"the member with data at {component.data} has {header.size} bytes, not {component.size}", url=place
        )
    name = headers.decode_name(header.name)
    if component.name is not None and len(header.name) < 100 and escaped(name) != component.name:
        raise StaleIndexError(
            f"the member with data at {component.data} is {name!a}, not {component.name!a}", url=place
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


def _probes(count: int) -> list[int]:
    """Up to twenty sample numbers, evenly spread, first and last among them."""
    return sorted({round(at * (count - 1) / (_PROBES - 1)) for at in range(_PROBES)}) if count else []

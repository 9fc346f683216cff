r"""Index files of our neighbours: DALI's `NAME.idx` and Energon's `NAME.tar.idx`, read and written.

DALI v1.2, what `wds2idx` writes: a line `v1.2 <samples>`, then for each sample a line of `<ext> <offset> <size> <name>` for
each member, where offset is that of the data. v1.1 is the same without names. Energon: little-endian uint64, the
offset of each sample's first header, and the end.

What is written equals what DALI's own `wds2idx` (2.4, with GNU tar in a UTF-8 locale) writes byte for byte, names
escaped as GNU tar lists them, except where that index would be wrong:
- a name with a space splits DALI's line in the wrong places: such a shard gets v1.1, without names;
- members that make no sample (`README`, `__meta__`, `._x`) get no line; wds2idx gives them one, with a wrong extension;
- with GNU long names (`L` headers) wds2idx points into the header; here the offset is that of the data;
- an extension that is empty or has a space cannot be expressed, so it is an error.
The file is `NAME.idx`, NAME being all before `.tar`; wds2idx itself cuts at the first dot, which gives `a.b-000.tar` and
`a.b-001.tar` one name.

What is read is believed only where it fits the shard: offsets rise, none lies beyond the end, the archive ends behind the
last sample, and at some twenty places, first and last among them, the shard really has the header that the
index promises. DALI's offsets are of data; where more than one block lies before the data (long names, folders) those
blocks are read to find where the sample's headers begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from wds_tools.atomic import write_atomic
from wds_tools.errors import HeaderError, ListingError, StaleIndexError, UsageError
from wds_tools.names import is_litter, is_metadata, split_name
from wds_tools.offsets import OffsetArray
from wds_tools.sources.base import Source
from wds_tools.tar import headers

__all__ = [
    "dali_index",
    "dali_path",
    "energon_index",
    "energon_path",
    "offsets_from_dali",
    "offsets_from_energon",
    "write_dali",
    "write_energon",
]

_PROBES = 20
_GAP_LIMIT = 4 << 20  # bytes of other members and extension headers between two samples that are looked through
_EXTENSIONS = frozenset(b"xgLK")
_UNSURE = re.compile(r"[^\x21-\x5b\x5d-\x7e]")
_NAMED_ESCAPES = {
    "\\": "\\\\",
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


class _Member(Protocol):
    """What is needed of `tar.Member`."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> int: ...
    @property
    def size(self) -> int: ...


class _Component(NamedTuple):
    """One member of a sample as a DALI index has it."""

    data: int
    size: int
    name: str | None

    @property
    def end(self) -> int:
        return self.data + (self.size + 511) // 512 * 512


def dali_path(shard: str) -> str:
    """`a/b.tar` -> `a/b.idx`."""
    return shard.removesuffix(".tar") + ".idx"


def energon_path(shard: str) -> str:
    """`a/b.tar` -> `a/b.tar.idx`."""
    return shard + ".idx"


def write_dali(path: Path, members: Iterable[_Member]) -> None:
    """Write the DALI index of a shard with these members (`tar.Member`, in order), atomically."""
    write_atomic(path, [dali_index(members)])


def write_energon(path: Path, offsets: OffsetArray) -> None:
    """Write the Energon index of a shard with these offsets, uint64 (n + 1,), atomically."""
    write_atomic(path, [energon_index(offsets)])


def energon_index(offsets: OffsetArray) -> bytes:
    """The content of an Energon index."""
    return offsets.astype("<u8").tobytes()


def dali_index(members: Iterable[_Member]) -> bytes:
    """The content of a DALI index of a shard with these members.

    Raises:
        UsageError: a member's extension is empty or has white space.
    """
    samples = list(_grouped(members))
    names = [_escaped(member.name) for sample in samples for member in sample]
    version = "v1.1" if any(" " in name for name in names) else "v1.2"
    lines = [" ".join(_words(member, version) for member in sample) for sample in samples]
    return "".join(f"{line}\n" for line in [f"{version} {len(samples)}", *lines]).encode("utf-8", "surrogateescape")


def _grouped(members: Iterable[_Member]) -> Iterator[list[_Member]]:
    key: str | None = None
    sample: list[_Member] = []
    for member in members:
        if member.kind != "file" or not _makes_sample(member.name):
            continue
        this = (split_name(member.name) or ("", ""))[0]
        if this != key and sample:
            yield sample
            sample = []
        key = this
        sample.append(member)
    if sample:
        yield sample


def _makes_sample(name: str) -> bool:
    return split_name(name) is not None and not is_metadata(name) and not is_litter(name)


def _words(member: _Member, version: str) -> str:
    name = _escaped(member.name)
    extension = name[name.find(".", name.rfind("/") + 1) + 1 :]  # with its case: DALI compares it as it is
    if not extension or " " in extension:
        raise UsageError(
            f"a DALI index cannot express the extension {extension!r}",
            key=member.name,
            offset=member.data,
            cure="Pack the shard again under other names, or use the listing or an Energon index",
        )
    words = f"{extension} {member.data} {member.size}"
    return words if version == "v1.1" else f"{words} {name}"


def _escaped(name: str) -> str:
    """The name as `tar --list` prints it: what is not printable as backslash and letter or three octal digits."""
    if _UNSURE.search(name) is None:
        return name
    return "".join(
        letter
        if letter == " " or (letter.isprintable() and letter != "\\")
        else _NAMED_ESCAPES.get(letter)
        or "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogateescape"))
        for letter in name
    )


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
    samples = _parse_dali(data, place)
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


def _parse_dali(data: bytes, place: str) -> list[list[_Component]]:
    head, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    version, _, count = head.partition(" ")
    width = {"v1.1": 3, "v1.2": 4}.get(version, 0)
    if lines and not lines[-1]:
        lines.pop()
    if not width or count != str(len(lines)):
        raise ListingError(f"a DALI index begins 'v1.2 {len(lines)}', this {head[:40]!r}", url=place)
    try:
        samples = [list(_components(line.split(" "), width)) for line in lines]
    except (ValueError, OverflowError) as error:
        raise ListingError(f"a line of the DALI index is damaged: {error}", url=place) from error
    return [kept for sample in samples if (kept := [each for each in sample if _is_ours(each)])]


def _components(words: list[str], width: int) -> Iterator[_Component]:
    if len(words) % width or not words:
        raise ValueError(f"{len(words)} words, not a multiple of {width}")
    for at in range(0, len(words), width):
        component = _Component(int(words[at + 1]), int(words[at + 2]), words[at + 3] if width == 4 else None)
        if component.data % 512 or component.data < 512 or not 0 <= component.size < 1 << 62:
            raise ValueError(f"data at {component.data} of {component.size} bytes")
        yield component


def _is_ours(component: _Component) -> bool:
    return component.name is None or _makes_sample(component.name)


def _begin(source: Source, end: int, first: _Component, place: str) -> int:
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


def _check_component(source: Source, component: _Component, place: str) -> None:
    header = _header_at(source, component.data - 512, place)
    if header.kind not in b"07\0" or header.size != component.size:
        raise StaleIndexError(
            f"the member with data at {component.data} has {header.size} bytes, not {component.size}", url=place
        )
    name = headers.decode_name(header.name)
    if component.name is not None and len(header.name) < 100 and _escaped(name) != component.name:
        raise StaleIndexError(
            f"the member with data at {component.data} is {name!a}, not {component.name!a}", url=place
        )


def _check_row(offsets: OffsetArray, source: Source, place: str) -> None:
    """Rising, in whole blocks, inside the shard, and the archive ends behind the last sample."""
    rising = bool(np.all(offsets[1:] > offsets[:-1])) and not bool((offsets % 512).any())
    end, size = int(offsets[-1]), source.size()
    if not rising or end > size:
        raise StaleIndexError(f"offsets up to {end} do not fit a shard of {size} bytes", url=place)
    rest = bytearray(min(512, size - end))
    source.read_into(end, memoryview(rest))
    if any(rest):
        raise StaleIndexError(f"the shard goes on behind {end}, where the index ends", url=place)


def _probes(count: int) -> list[int]:
    """Up to twenty sample numbers, evenly spread, first and last among them."""
    return sorted({round(at * (count - 1) / (_PROBES - 1)) for at in range(_PROBES)}) if count else []

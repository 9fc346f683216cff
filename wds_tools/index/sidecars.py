r"""Index files of our neighbours: DALI's `NAME.idx` and Energon's `NAME.tar.idx`, read and written.

DALI v1.2, what `wds2idx` writes: a line `v1.2 <samples>`, then for each sample a line of `<ext> <offset> <size> <name>`
for each member, where offset is that of the data. v1.1 is the same without names. Energon: little-endian uint64, the
offset of each sample's first header, and the end.

What is written equals what DALI's own `wds2idx` (2.4, with GNU tar in a UTF-8 locale) writes byte for byte, names
escaped as GNU tar lists them, except where that index would be wrong:
- a name with a space splits DALI's line in the wrong places: such a shard gets v1.1, without names;
- members that make no sample (`README`, `__meta__`, `._x`) get no line; wds2idx gives them one, with a wrong extension;
- with GNU long names (`L` headers) wds2idx points into the header; here the offset is that of the data;
- an extension that is empty or has a space cannot be expressed, so it is an error.
The file is `NAME.idx`, NAME being all before `.tar`; wds2idx itself cuts at the first dot, which gives `a.b-000.tar`
and `a.b-001.tar` one name.

What is read is believed only where it fits the shard: see `sidecar_fit`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from wds_tools.atomic import write_atomic
from wds_tools.errors import ListingError, UsageError
from wds_tools.index.offsets import OffsetArray
from wds_tools.names import is_litter, is_metadata, split_name

__all__ = [
    "Component",
    "dali_index",
    "dali_path",
    "energon_index",
    "energon_path",
    "escaped",
    "makes_sample",
    "parse_dali",
    "write_dali",
    "write_energon",
]

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


class Component(NamedTuple):
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
    names = [escaped(member.name) for sample in samples for member in sample]
    version = "v1.1" if any(" " in name for name in names) else "v1.2"
    lines = [" ".join(_words(member, version) for member in sample) for sample in samples]
    return "".join(f"{line}\n" for line in [f"{version} {len(samples)}", *lines]).encode("utf-8", "surrogateescape")


def _grouped(members: Iterable[_Member]) -> Iterator[list[_Member]]:
    key: str | None = None
    sample: list[_Member] = []
    for member in members:
        if member.kind != "file" or not makes_sample(member.name):
            continue
        this = (split_name(member.name) or ("", ""))[0]
        if this != key and sample:
            yield sample
            sample = []
        key = this
        sample.append(member)
    if sample:
        yield sample


def makes_sample(name: str) -> bool:
    """Whether a file of this name belongs to a sample."""
    return split_name(name) is not None and not is_metadata(name) and not is_litter(name)


def _words(member: _Member, version: str) -> str:
    name = escaped(member.name)
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


def escaped(name: str) -> str:
    """A name as `tar --list` prints it: what is not printable as backslash and letter or three octal digits."""
    if _UNSURE.search(name) is None:
        return name
    return "".join(
        letter
        if letter == " " or (letter.isprintable() and letter != "\\")
        else _NAMED_ESCAPES.get(letter)
        or "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogateescape"))
        for letter in name
    )


def parse_dali(data: bytes, place: str) -> list[list[Component]]:
    """The samples of a DALI index, without members that make none.

    Raises:
        ListingError: it is damaged.
    """
    head, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    version, _, count = head.partition(" ")
    width = {"v1.1": 3, "v1.2": 4}.get(version, 0)
    if lines and not lines[-1]:
        lines.pop()
    if not width or count != str(len(lines)):
        raise ListingError(f"a DALI index begins 'v1.2 {len(lines)}', this {head[:40]!r}", url=place)
    try:
        samples = [list(_components(line.split(" "), width)) for line in lines]
        _check_order(each for sample in samples for each in sample)
    except (ValueError, OverflowError) as error:
        raise ListingError(f"a line of the DALI index is damaged: {error}", url=place) from error
    return [kept for sample in samples if (kept := [each for each in sample if _is_ours(each)])]


def _components(words: list[str], width: int) -> Iterator[Component]:
    if len(words) % width or not words:
        raise ValueError(f"{len(words)} words, not a multiple of {width}")
    for at in range(0, len(words), width):
        component = Component(int(words[at + 1]), int(words[at + 2]), words[at + 3] if width == 4 else None)
        if component.data % 512 or component.data < 512 or not 0 <= component.size < 1 << 62:
            raise ValueError(f"data at {component.data} of {component.size} bytes")
        yield component


def _check_order(components: Iterable[Component]) -> None:
    end = 0
    for component in components:
        if component.data - 512 < end:
            raise ValueError(f"data at {component.data} before the end of the member in front, {end}")
        end = component.end


def _is_ours(component: Component) -> bool:
    return component.name is None or makes_sample(component.name)

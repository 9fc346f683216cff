"""From a shard's bytes to the members that belong to samples ("pieces"), in order; all else is counted in the notes.

Plain members, nearly always as whole samples, come from `tar.runs`, the rest from `tar.walk`. What a member is, by kind
and name, is decided in `_names` alone, so that reading, scanning and parsing one sample agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from wds_tools.errors import MemberError, shown
from wds_tools.grouping import WHOLE, Piece
from wds_tools.names import is_litter, is_metadata, split_name
from wds_tools.sample import KEY, BytesLike
from wds_tools.tar import runs
from wds_tools.tar.feed import WINDOW
from wds_tools.tar.headers import BLOCK
from wds_tools.tar.links import Targets
from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.runs import Plain
from wds_tools.tar.walk import Member, Walk

__all__ = ["data_pieces", "header_pieces"]

_COPY = 4096  # bytes; a view of 2 bytes would keep a window of 1 MiB alive


def data_pieces(steps: Walk, targets: Targets | None) -> Iterator[Piece]:
    """The pieces with their data: bytes up to 4 KiB, beyond that views on what the feed gave; nearly all `WHOLE`.

    A link's value is the data it leads to (or, without `targets`, a MemberError); a sparse member's is a MemberError.

    Raises:
        ShardError: as `Walk.next`. Where data are cut, the piece is given without data first: its key tells whether
            the sample before is whole.
    """
    url, need, last = steps.feed.url, BLOCK, ""
    while True:
        begin = steps.position
        window = steps.feed.fill(begin, need)
        samples, begins, members, first, more = runs.plain_samples(window, url, _COPY)
        if samples and samples[0][KEY] != last:
            steps.notes.members += members
            steps.position = begin + first
            yield samples[0][KEY], WHOLE, (samples, begins), begin
            need, last = BLOCK, ""
            continue
        if not samples and need <= len(window) < more <= WINDOW:
            need = more  # the sample goes on behind the window
            continue
        found = runs.plain_members(window, 0, len(window))
        need = BLOCK
        if found and _whole(found[-1][4]) > len(window):
            _, _, header, _, stop = found.pop()  # its header is here, not all of its data
            need = _whole(stop) - header
        if found:
            steps.notes.members += len(found)
            steps.position = begin + _whole(found[-1][4])
            last = found[-1][0]
            yield from _cut_out(window, found, begin)
            continue
        member = steps.next()
        if member is None:
            return
        for piece in _special(steps, member, targets):
            last = piece[0]
            yield piece
        need = BLOCK


def _cut_out(window: memoryview, found: list[Plain], begin: int) -> Iterator[Piece]:
    for key, field, header, data, stop in found:
        view = window[data:stop]
        yield key, field, view if stop - data > _COPY else view.tobytes(), begin + header


def header_pieces(steps: Walk) -> Iterator[Piece]:
    """The pieces without data: values are offsets of headers. Links and sparse members are not judged."""
    while True:
        begin = steps.position
        window = steps.feed.fill(begin, BLOCK)
        found = runs.plain_members(window, 0, len(window))
        if not found:
            member = steps.next()
            if member is None:
                return
            steps.notes.members += 1
            names = _names(member, steps.notes)
            if names is not None:
                yield *names, member.header, member.header
            continue
        steps.notes.members += len(found)
        steps.position = begin + _whole(found[-1][4])
        for key, field, header, _, _ in found:
            yield key, field, begin + header, begin + header


def _whole(stop: int) -> int:
    return stop + BLOCK - 1 & -BLOCK


def _names(member: Member, notes: ShardNotes) -> tuple[str, str] | None:
    """Key and field of a member that belongs to a sample; anything else is counted."""
    if member.kind == "dir":
        notes.folders += 1
    elif member.kind == "other":
        notes.devices += 1
    elif is_metadata(member.name):
        notes.metadata += 1
    elif is_litter(member.name):
        notes.litter += 1
    elif (names := split_name(member.name)) is None:
        notes.saw_nameless(member.name)
    else:
        notes.links += member.kind in ("link", "symlink")
        notes.sparse += member.kind == "sparse"
        return names
    return None


def _special(steps: Walk, member: Member, targets: Targets | None) -> Iterator[Piece]:
    steps.notes.members += 1
    names = _names(member, steps.notes)
    if names is None:
        return
    if member.kind != "file":
        yield _unusual(*names, member, targets)
        return
    length = member.stop - member.data
    window = steps.feed.fill(member.data, length)
    if len(window) < length:
        yield *names, b"", member.header
        steps.check_end(member)
    data = window[: member.size]
    yield *names, data if member.size > _COPY else data.tobytes(), member.header


def _unusual(key: str, field: str, member: Member, targets: Targets | None) -> Piece:
    """The data that a link leads to, or what is wrong with it."""
    try:
        return key, field, _resolved(member, targets), member.header
    except MemberError as error:
        return key, KEY, error.at(field=field), member.header


def _resolved(member: Member, targets: Targets | None) -> BytesLike:
    if member.kind == "sparse":
        raise MemberError(
            f"the member {shown(member.name)} is sparse (stored without its holes)",
            cure="Pack the shard again without `tar --sparse`.",
        )
    if targets is None:
        raise MemberError(
            f"the member {shown(member.name)} is a link to {shown(member.link)}, which cannot be followed in a stream",
            cure="Read a decompressed copy from a disk, or pack with `tar --dereference --hard-dereference`.",
        )
    return targets.data(member)

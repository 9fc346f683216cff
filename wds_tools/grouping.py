"""Members to samples: those with one key, next to each other, in one shard.

A key that comes back after its sample was closed, and a field twice in one sample, are faults of the shard: who goes
on regardless trains on halves. They are found whatever the distance, at 8 bytes of hash a key (some 70 bytes of
memory), for up to the first million keys of a shard; for more, keys are still compared with the first million.

A faulty sample is never given out: its fault is raised, or handed to `on_bad` and the next sample goes on.

Whoever finds the members may have put samples together already (`WHOLE`, as `tar.runs` does for nearly all): then only
their keys remain to be compared, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

from wds_tools.errors import DataError, GroupingError
from wds_tools.sample import KEY, SPECIAL, URL, RawSample
from wds_tools.tar.notes import ShardNotes

__all__ = ["WHOLE", "OnBad", "Piece", "field_twice", "group"]

Piece = tuple[str, str, Any, int]
"""Key, field, value, and the offset of the member's header. The field `__key__`, which no sample takes from a member,
brings a DataError as its value: what is wrong with the sample. The field `WHOLE` brings a list of whole samples, and a
list of where each begins, counted from the offset; the key is the first one's, and not that of the piece before."""

WHOLE = "/"
"""No field has a slash."""

OnBad = Callable[[DataError], None]

_MAX_KEYS = 1 << 20
_key_of = itemgetter(KEY)
_CURE = "Members of a sample must be adjacent: unpack, and pack again with `tar --sort=name`."


def group(
    pieces: Iterable[Piece],
    *,
    url: str,
    notes: ShardNotes | None = None,
    on_bad: OnBad | None = None,
    seen: set[int] | None = None,
) -> Iterator[RawSample]:
    """The samples of a shard, each when the next begins, the last when `pieces` ends without an error.

    Args:
        pieces: the members that belong to samples, in the shard's order.
        url: the shard, for the samples and for messages.
        notes: counts samples, and those refused.
        on_bad: takes the faults of single samples; without it they are raised.
        seen: hashes of the keys that came before.

    Raises:
        GroupingError: a key that comes back, a field twice.
        DataError: what `pieces` brought as wrong with a sample.
    """
    notes = notes if notes is not None else ShardNotes()
    seen = set() if seen is None else seen
    sample: RawSample = {}
    current: str | None = None
    fault: DataError | None = None
    for key, field, value, offset in pieces:
        if key != current:
            if fault is not None:
                _refuse(fault, notes, on_bad)
            elif current is not None:
                notes.samples += 1
                notes.last_key = current
                yield sample
            if field == WHOLE:
                current, fault = None, None
                yield from (
                    value[0]
                    if _are_new(value[0], seen, notes)  # else a fault, found as among members that come one by one
                    else group(_taken_apart(value[0], value[1], offset), url=url, notes=notes, on_bad=on_bad, seen=seen)
                )
                continue
            current, fault, sample = key, None, {KEY: key, URL: url}
            mark = hash(key)
            if mark in seen:
                fault = _noted(_came_back(key, field, url, offset), on_bad)
            elif len(seen) < _MAX_KEYS:
                seen.add(mark)
        if field in sample:
            fault = fault or _noted(_fault(key, field, value, url, offset), on_bad)
        else:
            sample[field] = value
    if fault is not None:
        _refuse(fault, notes, on_bad)
    elif current is not None:
        notes.samples += 1
        notes.last_key = current
        yield sample


def _are_new(samples: list[RawSample], seen: set[int], notes: ShardNotes) -> bool:
    """Whether none of the keys was seen; they are counted and seen then."""
    marks = set(map(hash, map(_key_of, samples)))
    if len(marks) < len(samples) or not seen.isdisjoint(marks) or len(seen) + len(marks) > _MAX_KEYS:
        return False
    seen |= marks
    notes.samples += len(samples)
    notes.last_key = samples[-1][KEY]
    return True


def _taken_apart(samples: list[RawSample], begins: list[int], offset: int) -> Iterator[Piece]:
    for sample, begin in zip(samples, begins, strict=True):
        key, _, *fields = sample.values()
        for field, value in zip(list(sample)[2:], fields, strict=True):
            yield key, field, value, offset + begin


def field_twice(key: str, field: str, url: str, offset: int) -> GroupingError:
    """The error for a member whose field the sample has already."""
    if field in SPECIAL:
        problem, cure = f"a member has the field {field!r}, which is kept for samples' own facts", "Rename the member."
    else:
        problem = f"a second member with the field {field!r} in one sample (case does not count)"
        cure = "Remove one of them: appended (`tar -r`) or differing in case only? Then pack again: `tar --sort=name`."
    return GroupingError(problem, url=url, offset=offset, key=key, field=field, cure=cure)


def _fault(key: str, field: str, value: Any, url: str, offset: int) -> DataError:
    if isinstance(value, DataError):
        return value.at(url=url, offset=offset, key=key)
    return field_twice(key, field, url, offset)


def _came_back(key: str, field: str, url: str, offset: int) -> GroupingError:
    problem = "the key comes back after other samples"
    return GroupingError(problem, url=url, offset=offset, key=key, field=field, cure=_CURE)


def _noted(fault: DataError, on_bad: OnBad | None) -> DataError:
    """The fault, for the end of its sample; raised at once where it will be: a stream may repeat a key for ever."""
    if on_bad is None:
        raise fault
    return fault


def _refuse(fault: DataError, notes: ShardNotes, on_bad: OnBad | None) -> None:
    notes.saw_fault(fault)
    if on_bad is not None:  # else it was raised before
        on_bad(fault)

"""What a dataset holds, counted sample by sample: fields, labels, and how large its pictures are.

The writer counts while it writes and puts the result into the listing, `wds verify` counts again and compares. So a
tally depends on the samples alone and not on their order, two tallies of two halves add up to that of the whole
(`merge`), and one goes through JSON and back unchanged (`state`), as resuming and joining need it. Memory is bounded:

- labels (fields called cls, cls2 or class) are counted one by one up to MOST_LABELS different ones; with more they are
  no classes but numbers, and the field's counts are left out;
- widths, heights and bytes of pictures are kept as a histogram, exact up to 1,023 and in steps of a thousandth or two
  beyond, so that the median is one of the values or just below it. Smallest and largest are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Self

from wds_tools import codec
from wds_tools.errors import SampleError
from wds_tools.fields.text import decode_int
from wds_tools.pictures.facts import Facts, Shape, read_facts
from wds_tools.sample import BytesLike

__all__ = ["MOST_LABELS", "Spread", "Tally", "absent_classes"]

MOST_LABELS = 10_000

_LABELS = frozenset({"cls", "cls2", "class"})
_EXACT_BITS = 10
_MOST_NEW = 1024
_SIDES = ("width", "height", "bytes")


class Spread:
    """The spread of whole numbers from 0 on."""

    def __init__(self) -> None:
        self._smallest: int | None = None
        self._largest = 0
        self._steps: Counter[int] = Counter()
        self._new: list[int] = []

    def add(self, value: int) -> None:
        """One more value."""
        self._new.append(value)  # three times a sample: they are counted many at a time, in a third of the time
        if len(self._new) >= _MOST_NEW:
            self._count()

    def merge(self, other: Spread) -> None:
        """Add what the other has."""
        self._count()
        other._count()
        if other._smallest is not None:
            self._steps.update(other._steps)
            self._bound(other._smallest, other._largest)

    def facts(self) -> dict[str, int]:
        """Smallest, median (the lower of two) and largest; empty where there is no value."""
        self._count()
        if self._smallest is None:
            return {}
        steps = sorted(self._steps)
        upto = list(accumulate(self._steps[step] for step in steps))
        median = steps[bisect_right(upto, (upto[-1] - 1) // 2)]
        return {"min": self._smallest, "median": max(median, self._smallest), "max": self._largest}

    def state(self) -> list[Any]:
        """As JSON knows it; `of` is the way back."""
        self._count()
        return [self._smallest, self._largest, [list(pair) for pair in sorted(self._steps.items())]]

    @classmethod
    def of(cls, state: list[Any]) -> Self:
        """The spread that had this state."""
        spread = cls()
        spread._smallest, spread._largest, steps = state
        spread._steps.update(dict(map(tuple, steps)))
        return spread

    def _count(self) -> None:
        if self._new:
            new, self._new = self._new, []
            self._steps.update(map(_step, new))
            self._bound(min(new), max(new))

    def _bound(self, smallest: int, largest: int) -> None:
        self._smallest = smallest if self._smallest is None else min(self._smallest, smallest)
        self._largest = max(self._largest, largest)


def _step(value: int) -> int:
    shift = value.bit_length() - _EXACT_BITS
    return value >> shift << shift if shift > 0 else value


class Tally:
    """Counts of samples.

    Attributes:
        samples: how many were added.
    """

    def __init__(self) -> None:
        self.samples = 0
        self._fields: Counter[str] = Counter()
        self._labels: dict[str, Counter[int] | None] = {}
        """By field; None where there were too many different ones."""
        self._formats: dict[str, Counter[str]] = {}
        self._spreads: dict[str, tuple[Spread, ...]] = {}
        self._kinds: dict[str, str] = {}

    def add(
        self,
        fields: Iterable[tuple[str, BytesLike]],
        *,
        pictures: bool = True,
        known: Mapping[str, Facts | Shape] = MappingProxyType({}),
    ) -> None:
        """Count one sample by its fields and their bytes. What cannot be read counts as a field and no more.

        Args:
            fields: the names and the bytes.
            pictures: whether to look at the pictures' headers.
            known: what headers say that somebody has read already, by field.
        """
        self.samples += 1
        for field, data in fields:
            self._fields[field] += 1
            kind = self._kinds.get(field) or self._kind(field)
            if kind == "label":
                self._add_label(field, data)
            elif kind == "picture" and pictures:
                self._add_picture(field, data, known.get(field))

    def merge(self, other: Tally) -> None:
        """Add what the other has counted."""
        self.samples += other.samples
        self._fields.update(other._fields)
        for field, counts in other._labels.items():
            mine = self._labels.setdefault(field, Counter())
            self._labels[field] = _bounded(mine + counts) if mine is not None and counts is not None else None
        for field, formats in other._formats.items():
            self._formats.setdefault(field, Counter()).update(formats)
            mine_too = self._spreads.setdefault(field, tuple(Spread() for _ in _SIDES))
            for spread, more in zip(mine_too, other._spreads[field], strict=True):
                spread.merge(more)

    def facts(self) -> dict[str, Any]:
        """What a listing says: `fields`, and where there are any `labels` and `pictures`."""
        labels = {
            field: {str(label): counts[label] for label in sorted(counts)}
            for field, counts in sorted(self._labels.items())
            if counts
        }
        pictures = {
            field: {"formats": dict(sorted(formats.items()))}
            | {side: spread.facts() for side, spread in zip(_SIDES, self._spreads[field], strict=True)}
            for field, formats in sorted(self._formats.items())
        }
        facts: dict[str, Any] = {"fields": dict(sorted(self._fields.items()))}
        return facts | ({"labels": labels} if labels else {}) | ({"pictures": pictures} if pictures else {})

    def state(self) -> dict[str, Any]:
        """As JSON knows it; `of` is the way back."""
        return {
            "samples": self.samples,
            "fields": dict(sorted(self._fields.items())),
            "labels": {
                field: None if counts is None else [list(pair) for pair in sorted(counts.items())]
                for field, counts in sorted(self._labels.items())
            },
            "pictures": {
                field: [dict(sorted(formats.items())), *(spread.state() for spread in self._spreads[field])]
                for field, formats in sorted(self._formats.items())
            },
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """The tally that had this state."""
        tally = cls()
        tally.samples = state["samples"]
        tally._fields.update(state["fields"])
        for field, counts in state["labels"].items():
            tally._labels[field] = None if counts is None else Counter(dict(map(tuple, counts)))
        for field, (formats, *spreads) in state["pictures"].items():
            tally._formats[field] = Counter(formats)
            tally._spreads[field] = tuple(map(Spread.of, spreads))
        return tally

    def _kind(self, field: str) -> str:
        kind: str = "bytes" if field.endswith(".gz") else codec.kind_of(field)
        if kind == "int" and field.rpartition(".")[2] in _LABELS:
            kind = "label"
        self._kinds[field] = kind
        return kind

    def _add_label(self, field: str, data: BytesLike) -> None:
        counts = self._labels.setdefault(field, Counter())
        if counts is None:
            return
        try:
            label = decode_int(data)
        except SampleError:
            return
        counts[label] += 1
        self._labels[field] = _bounded(counts)

    def _add_picture(self, field: str, data: BytesLike, known: Facts | Shape | None) -> None:
        try:
            facts = known or read_facts(data)
        except SampleError:
            return
        if field not in self._formats:
            self._formats[field] = Counter()
            self._spreads[field] = tuple(Spread() for _ in _SIDES)
        self._formats[field][facts.format] += 1
        for spread, value in zip(self._spreads[field], (facts.width, facts.height, len(data)), strict=True):
            spread.add(value)


def absent_classes(classes: Sequence[str], labels: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """The classes of which there is no sample: names outlive their samples, since labels are places among them.

    Args:
        classes: names by label.
        labels: by field, and by label as text, how many samples have it, as a listing says; the field is `cls`, or the
            only one. Empty where nobody counted: then none is known to be absent.
    """
    counts = labels.get("cls") or (next(iter(labels.values())) if len(labels) == 1 else {})
    return tuple(name for label, name in enumerate(classes) if counts and str(label) not in counts)


def _bounded(counts: Counter[int]) -> Counter[int] | None:
    return counts if len(counts) <= MOST_LABELS else None

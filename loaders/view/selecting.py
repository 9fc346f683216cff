"""What the live server is asked to list: a place, a shard, a class, a part of a key; from a query to sample numbers.

Places are positions in the list, so a page costs the same wherever it lies: the whole dataset and a shard are ranges, a
class is a sorted array of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, urlencode

import numpy as np

from loaders.view.choice import Ints
from loaders.view.classes import ClassIndex
from loaders.view.keys import Found, KeyIndex
from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError, counted

__all__ = ["Listed", "Query", "listed"]

_WAIT_S = 0.5
"""For what is read in the background, before a page says that it is going on."""
_MOST_DIGITS = 18


@dataclass(frozen=True, kw_only=True)
class Query:
    """What stands behind the question mark.

    Attributes:
        at: the first place of the page.
        shard: only samples of this shard.
        label: only samples of this class.
        text: only samples whose key holds this, or begins with it after a ^; #17 goes to sample 17.
    """

    at: int = 0
    shard: int | None = None
    label: str = ""
    text: str = ""

    @classmethod
    def parse(cls, query: str) -> Self:
        """From the query of a url, percent-encoded. What is unknown is passed over.

        Raises:
            UsageError: a number that is none.
        """
        try:
            pairs = dict(parse_qsl(query, encoding="utf-8", errors="surrogateescape", max_num_fields=20))
        except ValueError as error:
            raise UsageError(f"the query cannot be read: {error}") from error
        shard = pairs.get("shard", "").strip()
        return cls(
            at=_number("at", pairs.get("at") or "0"),
            shard=_number("shard", shard) if shard else None,
            label=pairs.get("class", "").strip(),
            text=pairs.get("q", ""),
        )

    def address(self, *, at: int = 0) -> str:
        """The page that begins at a place, with the same filters."""
        pairs = {"q": self.text, "class": self.label, "shard": "" if self.shard is None else str(self.shard)}
        given = {name: value for name, value in pairs.items() if value} | ({"at": str(at)} if at else {})
        return "/?" + urlencode(given, errors="surrogateescape") if given else "/"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The samples that a query means.

    Attributes:
        numbers: of the samples, rising; a range or an array.
        note: what the user should know of it.
        going_on: whether there may be more when it is asked again.
    """

    numbers: range | Ints
    note: str = ""
    going_on: bool = False

    def page(self, at: int, count: int) -> Sequence[int]:
        """The numbers of the samples at these places."""
        return [int(number) for number in self.numbers[at : at + count]]

    def place_of(self, number: int) -> int:
        """Where a sample stands in the list, or the next one after it."""
        if isinstance(self.numbers, range):
            return min(max(0, number - self.numbers.start), len(self.numbers))
        return int(np.searchsorted(self.numbers, number))


def listed(query: Query, dataset: Dataset, keys: KeyIndex, classes: ClassIndex) -> Listed:
    """The samples that a query means.

    Raises:
        ShardstreamError: a class or shard that is not there, a search that would fetch too much.
    """
    if query.shard is not None and query.shard >= len(dataset.urls):
        raise UsageError(f"there is no shard {query.shard}", cure=f"The last one is {len(dataset.urls) - 1}.")
    within = range(len(dataset))
    if query.shard is not None:
        within = range(int(dataset.starts[query.shard]), int(dataset.starts[query.shard + 1]))
    found = Listed(numbers=within)
    if query.label:
        of_class = classes.numbers(query.label, wait_s=_WAIT_S)
        if of_class is None:
            note = f"reading the classes: {classes.read:,} of {counted(len(dataset), 'sample')} so far"
            return Listed(numbers=range(0), note=note, going_on=True)
        begin, end = np.searchsorted(of_class, [within.start, within.stop])
        found = Listed(numbers=of_class[begin:end])
    if query.text and not query.text.startswith("#"):
        shards = range(len(dataset.urls)) if query.shard is None else [query.shard]
        return _narrowed(found, keys.search(query.text, shards=shards, wait_s=_WAIT_S))
    return found


def _narrowed(listed_before: Listed, found: Found) -> Listed:
    numbers = np.array(found.numbers, np.int64)
    if not isinstance(listed_before.numbers, range):
        numbers = np.intersect1d(numbers, listed_before.numbers, assume_unique=True)
    notes = []
    if found.full:
        notes.append(f"the first {len(found.numbers):,} keys that match")
    elif found.walked < found.of:
        notes.append(f"{found.walked:,} of {counted(found.of, 'shard')} searched{'' if found.ended else ' so far'}")
    if found.faults:
        notes.append(f"{counted(found.faults, 'shard')} could not be searched")
    return Listed(numbers=numbers, note="; ".join(notes), going_on=not found.ended and not found.full)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise UsageError(f"{name} is {text[:40]!r}, expected a number")
    return int(text)

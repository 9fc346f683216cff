"""What there is: the whole of a dataset from its index and listing, the rest from the samples that were looked at.

Each figure says which of the two it is about. Counting the classes of a dataset whose listing has not counted them
means reading a field of every sample, so that is done only where it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loaders.view.viewer import Seen, Viewer
from wds_tools.dataset import Dataset
from wds_tools.errors import public
from wds_tools.labels import read_labels
from wds_tools.show.values import Value

__all__ = ["Facts", "FieldFacts", "Histogram", "ShardFacts", "facts_of", "histogram"]


class Histogram(NamedTuple):
    """How many samples each class has.

    Attributes:
        field: that says the class.
        counts: (class, samples), in the order of the labels.
        whole: whether all samples of the dataset were counted, else those that were looked at.
    """

    field: str
    counts: Sequence[tuple[str, int]]
    whole: bool


class ShardFacts(NamedTuple):
    """One shard: its url, samples, bytes, and the number of its first sample."""

    url: str
    samples: int
    bytes: int
    first: int


class FieldFacts(NamedTuple):
    """One field, in the samples that were looked at: kind, samples that have it, mean bytes, formats."""

    name: str
    kind: str
    samples: int
    mean_bytes: float
    formats: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a page shows.

    Attributes:
        name: of the dataset; its listing's, else where it lies.
        samples, bytes: of the whole.
        shards: all of them, in order.
        shuffled: whether the samples lie in shuffled order, None where nobody says.
        command: what made it, as the listing says.
        failed: kind to count of what was not packed, as the listing says.
        histogram: of the classes; None where no sample looked at has one.
        fields: of the samples looked at.
        sizes: (width, height) of the first picture of each sample looked at.
        seen: the samples looked at.
    """

    name: str
    samples: int
    bytes: int
    shards: Sequence[ShardFacts]
    shuffled: bool | None
    command: str | None
    failed: Mapping[str, int]
    histogram: Histogram | None
    fields: Sequence[FieldFacts]
    sizes: Sequence[tuple[int, int]]
    seen: Sequence[Seen]

    @property
    def broken(self) -> list[Seen]:
        """Those with a fault."""
        return [each for each in self.seen if each.faults]


def facts_of(viewer: Viewer, seen: Sequence[Seen], *, name: str, count_classes: bool = False) -> Facts:
    """The facts of a dataset, samples of which were looked at.

    Args:
        viewer: of the dataset.
        seen: those samples.
        name: for a dataset whose listing has none.
        count_classes: read every sample's label, once, where the listing has not counted them.
    """
    dataset, said = viewer.dataset, viewer.dataset.listing
    failed, command = said.get("failed"), said.get("command")
    return Facts(
        name=str(said.get("name") or name),
        samples=len(dataset),
        bytes=int(dataset.sizes.sum()),
        shards=_shards(dataset),
        shuffled=dataset.shuffled,
        command=command if isinstance(command, str) else None,
        failed=failed if isinstance(failed, dict) else {},
        histogram=histogram(dataset, viewer.labels, seen, count=count_classes),
        fields=_fields(seen),
        sizes=[size for each in seen if (size := _size(each)) is not None],
        seen=seen,
    )


def histogram(dataset: Dataset, field: str, seen: Sequence[Seen], *, count: bool) -> Histogram | None:
    """How many samples each class has: as the listing has counted, or as all labels say, or as those seen say."""
    listed = dataset.listing.get("labels")
    if isinstance(listed, dict) and isinstance(listed.get(field), dict):
        labels = sorted(listed[field].items(), key=lambda item: _rank(item[0]))
        return Histogram(field, [(_class(dataset, label), int(number)) for label, number in labels], whole=True)
    if count:
        found = read_labels(dataset, field)
        pairs = zip(map(str, found.values), found.counts.tolist(), strict=True)
        return Histogram(field, [(_class(dataset, label), number) for label, number in pairs], whole=True)
    some = Counter(each.label for each in seen if each.label)
    return Histogram(field, sorted(some.items(), key=lambda item: _rank(item[0])), whole=False) if some else None


def _rank(label: str) -> tuple[bool, int, str]:
    """Numbers before words, by their value."""
    number = label.isascii() and label.isdigit() and len(label) < 20
    return not number, int(label) if number else 0, label


def _class(dataset: Dataset, label: str) -> str:
    classes = dataset.classes
    known = classes is not None and label.isascii() and label.isdigit() and int(label) < len(classes)
    return classes[int(label)] if classes is not None and known else label


def _shards(dataset: Dataset) -> list[ShardFacts]:
    rows = zip(dataset.urls, dataset.counts.tolist(), dataset.sizes.tolist(), dataset.starts.tolist(), strict=False)
    return [ShardFacts(public(url), samples, nbytes, first) for url, samples, nbytes, first in rows]


def _fields(seen: Sequence[Seen]) -> list[FieldFacts]:
    names = dict.fromkeys(name for each in seen for name in each.values)
    return [_field(name, [each.values[name] for each in seen if name in each.values]) for name in names]


def _field(name: str, values: Sequence[Value]) -> FieldFacts:
    kind = Counter(value.kind for value in values).most_common(1)[0][0]
    mean = sum(value.bytes or 0 for value in values) / len(values)
    return FieldFacts(name, kind, len(values), mean, Counter(value.format for value in values if value.format))


def _size(seen: Seen) -> tuple[int, int] | None:
    return next((value.size for value in seen.values.values() if value.size is not None), None)

"""Which samples are looked at: evenly spread over the dataset, or of one class, decided by the seed."""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wds_tools.dataset import Dataset
from wds_tools.errors import UsageError, shown
from wds_tools.labels import Label, Labels, read_labels

__all__ = ["Ints", "chosen", "label_field", "label_named", "numbers_of_label"]

Ints = npt.NDArray[np.int64]


def chosen(samples: int, count: int, seed: int) -> list[int]:
    """Up to `count` different numbers below `samples`, rising: one of each of so many equal stretches.

    Spread evenly, since a dataset may be sorted; drawn within the stretch, so that another seed shows others. A
    function of the three numbers alone.
    """
    count = min(count, samples)
    edges = [samples * at // count for at in range(count + 1)] if count else []
    return [begin + _draw(seed, at) % (end - begin) for at, (begin, end) in enumerate(itertools.pairwise(edges))]


def _draw(seed: int, at: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed} {at}".encode(), digest_size=8).digest())


def label_field(dataset: Dataset) -> str:
    """The field with the class: the one that the listing has counted, else cls."""
    counted = dataset.listing.get("labels")
    return next(iter(counted), "cls") if isinstance(counted, dict) else "cls"


def numbers_of_label(dataset: Dataset, field: str, name: str) -> Ints:
    """The samples of a class, int64 (k,), rising; `name` as `label_named`. Reads the labels once, and keeps them."""
    labels = read_labels(dataset, field)
    code = labels.values.index(label_named(labels, dataset.classes, name, field))
    return np.flatnonzero(labels.codes == code).astype(np.int64)


def label_named(labels: Labels, classes: Sequence[str] | None, name: str, field: str) -> Label:
    """The label that a user means, by the class's name or by itself.

    Raises:
        UsageError: no sample has it; the message names the nearest.
    """
    known: dict[str, Label] = {str(value): value for value in labels.values}
    for at, each in enumerate(classes or ()):
        if at in labels.values:
            known.setdefault(each, at)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    raise UsageError(
        f"no sample is of the class {shown(name)} (field {field})",
        cure=f"The nearest is {shown(near[0])}." if near else None,
    )

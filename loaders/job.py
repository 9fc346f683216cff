"""One batch on its way: which samples it is made of, the memory they go to, and what comes out."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from loaders.batch import batch_of, column
from loaders.fetch import Claim
from loaders.selection import AnyOrder
from loaders.stacked import ArrayColumn, Memory, Slot
from wds_tools.errors import BatchError, ShardstreamError, UsageError
from wds_tools.sample import KEY, URL

__all__ = ["Assembly", "BatchJob", "Cursor", "transformed"]

CHUNK = 16


@dataclass(frozen=True)
class Cursor:
    """A place in the run: the epoch, and how many samples of it the whole job has been handed."""

    epoch: int
    position: int


@dataclass(eq=False, kw_only=True)
class Assembly:
    """A batch being made, whatever its samples come from.

    Attributes:
        draws: uniform numbers of each slot, (n, k) float64, or None where nothing is random.
        valid: bool (n,), False where the tail repeats a sample or a bad one was replaced.
        mark_valid: whether the batch has `valid` as its last element.
        names: the columns' names.
        empties: for each column what it is when the batch has no samples.
        slabs: for each column its memory: a uint8 (n, H, W, 3) array, an ArrayColumn, or None.
        transformed: samples are dicts that a transform or collate handles, not rows of columns.
        collate: makes the batch of the list of samples, or None.
        after: where the run stands when this batch has been handed out.
        last: the epoch ends with it.
        slots: samples in the batch, as planned.
    """

    draws: npt.NDArray[np.float64] | None
    valid: npt.NDArray[np.bool_]
    mark_valid: bool
    names: tuple[str, ...]
    empties: Sequence[Any]
    slabs: Sequence[Memory]
    transformed: bool
    collate: Callable[[list[dict[str, Any]]], Any] | None
    after: Cursor
    last: bool
    chunk: int = CHUNK
    error: BaseException | None = None
    batch: Any = None
    slots: int = field(init=False)
    values: list[Any] = field(init=False)
    keys: list[str | None] = field(init=False)
    urls: list[str | None] = field(init=False)
    dropped: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = len(self.valid)
        self.values = [None] * self.slots
        self.keys = [None] * self.slots
        self.urls = [None] * self.slots

    def memory(self, slot: int) -> list[Slot]:
        """Where the values of a sample go, for each column."""
        return [
            functools.partial(slab.put, slot) if isinstance(slab, ArrayColumn) else None if slab is None else slab[slot]
            for slab in self.slabs
        ]

    def finish(self) -> None:
        """Make the batch of its samples. Bad slots that nothing replaced are left out."""
        keep = None
        if self.dropped:
            gone = set(self.dropped)
            keep = np.array([slot for slot in range(self.slots) if slot not in gone], dtype=np.int64)
            self.values = [self.values[slot] for slot in keep]
            self.keys = [self.keys[slot] for slot in keep]
            self.urls = [self.urls[slot] for slot in keep]
            self.valid = self.valid[keep]
        if self.collate is not None:
            self.batch = self._collated(self.collate)
        elif self.transformed:
            self.batch = self._of_dicts()
        else:
            self.batch = self._of_columns(keep)
        self.values = []

    def _collated(self, collate: Callable[[list[dict[str, Any]]], Any]) -> Any:
        try:
            return collate(self._marked())
        except StopIteration as error:
            named = f"the batch that begins with the sample {self.keys[0]!a}" if self.keys else "an empty batch"
            raise RuntimeError(f"collate= raised StopIteration for {named}") from error

    def _marked(self) -> list[dict[str, Any]]:
        if self.mark_valid:
            for sample, valid in zip(self.values, self.valid.tolist(), strict=True):
                sample["valid"] = valid
        return self.values

    def _of_columns(self, keep: npt.NDArray[np.int64] | None) -> Any:
        columns = []
        for i, (name, slab) in enumerate(zip(self.names, self.slabs, strict=True)):
            if not self.values:
                columns.append(self.empties[i])
                continue
            if isinstance(slab, ArrayColumn):
                whole = slab.whole() if keep is None else slab.part(keep)
            else:
                whole = slab if keep is None or slab is None else slab[keep]
            columns.append(column(name, [row[i] for row in self.values], self.keys) if whole is None else whole)
        return self._batch(self.names, columns)

    def _of_dicts(self) -> Any:
        if not self.values:
            return self._batch(self.names, list(self.empties))
        first: Mapping[str, Any] = self.values[0]
        names = self._names(first)
        for sample, key, url in zip(self.values, self.keys, self.urls, strict=True):
            if sample.keys() != first.keys():
                raise BatchError(
                    f"the samples of a batch differ in their fields: {_listed(first)} in {self.keys[0]!r}, "
                    f"{_listed(sample)} in {key!r}",
                    url=url,
                    key=key,
                    cure="Let transform= return the same fields for every sample, or join them in collate=.",
                )
        return self._batch(names, [column(name, [row[name] for row in self.values], self.keys) for name in names])

    def _names(self, first: Mapping[Any, Any]) -> tuple[str, ...]:
        """The fields of a sample as the names of a batch's elements; those like __key__ are left out."""
        names = tuple(name for name in first if not (isinstance(name, str) and name.startswith("__")))
        bad = [name for name in names if not _nameable(name)]
        problem, cure = None, "Rename them in transform=, or join the samples yourself in collate=."
        if not names:
            problem, cure = "transform returned a sample without fields", "Return those that the batch shall have."
        elif bad:
            problem = f"transform returned the fields {bad}, which cannot name elements of a batch"
        elif self.mark_valid and "valid" in names:
            problem = "transform returned a field 'valid', which is what tail=\"pad\" adds"
            cure = "Rename it in transform=, or use another tail=."
        if problem is not None:
            raise UsageError(problem, url=self.urls[0], key=self.keys[0], cure=cure)
        return names

    def _batch(self, names: tuple[str, ...], columns: list[Any]) -> Any:
        if self.mark_valid:
            return batch_of((*names, "valid"), [*columns, self.valid])
        return batch_of(names, columns)


@dataclass(eq=False, kw_only=True)
class BatchJob(Assembly):
    """A batch of samples that a plan names.

    Attributes:
        order: the epoch it belongs to.
        positions: int64 (n,).
        samples: the planned sample of each slot, int64 (n,).
        claims: on the bytes of each of them, where they are fetched ahead.
        where: shard, begin and end of each of them, int64 (3, n); None where that was not looked up.
    """

    order: AnyOrder
    positions: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]
    claims: Sequence[Claim | None] | None = None
    where: npt.NDArray[np.int64] | None = None

    def release(self, slots: Iterable[int]) -> None:
        """These samples will not be read."""
        claims = self.claims
        if claims:
            Claim.release_all([claim for slot in slots if (claim := claims[slot]) is not None])


def _listed(sample: Mapping[Any, Any]) -> list[Any]:
    return sorted(sample, key=str)


def _nameable(name: Any) -> bool:
    """Whether a NamedTuple takes the name."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def transformed(
    transform: Callable[[dict[str, Any]], dict[str, Any]] | None,
    names: Sequence[str],
    values: Sequence[Any],
    *,
    key: str | None,
    url: str | None,
) -> dict[str, Any]:
    """A decoded sample as the dict that transform and collate see, transformed if there is a transform.

    Raises:
        UsageError: the transform returned no dict. Its own errors pass, with the sample's name added.
        RuntimeError: it raised StopIteration, which further up would pass for the end of the epoch.
    """
    sample = {KEY: key, URL: url, **dict(zip(names, values, strict=True))}
    if transform is None:
        return sample
    try:
        changed = transform(sample)
    except ShardstreamError as error:
        raise error.at(url=url, key=key) from error.__cause__
    except StopIteration as error:
        raise RuntimeError(f"transform= raised StopIteration for the sample {key!a} of {url}") from error
    except Exception as error:
        error.add_note(f"in transform= for the sample {key!a} of {url}")
        raise
    if not isinstance(changed, dict):
        raise UsageError(
            f"transform returned {type(changed).__name__}, expected the sample as a dict",
            url=url,
            key=key,
            cure="Return the dict that transform was given, changed as you like.",
        )
    return changed

"""What is packed where and in which order, decided before a byte is read: the legs of a run.

A leg is one dataset, or one part of one: a target, and the places of the input that go there, in order. Without splits
there is one leg, in OUT; with splits one a split, each in a folder of its own (OUT/val, OUT/train), since a folder
holds one dataset. They are packed one after the other, the named splits first: where `dedup` finds a picture in two
splits, the training set is the one that loses it.

The order is that of the seed over the whole input; a split takes its samples out of it, and part i of n the i-th n-th
of each split. So the parts of a run, one behind the other, have the samples of the whole run in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from shardwriter.inputs import Input
from shardwriter.keys import originals_name
from shardwriter.order import shuffled
from shardwriter.place import Place
from shardwriter.settings import Part, Settings
from shardwriter.split import Splits
from shardwriter.target import Target
from wds_tools.errors import KeyRefusedError, SampleError, TargetError
from wds_tools.index.listing import CLASSES_NAME, FAILURES_NAME, LISTING_NAME, offsets_name

__all__ = ["CLASSES_NAME", "FAILURES_NAME", "Leg", "plan", "targets"]

Places: TypeAlias = Sequence[int] | npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Leg:
    """One dataset of a run, or one part of one.

    Attributes:
        name: of the dataset.
        target: where its shards and its listing go.
        failures: the name of the file that says what could not be packed.
        originals: the name of the file that says what keys stand for, where they are numbers or hashes.
        order: the input's places, in the order they are packed in.
    """

    name: str
    target: Target
    failures: str
    originals: str
    order: Places = ()

    @property
    def folder(self) -> Path:
        """Where its files are made."""
        return self.target.folder

    @property
    def whole(self) -> bool:
        """Whether it is a dataset, and not a part of one."""
        return self.target.listing == LISTING_NAME

    @property
    def own(self) -> list[str]:
        """What it leaves beside shards and listing. classes.txt is of the whole: who joins parts writes it."""
        beside = [self.failures, self.originals]
        return [CLASSES_NAME, *beside] if self.whole else beside

    def check_free(self, *, overwrite: bool) -> None:
        """Read what lies there; nothing is changed.

        Raises:
            TargetError: another dataset, or this one already.
        """
        self.target.check_free(overwrite=overwrite)
        taken = [name for name in self.own if self.target.has(name)]
        if not self.whole and self.target.has(LISTING_NAME):
            taken.append(LISTING_NAME)
        if taken and not overwrite:
            raise TargetError(
                f"{self.target.place} already holds {taken[0]}",
                cure="Write to another folder, or pass overwrite=True (--overwrite).",
            )

    def clear(self) -> None:
        """Remove what lies there of an earlier run, the listing first. For the holder of the claim only."""
        joined = [] if self.whole else [LISTING_NAME, offsets_name(LISTING_NAME)]
        self.target.remove(joined)  # a joined listing lists shards that are about to go
        self.target.clear_dataset()
        self.target.remove(self.own)


def targets(out: Place, settings: Settings, part: Part | None) -> list[Leg]:
    """The legs of a run without their order, which needs the input."""
    splits = Splits(settings.name, settings.split)
    return [_leg(out.below(name) if splits else out, name, part) for name in splits.names]


def plan(samples: Input, out: Place, settings: Settings, part: Part | None) -> list[Leg]:
    """The legs of a run over `samples`: 8 bytes a sample, 16 while splits are made."""
    count = len(samples)
    order: Places = shuffled(count, settings.seed) if settings.shuffle else range(count)
    splits = Splits(settings.name, settings.split)
    rows: list[Places] = [order]
    if splits:
        numbers = np.fromiter((_split_of(samples, place, splits) for place in range(count)), np.int16, count)
        order = np.asarray(order)
        rows = [order[numbers[order] == number] for number in range(len(splits.names))]
    legs = targets(out, settings, part)
    return [replace(leg, order=_part_of(row, part)) for leg, row in zip(legs, rows, strict=True)]


def _split_of(samples: Input, place: int, splits: Splits) -> int:
    try:
        return splits.of(samples.key(place))
    except (OSError, SampleError, KeyRefusedError):
        return len(splits.names) - 1  # it will be reported there


def _part_of(order: Places, part: Part | None) -> Places:
    if part is None:
        return order
    number, parts = part
    return order[len(order) * number // parts : len(order) * (number + 1) // parts]


def _leg(out: Place, name: str, part: Part | None) -> Leg:
    stem, listing, failures = name, LISTING_NAME, FAILURES_NAME
    if part is not None:
        # As wide as the number of parts, so that names in their order are parts in their order.
        stem = f"{name}-{part[0]:0{len(str(part[1]))}d}-of-{part[1]}"
        listing, failures = f"{stem}.json", f"{stem}.{FAILURES_NAME}"
    target = out.target(f"{stem}-%06d.tar", listing=listing)
    return Leg(name=name, target=target, failures=failures, originals=originals_name(stem))

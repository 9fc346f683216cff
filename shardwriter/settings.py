"""What a dataset is made with: everything that its bytes depend on beside the input, and nothing else.

`Settings` is frozen and picklable. A part of a run is a function of (input, settings, part) alone: that is what a
broken run is resumed by, and what lets an engine run the parts anywhere and in any order. How many threads work, how
failures end a run or who watches the progress belongs to the call (`pack`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shardwriter.check import Check, Checker
from shardwriter.order import check_seed
from shardwriter.parts import Part, check_part
from shardwriter.split import Splits
from wds_tools.checksum import Checksum, check_kind
from wds_tools.errors import UsageError
from wds_tools.pictures.options import Pictures
from wds_tools.sample import Sample

__all__ = ["Part", "Prepare", "Settings", "check_part"]


class Prepare(Protocol):
    """A stage between reading and writing, such as a transcoder. Its `repr` says what it does, all of it."""

    def prepare(self, sample: Sample) -> Sample:
        """The sample to pack in place of this one. Called from any thread.

        Raises:
            SampleError, FieldRefusedError: it cannot be made. It is reported, and packing goes on.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Validated when made. Where nothing is said, as `pack` explains them.

    Attributes:
        name: what the shards' names begin with, and the main dataset of splits.
        max_samples: the most samples of a shard, None for no limit.
        max_bytes: the most bytes of a shard's file, None for no limit.
        seed: of the order.
        shuffle: whether the order is shuffled.
        check: how far pictures are checked.
        pictures: the limit of pixels.
        transcode: the stage between reading and writing, None for unchanged bytes.
        checksum: of the shards.
        dedup: whether pictures that come twice are left out.
        split: name to share, for datasets beside the main one.
    """

    name: str = "train"
    max_samples: int | None = 10_000
    max_bytes: int | None = 1_000_000_000
    seed: int = 0
    shuffle: bool = True
    check: Check = "header"
    pictures: Pictures = field(default_factory=Pictures)
    transcode: Prepare | None = None
    checksum: Checksum | None = "xxh3"
    dedup: bool = False
    split: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name or "%" in self.name:
            raise UsageError(f"name is {self.name!r}, expected the beginning of a file name, such as 'train'")
        if (sign := _PATTERN.search(self.name)) is not None:
            raise UsageError(
                f"name is {self.name!r}, where whoever reads the shards takes {sign[0]!r} for a part of a pattern",
                cure="Leave it out: numbers are added, as in train-000000.tar. ShardWriter takes such names.",
            )
        check_seed(self.seed)
        check_kind(self.checksum)
        Checker(self.check, self.pictures)
        Splits(self.name, self.split)
        if self.transcode is not None and not callable(getattr(self.transcode, "prepare", None)):
            raise UsageError(f"transcode is a {type(self.transcode).__name__}, which has no prepare(sample)")

    @property
    def light(self) -> bool:
        """Whether a sample costs little beside reading and writing it."""
        return self.transcode is None and self.check == "header"

    def described(self) -> dict[str, object]:
        """Each setting in words that JSON knows; equal descriptions make equal bytes."""
        found = {name: getattr(self, name) for name in _NAMES}
        return found | {
            "pictures": repr(self.pictures),
            "transcode": _described(self.transcode),
            "split": [[name, share] for name, share in self.split.items()],
        }

    def call(self) -> str:
        """The call of `pack` that makes it, for the listing: what differs from the defaults, no paths."""
        default = Settings()
        changed = [
            f"{name}={_described(value) if name == 'transcode' else repr(value)}"
            for name in _NAMES
            if (value := getattr(self, name)) != getattr(default, name)
        ]
        return f"shardwriter.pack({', '.join(['source', 'out', *changed])})"


_PATTERN = re.compile(r"[{}*?\[\]]|::")
"""As urls use them. A name like this is a pattern by mistake far more often than meant."""
_NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def _described(stage: Prepare | None) -> str | None:
    """By its repr, which must not hold its address in memory."""
    if stage is None:
        return None
    kind = type(stage)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__repr__ is object.__repr__ else repr(stage)

"""What a loader makes of its samples: its arguments, checked, in one piece that the threads share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loaders.arguments import MOST_SAMPLES, MOST_THREADS, check_count
from loaders.crops import Geometry, Mask
from loaders.fields import FieldSpec
from loaders.policy import Policy
from loaders.reading import Reading
from wds_tools.pictures.options import Pictures

__all__ = ["Recipe"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a session makes of a dataset and a plan; the loader's arguments, checked."""

    batch_size: int
    specs: tuple[FieldSpec, ...]
    transform: Callable[[dict[str, Any]], dict[str, Any]] | None
    collate: Callable[[list[dict[str, Any]]], Any] | None
    on_error: Policy
    exclude: str | os.PathLike[str] | Sequence[int] | None
    quarantine: Path | None
    threads: int
    read: Reading
    pictures: Pictures

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, most=MOST_SAMPLES)
        check_count("threads", self.threads, most=MOST_THREADS)

    @property
    def leader(self) -> Geometry | None:
        """The geometry that masks follow."""
        return next((s.image for s in self.specs if s.image and not isinstance(s.image, Mask)), None)

    @property
    def random(self) -> bool:
        """Whether a picture's crop depends on its place in the epoch."""
        return any(isinstance(s.image, Geometry) and s.image.random for s in self.specs)

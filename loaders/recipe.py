"""What a loader makes of its samples: its arguments, checked, in one piece that the threads share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loaders.arguments import MOST_SAMPLES, MOST_THREADS, check_count
from loaders.crops import Geometry, Mask, usual_side
from loaders.decoded.options import DecodedCache
from loaders.decoded.small import KeptSize
from loaders.fields import FieldSpec
from loaders.policy import Policy
from loaders.reading import Reading
from wds_tools.errors import UsageError
from wds_tools.pictures import decode
from wds_tools.pictures.options import Pictures

__all__ = ["Recipe", "sized"]


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
    decoded: DecodedCache | None = None  # its size stated

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size, most=MOST_SAMPLES)
        check_count("threads", self.threads, most=MOST_THREADS)

    @property
    def backend(self) -> str:
        """What makes the pixels of pictures, and at which size they are kept before a crop is cut."""
        return decode.BACKEND if self.decoded is None else f"{decode.BACKEND} at {self.decoded.in_words()}"

    @property
    def kept_size(self) -> KeptSize | None:
        """The size that pictures are decoded to before a crop is cut; None where the crop itself is decoded."""
        return self.decoded.size if self.decoded is not None else None

    @property
    def leader(self) -> Geometry | None:
        """The geometry that masks follow."""
        return next((s.image for s in self.specs if s.image and not isinstance(s.image, Mask)), None)

    @property
    def random(self) -> bool:
        """Whether a picture's crop depends on its place in the epoch."""
        return any(isinstance(s.image, Geometry) and s.image.random for s in self.specs)


def sized(cache: DecodedCache | None, specs: Sequence[FieldSpec]) -> DecodedCache | None:
    """A cache of decoded pictures with its size stated, as it suits the crops.

    Raises:
        UsageError: there are no crops to cut from them, or they are larger than what is kept.
    """
    if cache is None:
        return None
    shapes = [spec.image.shape for spec in specs if spec.picture and isinstance(spec.image, Geometry)]
    if not shapes:
        raise UsageError(
            "decoded_cache is given, but no picture of the batch has a crop to be cut from what is kept",
            cure="Say what pictures become: image=RandomResizedCrop(224); arrays (npy) are decoded already.",
        )
    size = cache.size if cache.size is not None else max(map(usual_side, shapes))
    sides = size if isinstance(size, tuple) else (size, size)
    for shape in shapes:
        if sides[0] < shape[0] or sides[1] < shape[1]:
            raise UsageError(
                f"decoded_cache keeps pictures at {cache.in_words()}, less than the crop {shape[0]}x{shape[1]} that is "
                "cut from them",
                cure=f"Pass size={usual_side(shape)} or more to DecodedCache, or None.",
            )
    return replace(cache, size=size)

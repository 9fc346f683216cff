"""Where a picture is cut and how large it becomes: a function of its size and of numbers drawn for its position.

A geometry is frozen and holds no state. `place` gets the picture's size and a row of uniform numbers that depend on
(seed, epoch, position) alone, so a picture is cropped alike whoever makes it, and all pictures of a sample are
cropped alike, since they get the same row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from loaders.arguments import whole
from wds_tools.errors import UsageError
from wds_tools.pictures.decode import Box

__all__ = ["DRAW_STEPS", "CenterCrop", "Geometry", "Mask", "Placement", "RandomResizedCrop", "Resize", "usual_side"]

DRAW_STEPS = 11  # four uniforms each: one step for the flip, ten for the tries of RandomResizedCrop
_TRIES = 10


class Placement(NamedTuple):
    """What to cut out and whether to mirror it; the output size is the geometry's."""

    box: Box | None
    flip: bool = False


@runtime_checkable
class Geometry(Protocol):
    """What a picture becomes. `size` is (height, width) of the output, `draws` how many steps of uniforms it reads."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def random(self) -> bool: ...

    def place(self, width: int, height: int, draws: Sequence[float]) -> Placement: ...


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size[0], size[1]) if isinstance(size, Sequence) else (size, size)


def usual_side(shape: tuple[int, int]) -> int:
    """The shorter side to which pictures are resized before such a part is cut: 256 for 224, as ImageNet is."""
    return round(max(shape) * 256 / 224)


def _check_size(size: Any) -> None:
    parts = size if isinstance(size, list | tuple) else (size, size)
    if len(parts) != 2 or not all(map(whole, parts)):
        raise UsageError(f"size is {size!r}, expected pixels", cure="Pass size=224, or size=(height, width).")
    if min(parts) < 1:
        raise UsageError(f"size is {size!r}, expected at least 1 pixel each way")


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _check_range(name: str, pair: Any) -> None:
    paired = isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_number, pair))
    if not paired or not 0 < pair[0] <= pair[1]:
        raise UsageError(f"{name} is {pair!r}, expected (low, high) with 0 < low <= high")


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the picture, resized to `size`, mirrored half the time.

    Area and aspect ratio are drawn as in Szegedy et al., Going deeper with convolutions (2015), and torchvision's
    class of this name: up to ten tries, then the largest centred part within `ratio`.

    Attributes:
        size: output (height, width) in pixels, or one number for both.
        scale: share of the picture's area, (low, high).
        ratio: width / height of the part, (low, high), drawn uniformly in its logarithm.
        flip: probability of mirroring left to right.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        _check_size(self.size)
        _check_range("scale", self.scale)
        _check_range("ratio", self.ratio)
        if self.scale[1] > 1:
            raise UsageError(f"scale is {self.scale!r}, expected at most 1", cure="A crop is a part of the picture.")
        if not _number(self.flip) or not 0 <= self.flip <= 1:
            raise UsageError(f"flip is {self.flip!r}, expected a probability of 0 to 1")

    @property
    def shape(self) -> tuple[int, int]:
        return _pair(self.size)

    @property
    def random(self) -> bool:
        return True

    def place(self, width: int, height: int, draws: Sequence[float]) -> Placement:
        flip = draws[0] < self.flip
        low, high = self.scale
        log_low, log_high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for at in range(4, 4 * (_TRIES + 1), 4):
            area = width * height * (low + (high - low) * draws[at])
            ratio = math.exp(log_low + (log_high - log_low) * draws[at + 1])
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left, top = int(draws[at + 2] * (width - w + 1)), int(draws[at + 3] * (height - h + 1))
                return Placement(Box(left, top, w, h), flip)
        return Placement(self._centre(width, height), flip)

    def _centre(self, width: int, height: int) -> Box:
        w = min(width, max(1, round(height * self.ratio[1])))
        h = min(height, max(1, round(width / self.ratio[0])))
        return Box((width - w) // 2, (height - h) // 2, w, h)


@dataclass(frozen=True)
class CenterCrop:
    """The middle of the picture: its shorter side is resized to `resize`, and the central `size` is kept.

    Done in one step, from a box of the original, so nothing outside the crop is resized.

    Attributes:
        size: output (height, width) in pixels, or one number for both.
        resize: pixels of the shorter side before cutting; None means size * 256 / 224, as ImageNet is evaluated.
    """

    size: int | tuple[int, int]
    resize: int | None = None

    def __post_init__(self) -> None:
        _check_size(self.size)
        longer = max(_pair(self.size))
        if self.resize is not None and not whole(self.resize):
            raise UsageError(f"resize is {self.resize!r}, expected pixels of the shorter side, or None")
        if self.resize is not None and self.resize < longer:
            raise UsageError(
                f"resize is {self.resize}, less than the size {self.size!r}",
                cure=f"Pass resize={longer} or more, or None.",
            )

    @property
    def shape(self) -> tuple[int, int]:
        return _pair(self.size)

    @property
    def random(self) -> bool:
        return False

    def place(self, width: int, height: int, draws: Sequence[float]) -> Placement:  # noqa: ARG002 - one protocol
        out_height, out_width = self.shape
        resize = self.resize if self.resize is not None else usual_side(self.shape)
        scale = min(width, height) / resize
        w, h = out_width * scale, out_height * scale
        return Placement(Box((width - w) / 2, (height - h) / 2, w, h))


@dataclass(frozen=True)
class Resize:
    """The whole picture, resized to exactly `size`, whatever its aspect ratio.

    Attributes:
        size: output (height, width) in pixels, or one number for both.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        _check_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return _pair(self.size)

    @property
    def random(self) -> bool:
        return False

    def place(self, width: int, height: int, draws: Sequence[float]) -> Placement:  # noqa: ARG002 - one protocol
        del width, height
        return Placement(None)


@dataclass(frozen=True)
class Mask:
    """A picture whose values are labels: cropped as the sample's other picture is, but to the nearest value.

    Values keep their meaning: palette indices stay indices, 16 bits stay 16 bits. In the batch a mask is (N, H, W).
    Where no other picture has a crop, a mask keeps its own size.
    """

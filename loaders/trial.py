"""What smaller pictures would give, tried: some of a loader's own, made smaller and decoded as the loader decodes.

Pictures of samples spread evenly over an epoch are read, and decoded with the crops of their places. Then they are made
as small as `wds reshard --resize` would make them (shorter side 8/7 of the crop, 256 for 224; JPEG quality 90), and
decoded with crops of the same random numbers. Both by CPU time of this thread, the better of two, so that what else
runs on the machine matters little. That takes half a second, or with large photographs a few.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from loaders import draws
from loaders.bottleneck import Figures
from loaders.crops import DRAW_STEPS, Geometry, usual_side
from loaders.loader import ShardLoader
from loaders.read import SampleReader, Scratch
from wds_tools.errors import DataError
from wds_tools.pictures.decode import Decoder, Pixels
from wds_tools.pictures.encode import encode_picture
from wds_tools.pictures.facts import check_size, read_facts

__all__ = ["SmallerPictures", "try_smaller"]

_PICTURES = 32
_QUALITY = 90  # as `wds reshard` writes
_RUNS = 2
_MOST_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class SmallerPictures:
    """What was found.

    Attributes:
        pictures: that were tried.
        side: pixels, to which their shorter sides were reduced.
        bytes, small_bytes: of these, before and after.
        seconds, small_seconds: CPU time to decode them, before and after.
    """

    pictures: int
    side: int
    bytes: int
    small_bytes: int
    seconds: float
    small_seconds: float

    def gain(self, run: Figures) -> float:
        """By what a run's loader would have been faster."""
        return run.gain(decoding=self.small_seconds / self.seconds, reading=self.small_bytes / self.bytes)


class _Picture(NamedTuple):
    field: str
    data: bytes
    geometry: Geometry
    draws: Sequence[float]


def try_smaller(loader: ShardLoader, *, pictures: int = _PICTURES) -> SmallerPictures | None:
    """Try it.

    Args:
        loader: whose pictures and crops. It is not iterated.
        pictures: how many, at most.

    Returns:
        None where no picture is cropped, or none could be made smaller.

    Raises:
        UnavailableError: the shards cannot be read.
    """
    decoder = Decoder(loader.recipe.pictures)
    before, after, until, side = [], [], time.perf_counter() + _MOST_SECONDS, 0
    for picture in _chosen(loader, pictures):
        try:
            smaller = _smaller(decoder, picture)
            cost, small_cost = _costs(decoder, picture, smaller)
        except DataError:  # a bad picture, or a format that nobody writes: the loader says so
            continue
        before.append((len(picture.data), cost))
        after.append((len(smaller.data), small_cost))
        side = usual_side(picture.geometry.shape)
        if time.perf_counter() > until:
            break
    if not before:
        return None
    (nbytes, seconds), (small_bytes, small_seconds) = (map(sum, zip(*each, strict=True)) for each in (before, after))
    return SmallerPictures(
        pictures=len(before),
        side=side,
        bytes=int(nbytes),
        small_bytes=int(small_bytes),
        seconds=seconds,
        small_seconds=small_seconds,
    )


def _chosen(loader: ShardLoader, count: int) -> Iterator[_Picture]:
    """Pictures that are cropped, with the numbers of their places."""
    plan, recipe = loader.plan, loader.recipe
    cropped = [spec for spec in recipe.specs if spec.picture and isinstance(spec.image, Geometry)]
    if not cropped or not plan.samples:
        return
    positions = np.unique(np.linspace(0, plan.samples - 1, count).astype(np.int64))
    key = draws.key_of(plan.seed, 0, draws.Purpose.AUGMENT)
    rows = draws.uniforms(key, positions, DRAW_STEPS).tolist()
    reader, scratch = SampleReader(loader.dataset, recipe.read), Scratch()
    try:
        for encoded, row in zip(reader.read(plan.epoch(0).samples(positions), scratch), rows, strict=True):
            sample = encoded.parse()
            for spec in cropped:
                field = next((name for name in spec.alternatives if name in sample), None)
                if field is not None and isinstance(spec.image, Geometry):
                    yield _Picture(field, bytes(sample[field]), spec.image, row)
    finally:
        reader.close()


def _smaller(decoder: Decoder, picture: _Picture) -> _Picture:
    """The picture as a reshard would write it; as it is where it is small."""
    facts = read_facts(picture.data)
    check_size(facts, decoder.options.max_pixels)
    width, height = decoder.size(facts)
    scale = usual_side(picture.geometry.shape) / min(width, height)
    if scale >= 1:
        return picture
    size = max(1, round(height * scale)), max(1, round(width * scale))
    pixels = decoder.decode(picture.data, facts=facts, size=size)
    return picture._replace(data=encode_picture(pixels, picture.field, quality=_QUALITY))


def _costs(decoder: Decoder, picture: _Picture, smaller: _Picture) -> tuple[float, float]:
    """Of both, in turn: caches are as warm for the one as for the other."""
    out = np.empty((*picture.geometry.shape, 3), np.uint8)
    costs = [(_cost(decoder, picture, out), _cost(decoder, smaller, out)) for _ in range(_RUNS)]
    cost, small_cost = (min(each) for each in zip(*costs, strict=True))
    return cost, cost if smaller is picture else small_cost


def _cost(decoder: Decoder, picture: _Picture, out: Pixels) -> float:
    begun = time.thread_time()
    facts = read_facts(picture.data)
    box, flip = picture.geometry.place(*decoder.size(facts), picture.draws)
    decoder.decode(picture.data, facts=facts, box=box, size=picture.geometry.shape, flip=flip, out=out)
    return time.thread_time() - begun

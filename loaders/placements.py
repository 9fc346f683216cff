"""Where the pictures of a batch are cut: which samples, which box of each original, mirrored or not; nothing decoded.

An order is a function of (seed, epoch, position), and so are the crops: what a batch was made of can be asked again at
any time, from a key in a log or a loss that went wrong, by a process that never ran the training. Samples are read,
and of their pictures the headers alone.

What is told is the plan. A bad sample, which `on_error="skip"` replaces, is known by decoding only: its place is told
as planned where its header can be read, and the keys of the batch itself (`fields=(..., "__key__")`) say what came
instead. Such a substitute is cut by the numbers of the place that it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loaders import draws
from loaders.crops import DRAW_STEPS, Geometry, Mask
from loaders.fields import FieldSpec
from loaders.plan import share
from loaders.read import Encoded, SampleReader, Scratch
from loaders.recipe import Recipe
from loaders.selection import AnyPlan
from wds_tools.dataset import Dataset
from wds_tools.errors import ShardstreamError, UsageError
from wds_tools.pictures.decode import Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.sample import KEY, RawSample

__all__ = ["PlacedPicture", "PlacedSample", "placements"]


class PlacedPicture(NamedTuple):
    """One picture of a sample, and what is taken of it.

    Attributes:
        field: the field that it lies in, as "seg.png".
        width, height: pixels of the original, upright (its orientation applied).
        box: what is cut out, in pixels of the upright original; CenterCrop's may begin between two pixels. All of it
            where nothing is cut.
        flip: whether it is then mirrored left to right.
        size: (height, width) of the output.
    """

    field: str
    width: int
    height: int
    box: Box
    flip: bool
    size: tuple[int, int]


class PlacedSample(NamedTuple):
    """One sample of a batch.

    Attributes:
        position: its place in the epoch.
        sample: its number in the dataset, for `loaders.open(urls)[sample]`.
        key: its key.
        url: its shard.
        valid: False where tail="pad" repeats it.
        pictures: by name of the batch's column; empty where the batch has none.
    """

    position: int
    sample: int
    key: str
    url: str
    valid: bool
    pictures: Mapping[str, PlacedPicture]


def placements(
    dataset: Dataset, plan: AnyPlan, recipe: Recipe, *, epoch: int, batch: int, rank: int = 0, world_size: int = 1
) -> list[PlacedSample]:
    """What one batch of an epoch is made of; `ShardLoader.placements` calls it.

    Args:
        dataset: where the samples lie.
        plan: the order.
        recipe: what a batch holds.
        epoch: counted from 0.
        batch: counted from 0 at the epoch's start, in batches of the recipe's size.
        rank: whose batch.
        world_size: number of ranks.

    Returns:
        One for each sample, in the order of the batch.

    Raises:
        UsageError: no such epoch or batch.
        SampleError: a picture's header cannot be read, or a field is not there.
    """
    size = recipe.batch_size * world_size
    count = plan.batches(size)
    if not 0 <= batch < count:
        raise UsageError(f"batch is {batch}, expected 0 to {count - 1}", cure="Batches are counted from 0 in an epoch.")
    positions, valid = share(
        batch * size,
        samples=plan.samples,
        rank=rank,
        world_size=world_size,
        batch_size=recipe.batch_size,
        shuffle=plan.shuffle,
        tail=plan.tail,
    )
    key = draws.key_of(plan.seed, epoch, draws.Purpose.AUGMENT)
    rows = draws.uniforms(key, positions, DRAW_STEPS).tolist()
    numbers = plan.epoch(epoch).samples(positions)
    reader, decoder = SampleReader(dataset, recipe.read), Decoder(recipe.pictures)
    try:
        read = reader.read(numbers, Scratch())
        places = zip(positions.tolist(), numbers.tolist(), valid.tolist(), rows, strict=True)
        return [
            _placed(next(read), recipe, decoder, row, position=position, sample=sample, valid=good)
            for position, sample, good, row in places
        ]
    finally:
        reader.close()


def _placed(
    encoded: Encoded,
    recipe: Recipe,
    decoder: Decoder,
    row: Sequence[float],
    *,
    position: int,
    sample: int,
    valid: bool,
) -> PlacedSample:
    try:
        raw = encoded.parse()
        pictures = dict(_pictures(raw, recipe, decoder, row))
    except ShardstreamError as error:
        raise error.at(url=encoded.url, offset=encoded.offset) from error.__cause__
    return PlacedSample(position, sample, raw[KEY], encoded.url, valid, pictures)


def _pictures(
    raw: RawSample, recipe: Recipe, decoder: Decoder, row: Sequence[float]
) -> Iterator[tuple[str, PlacedPicture]]:
    for spec in recipe.specs:
        field = spec.find(raw) if spec.picture else None
        if field is None:
            continue
        try:
            width, height = decoder.size(read_facts(raw[field]))
        except ShardstreamError as error:
            raise error.at(key=raw[KEY], field=field) from error.__cause__
        yield spec.name, _picture(field, width, height, _geometry(spec, recipe), row)


def _geometry(spec: FieldSpec, recipe: Recipe) -> Geometry | None:
    """A mask is cut as the sample's other picture is."""
    return recipe.leader if isinstance(spec.image, Mask) else spec.image


def _picture(field: str, width: int, height: int, geometry: Geometry | None, row: Sequence[float]) -> PlacedPicture:
    box, flip = geometry.place(width, height, row) if geometry is not None else (None, False)
    size = geometry.shape if geometry is not None else (height, width)
    return PlacedPicture(field, width, height, box or Box(0, 0, width, height), flip, size)

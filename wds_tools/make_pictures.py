"""Make ImageNet-like JPEGs from the photographs in `wds_tools/photos`, as many as are asked for, without a download.

The demo learns from them and the benchmarks measure on them, so they must behave like the real thing: sizes, file
sizes, JPEG qualities, chroma subsampling and the odd grey or progressive file as known of ImageNet-1k's training set
(most pictures 500x375 or 375x500, mean 477x406, mean 107 KB, baseline 4:2:0), and real photographic detail below them.
What was reached, for 4,000 pictures of seed 0: see `benchmarks/README.md`.

A picture is a crop of one photograph, the busiest of six random places as people frame pictures, scaled down, half of
them mirrored, sharpened as photo sites do, with the sensor's grain that scaling took away. Picture i is of class
i mod classes, a class is a photograph, and the picture is a function of (seed, i) and the options only. So a smaller
count is a prefix of a larger one, and the work is spread over processes with the same bytes whatever their number.

`region="left"` crops from the left 62 % of each photograph and `"right"` from the right 36 %: training and validation
pictures that share no pixel.
"""

from __future__ import annotations

import functools
import io
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from wds_tools.cores import usable_cores
from wds_tools.errors import UsageError, counted

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["PHOTOS", "MadePictures", "Region", "make_pictures", "photographs", "render"]

Choice = TypeVar("Choice")
Region = Literal["all", "left", "right"]

PHOTOS = Path(__file__).parent / "photos"
REGIONS = {"all": (0.0, 1.0), "left": (0.0, 0.62), "right": (0.64, 1.0)}

SIZES = {
    (500, 375): 0.380,
    (375, 500): 0.100,
    (500, 333): 0.120,
    (333, 500): 0.040,
    (500, 400): 0.010,
    (400, 500): 0.010,
    (500, 500): 0.020,
    (640, 480): 0.040,
    (800, 600): 0.020,
    (1024, 768): 0.013,
    (1600, 1200): 0.007,
}
"""The shares of the common sizes; of the rest, 0.14 are 500 long and any width, and 0.10 small web pictures."""
ANY_WIDTH = 0.14
QUALITIES = {90: 0.04, 91: 0.03, 92: 0.06, 93: 0.07, 94: 0.15, 95: 0.30, 96: 0.35}
SUBSAMPLING = {2: 0.93, 0: 0.05, 1: 0.02}
"""Pillow's numbers: 2 is 4:2:0, 0 is 4:4:4, 1 is 4:2:2."""
GREY, PROGRESSIVE = 0.015, 0.01
GRAIN = 2.5
"""Spread of the sensor noise in grey levels, tuned so that the mean file is 107 KB."""
CHUNK = 25
"""Pictures a task of a worker process: about a second of work, so the bar moves and the processes end together."""


@dataclass(frozen=True, kw_only=True)
class MadePictures:
    """What was made: how many, their bytes, and their mean width and height in pixels."""

    count: int
    bytes: int
    mean_width: float
    mean_height: float


@dataclass(frozen=True, kw_only=True)
class _Order:
    """All that decides the pictures' bytes, sent to the worker processes."""

    folder: Path
    count: int
    seed: int
    classes: int
    region: Region
    scale: float


class _Facts(NamedTuple):
    bytes: int
    width: int
    height: int


def make_pictures(
    folder: str | os.PathLike[str],
    *,
    count: int,
    seed: int = 0,
    classes: int = 24,
    region: Region = "all",
    scale: float = 1.0,
    jobs: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> MadePictures:
    """Write `count` JPEGs as `folder`/CLASS/NUMBER.jpg, CLASS being the animal's name.

    Args:
        folder: made when missing; files of the same name are overwritten.
        count: pictures in all, dealt to the classes in turn.
        seed: another seed gives other pictures.
        classes: how many of the photographs to use, in the order of their names.
        region: the part of each photograph to crop from.
        scale: of the pictures' sides; 0.5 makes them a quarter of the bytes and of the work.
        jobs: worker processes, by default as many as the CPUs this process may use. The bytes do not depend on it.
        advance: called with the number of pictures made since the last call.

    Raises:
        UsageError: numbers that make no sense, or more classes than photographs.
    """
    order = _Order(folder=Path(folder), count=count, seed=seed, classes=classes, region=region, scale=scale)
    _check(order)
    for name in photographs()[:classes]:
        (order.folder / name).mkdir(parents=True, exist_ok=True)
    chunks = [range(begin, min(begin + CHUNK, count)) for begin in range(0, count, CHUNK)]
    jobs = min(jobs or usable_cores(), len(chunks))
    facts: list[_Facts] = []
    for made in _make_all(order, chunks, jobs):
        facts += made
        advance(len(made))
    return MadePictures(
        count=count,
        bytes=sum(fact.bytes for fact in facts),
        mean_width=sum(fact.width for fact in facts) / count,
        mean_height=sum(fact.height for fact in facts) / count,
    )


def photographs() -> list[str]:
    """The names of the photographs, which are those of the classes, sorted."""
    return sorted(path.stem for path in PHOTOS.glob("*.jpg"))


def render(index: int, *, seed: int, classes: int = 24, region: Region = "all", scale: float = 1.0) -> bytes:
    """The JPEG bytes of picture `index`: a function of the arguments only."""
    order = _Order(folder=Path(), count=index + 1, seed=seed, classes=classes, region=region, scale=scale)
    return _encode(order, index)[0]


def _check(order: _Order) -> None:
    known = len(photographs())
    if not 1 <= order.classes <= known:
        raise UsageError(
            f"{counted(order.classes, 'class', 'classes')} asked for",
            cure=f"There are photographs for 1 to {known} classes.",
        )
    if order.count < 1 or not 0.05 <= order.scale <= 4:
        raise UsageError(
            f"{counted(order.count, 'picture')} at scale {order.scale} asked for",
            cure="Ask for at least one picture, at a scale of 0.05 to 4.",
        )
    if order.region not in REGIONS:
        raise UsageError(f"region is {order.region!r}", cure=f"Use one of {', '.join(REGIONS)}.")


def _make_all(order: _Order, chunks: list[range], jobs: int) -> Iterator[list[_Facts]]:
    if jobs == 1:
        for chunk in chunks:
            yield _make_some(order, chunk)
        return
    # Spawned, since forking a process with threads (torch's, rich's) is a deadlock that comes once a month.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        for future in as_completed([pool.submit(_make_some, order, chunk) for chunk in chunks]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _make_some(order: _Order, indices: range) -> list[_Facts]:
    names = photographs()
    facts = []
    for index in indices:
        data, (width, height) = _encode(order, index)
        (order.folder / names[index % order.classes] / f"{index:06d}.jpg").write_bytes(data)
        facts.append(_Facts(len(data), width, height))
    return facts


def _encode(order: _Order, index: int) -> tuple[bytes, tuple[int, int]]:
    random = np.random.default_rng([order.seed, index])
    size = _pick_size(random, order.scale)
    quality = _pick(random, QUALITIES)
    subsampling = _pick(random, SUBSAMPLING)
    grey, progressive = random.random() < GREY, random.random() < PROGRESSIVE
    picture = _draw(_photograph(photographs()[index % order.classes]), size, REGIONS[order.region], random)
    if grey:
        picture, subsampling = picture.convert("L"), -1
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
    return file.getvalue(), picture.size


@functools.cache
def _photograph(name: str) -> Image:
    from PIL import Image

    with Image.open(PHOTOS / f"{name}.jpg") as file:  # 24 of them stay open at 1.8 MB each
        return file.convert("RGB")


def _pick(random: np.random.Generator, shares: dict[Choice, float]) -> Choice:
    edge, u = 0.0, random.random() * sum(shares.values())
    for value, share in shares.items():
        edge += share
        if u < edge:
            return value
    return value


def _pick_size(random: np.random.Generator, scale: float) -> tuple[int, int]:
    width, height = _size_at_full_scale(random)
    return max(8, round(width * scale)), max(8, round(height * scale))


def _size_at_full_scale(random: np.random.Generator) -> tuple[int, int]:
    u, common = random.random(), sum(SIZES.values())
    if u < common:
        return _pick(random, SIZES)
    if u < common + ANY_WIDTH:
        short = int(random.integers(270, 500))
        return (500, short) if random.random() < 0.7 else (short, 500)
    long = int(np.clip(np.exp(random.normal(np.log(320), 0.35)), 110, 499))
    short = int(long * random.uniform(0.6, 1.0))
    return (long, short) if random.random() < 0.65 else (short, long)


def _draw(photo: Image, size: tuple[int, int], part: tuple[float, float], random: np.random.Generator) -> Image:
    from PIL import Image, ImageFilter

    left, right = int(photo.width * part[0]), int(photo.width * part[1])
    size, room = _fit(size, right - left, photo.height)
    down = min(math.exp(random.uniform(math.log(1.3), math.log(5.0))), room)  # by how much the crop is scaled down
    crop = size[0] * down, size[1] * down
    boxes = [_place(crop, (left, right), photo.height, random) for _ in range(6)]
    box = max(boxes, key=lambda box: _detail(photo, box))
    picture = photo.resize(size, Image.Resampling.LANCZOS, box=box)
    if random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    picture = picture.filter(ImageFilter.UnsharpMask(0.8, int(random.integers(30, 90)), 2))
    return _with_grain(picture, random)


def _fit(size: tuple[int, int], width: int, height: int) -> tuple[tuple[int, int], float]:
    """The size, smaller where the photograph is too small for it, and how often it goes into the photograph."""
    room = min(width / size[0], height / size[1])
    if room < 1:
        size = int(size[0] * room), int(size[1] * room)
        room = min(width / size[0], height / size[1])
    return size, room


def _place(
    crop: tuple[float, float], columns: tuple[int, int], height: int, random: np.random.Generator
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a crop somewhere in these columns."""
    x = columns[0] + random.random() * max(0.0, columns[1] - columns[0] - crop[0])
    y = random.random() * max(0.0, height - crop[1])
    return x, y, min(x + crop[0], columns[1]), min(y + crop[1], height)


def _detail(photo: Image, box: tuple[float, float, float, float]) -> float:
    from PIL import Image

    small = photo.resize((48, 36), Image.Resampling.BILINEAR, box=box, reducing_gap=1.0).convert("L")
    grey = np.asarray(small, np.float32)
    return float(np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean())


def _with_grain(picture: Image, random: np.random.Generator) -> Image:
    from PIL import Image

    spread = abs(float(random.normal(0, GRAIN)))
    if spread <= 0.3:
        return picture
    pixels = np.asarray(picture, np.float32)
    noise = random.standard_normal(pixels.shape[:2], np.float32)[..., None] * np.float32(spread)
    noise = noise + random.standard_normal(pixels.shape, np.float32) * np.float32(spread * 0.5)
    return Image.fromarray(np.clip(pixels + noise + 0.5, 0, 255).astype(np.uint8))

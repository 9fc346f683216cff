"""What each picture format costs on one's own pictures: bytes, error, and time to write and to read.

How it is measured:

- The originals are decoded to RGB (and resized, where that is asked for): these pixels are the truth that a format is
  held against. Where they come from JPEGs at their own size, the truth has that JPEG's blocks in it, which a JPEG keeps
  more easily than others do; `resize` to a half or less takes them away.
- PSNR is the mean over the pictures of 10 log10(255^2 / mean square error over all channels); None where every picture
  comes back exactly.
- Time is the processor time of the process, so that neither other programs nor codecs with threads of their own change
  what is told; rates are pictures per second of one core. Picture by picture all formats take their turn, in the other
  direction for every second picture, so that a machine that slows down does so for all. Of a step that is repeated the
  median counts; one that takes long (AVIF) is repeated less.
- Three ways to read: `decode` is what the loaders do for the whole picture, `crop` what they do for a random crop (a
  part of half the area, in the middle, at 224 x 224: a JPEG is then decoded at a reduced scale and only as far as the
  part goes), `pillow` is `Image.open(...).convert("RGB")`, as most programs do it.
"""

from __future__ import annotations

import io
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from wds_tools.codec import encode_field, kind_of
from wds_tools.errors import SampleError, UnsupportedPictureError, UsageError
from wds_tools.fields.arrays import decode_npy
from wds_tools.pictures.compress import FORMATS, check_encoder, compress
from wds_tools.pictures.decode import BACKEND, Box, Decoder
from wds_tools.pictures.facts import read_facts
from wds_tools.pictures.kernel import Kernel, capability

__all__ = ["QUALITIES", "CodecBench", "CodecRow", "bench_codecs", "picture_files"]

Pixels = npt.NDArray[np.uint8]
Result = TypeVar("Result")

QUALITIES: Mapping[str, tuple[int | None, ...]] = {
    "jpg": (75, 85, 90, 95),
    "webp": (75, 87, 95),
    "avif": (60, 76, 90),
    "jxl": (75, 90, 95),
    "png": (None,),
    "npy": (None,),
}
"""What is tried where nothing else is said; the middle ones come out about alike."""

AS_THEY_ARE = "as is"
CROP = 224
ENOUGH_SECONDS = 0.1
"""A step that has taken so long altogether is not repeated."""


@dataclass(frozen=True, kw_only=True)
class CodecRow:
    """One format at one quality, all pictures together.

    Attributes:
        form: the format, or "as is" for the files as they came.
        quality: None where nothing is lost, or nobody knows.
        bytes: of a picture, on average.
        bits_per_pixel: of all pictures together.
        psnr: decibels; None where every picture comes back exactly, or where there is nothing to compare.
        encode: pictures per second of one core; None for files as they came.
        decode: the same, the whole picture by our decoder.
        crop: the same, a part of it at 224 x 224; None for npy, which is copied.
        pillow: the same, the whole picture by Pillow alone; None for npy.
    """

    form: str
    quality: int | None
    bytes: float
    bits_per_pixel: float
    psnr: float | None
    encode: float | None
    decode: float
    crop: float | None
    pillow: float | None


@dataclass(frozen=True, kw_only=True)
class CodecBench:
    """What came out.

    Attributes:
        pictures: how many were measured.
        mean_width: in pixels, after resizing.
        mean_height: in pixels, after resizing.
        resize: the shorter side asked for, or None.
        backend: what decoded, as reports of the loaders call it.
        rows: in the order of the formats.
        unavailable: format to what is missing for it.
        failed: file to why it could not be read.
    """

    pictures: int
    mean_width: float
    mean_height: float
    resize: int | None
    backend: str
    rows: Sequence[CodecRow]
    unavailable: Mapping[str, str]
    failed: Mapping[str, str]


def picture_files(sources: Iterable[Path], *, most: int) -> list[Path]:
    """Picture files, those of folders at any depth, in the order of their names; of more than `most` an even choice.

    Raises:
        UsageError: there are none.
    """
    found = sorted({path for source in sources for path in _files(source)})
    if not found:
        raise UsageError(
            "no pictures there", cure="Name pictures, or folders that hold some; jpg, png, webp and so on."
        )
    step = max(1.0, len(found) / most)
    return [found[int(place * step)] for place in range(min(most, len(found)))]


def _files(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for path in source.rglob("*"):
        if kind_of(path.suffix[1:].lower()) == "picture" and path.is_file() and not path.name.startswith("."):
            yield path


def bench_codecs(
    files: Sequence[Path],
    *,
    qualities: Mapping[str, Sequence[int | None]] = QUALITIES,
    resize: int | None = None,
    rounds: int = 5,
    advance: Callable[[int], object] = lambda _: None,
) -> CodecBench:
    """Measure formats on pictures.

    Args:
        files: the pictures.
        qualities: for each format ("jpg", "webp", "avif", "jxl", "png", "npy") those to try.
        resize: the shorter side to resize to before, never up.
        rounds: how often each step is taken, at most.
        advance: called with 1 after each picture.

    Raises:
        UsageError: no picture could be read, or a format that is none.
    """
    _check(qualities, rounds)
    unavailable = _unavailable(qualities)
    wanted = [(form, quality) for form in qualities if form not in unavailable for quality in qualities[form]]
    run = _Run(wanted, resize, rounds)
    for path in files:
        try:
            run.measure(path.read_bytes())
        except (SampleError, OSError) as error:
            run.failed[str(path)] = str(error)
        advance(1)
    if not run.sizes:
        raise UsageError(f"none of {len(files)} pictures can be read", cure=next(iter(run.failed.values()), None))
    return CodecBench(
        pictures=len(run.sizes),
        mean_width=statistics.mean(width for width, _ in run.sizes),
        mean_height=statistics.mean(height for _, height in run.sizes),
        resize=resize,
        backend=BACKEND,
        rows=run.rows(),
        unavailable=unavailable,
        failed=run.failed,
    )


def _check(qualities: Mapping[str, Sequence[int | None]], rounds: int) -> None:
    if unknown := sorted(set(qualities) - set(QUALITIES)):
        raise UsageError(f"{unknown[0]!r} is none of the formats {', '.join(QUALITIES)}")
    if rounds < 1:
        raise UsageError(f"rounds is {rounds}, expected 1 or more")


def _unavailable(forms: Iterable[str]) -> dict[str, str]:
    missing = {}
    for form in set(forms) & set(FORMATS):
        try:
            check_encoder(form)
        except UnsupportedPictureError as error:
            missing[form] = str(error)
    return missing


@dataclass
class _Total:
    """What one format took for the pictures so far: bytes, seconds by step, decibels."""

    bytes: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    decibels: list[float] = field(default_factory=list)


class _Run:
    """The totals of one measurement."""

    def __init__(self, wanted: Sequence[tuple[str, int | None]], resize: int | None, rounds: int) -> None:
        whole = [] if resize is not None else [(AS_THEY_ARE, None)]
        self._totals: dict[tuple[str, int | None], _Total] = {key: _Total() for key in [*whole, *wanted]}
        self._resize = resize
        self._rounds = rounds
        self._decoder = Decoder()
        self._kernel = Kernel() if capability().jpeg else None
        self.sizes: list[tuple[int, int]] = []
        self.failed: dict[str, str] = {}

    def measure(self, data: bytes) -> None:
        """Add one picture to all totals."""
        facts = read_facts(data)
        width, height = self._decoder.size(facts)
        scale = min(1.0, (self._resize or math.inf) / min(width, height))
        shape = (max(1, round(height * scale)), max(1, round(width * scale)))
        pixels = self._decoder.decode(data, facts=facts, size=shape)
        taken = {key: self._one(key, pixels, data) for key in list(self._totals)[:: 1 - 2 * (len(self.sizes) % 2)]}
        for key, (size, seconds, decibels) in taken.items():  # a picture that some format cannot hold counts for none
            total = self._totals[key]
            total.bytes += size
            total.seconds.update(seconds)
            total.decibels.append(decibels)
        self.sizes.append((shape[1], shape[0]))

    def _one(self, key: tuple[str, int | None], pixels: Pixels, data: bytes) -> tuple[int, dict[str, float], float]:
        form, quality = key
        seconds: dict[str, float] = {}
        if form == AS_THEY_ARE:
            made = data
        else:
            seconds["encode"], made = self._timed(lambda: self._encoded(pixels, form, quality))
        if form == "npy":
            seconds["decode"], decoded = self._timed(lambda: decode_npy(made))
            return len(made), seconds, _psnr(pixels, decoded)
        seconds["decode"], decoded = self._timed(lambda: self._decoder.decode(made))
        seconds["crop"], _ = self._timed(lambda: self._crop(made, pixels.shape[1], pixels.shape[0]))
        seconds["pillow"], _ = self._timed(lambda: _by_pillow(made))
        return len(made), seconds, _psnr(pixels, decoded)

    def _encoded(self, pixels: Pixels, form: str, quality: int | None) -> bytes:
        if form == "npy":
            return encode_field("npy", pixels)
        return compress(pixels, form, quality=quality, kernel=self._kernel)

    def _crop(self, made: bytes, width: int, height: int) -> Pixels:
        part = math.sqrt(0.5)
        box = Box(width * (1 - part) / 2, height * (1 - part) / 2, width * part, height * part)
        return self._decoder.decode(made, box=box, size=(CROP, CROP))

    def _timed(self, step: Callable[[], Result]) -> tuple[float, Result]:
        """The median of the processor time that a step takes, and what it gives."""
        taken: list[float] = []
        while True:
            began = time.process_time()
            result = step()
            taken.append(time.process_time() - began)
            if len(taken) >= self._rounds or sum(taken) >= ENOUGH_SECONDS:
                return statistics.median(taken), result

    def rows(self) -> list[CodecRow]:
        """The totals as rates and means."""
        count, pixels = len(self.sizes), sum(width * height for width, height in self.sizes)
        return [_row(key, total, count, pixels) for key, total in self._totals.items()]


def _row(key: tuple[str, int | None], total: _Total, count: int, pixels: int) -> CodecRow:
    form, quality = key

    def rate(step: str) -> float | None:
        return count / max(total.seconds[step], 1e-9) if step in total.seconds else None

    lossy = [value for value in total.decibels if not math.isinf(value)]
    return CodecRow(
        form=form,
        quality=quality,
        bytes=total.bytes / count,
        bits_per_pixel=8 * total.bytes / pixels,
        psnr=statistics.mean(lossy) if lossy and form != AS_THEY_ARE else None,
        encode=rate("encode"),
        decode=rate("decode") or 0.0,
        crop=rate("crop"),
        pillow=rate("pillow"),
    )


def _by_pillow(data: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _psnr(truth: Pixels, decoded: Pixels) -> float:
    error = float(np.mean(np.square(truth.astype(np.float32) - decoded)))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)

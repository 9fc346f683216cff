"""One picture, by Pillow and by each of our backends, each in a child of its own: is it the same, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tests.odd_pictures import wanted
from tests.odd_pictures.chunk import ByTheChunk
from tests.odd_pictures.contained import Ended, contained
from wds_tools.errors import PictureError
from wds_tools.pictures.decode import BACKENDS, Box, Decoder
from wds_tools.pictures.kernel import capability
from wds_tools.pictures.options import Pictures

__all__ = ["OUTCOMES", "SAME", "Outcome", "Verdict", "decoders", "difference", "judged"]

Outcome: TypeAlias = Literal["same", "both refuse", "we refuse", "we read", "differs", "broke"]
OUTCOMES: dict[Outcome, str] = {
    "same": "the picture that Pillow makes",
    "both refuse": "a named error, where Pillow fails too",
    "we refuse": "a named error, where Pillow makes a picture",
    "we read": "a picture, where Pillow fails",
    "differs": "another picture than Pillow's",
    "broke": "another exception, a crash, or out of time or memory",
}

SAME = 2
"""Grey levels in which decoders may differ, as two builds of libjpeg-turbo and our resampler and Pillow's do."""

Pixels = npt.NDArray[np.uint8]


def decoders() -> dict[str, Callable[[], Decoder]]:
    """All that this installation has, by name; each makes one."""
    found: dict[str, Callable[[], Decoder]] = {name: partial(Decoder, backend=name) for name in BACKENDS}
    if capability().jpeg:
        found["kernel by the chunk"] = ByTheChunk
    if capability().huffman:
        found["kernel without Huffman"] = partial(Decoder, Pictures(huffman=False), "kernel")
    return found


class Verdict(NamedTuple):
    """What became of one picture.

    Attributes:
        outcome: see `OUTCOMES`.
        why: the error or the difference, in words; "" where there is none.
    """

    outcome: Outcome
    why: str = ""


def judged(path: Path, folder: Path, by: Mapping[str, Callable[[], Decoder]]) -> dict[str, Verdict]:
    """Decode a picture whole and in parts by each decoder.

    Args:
        path: the picture. Its name decides the parts.
        folder: for files that pass from child to child; they are removed.
        by: each makes a decoder, in its child.

    Returns:
        A verdict for each decoder.
    """
    data = path.read_bytes()
    asked = contained(lambda: _by_pillow(data, path.name, folder))
    try:
        return {name: _verdict(contained(_trial(data, path.name, make, folder)), asked) for name, make in by.items()}
    finally:
        for file in folder.glob("*.npy"):
            file.unlink()


def _by_pillow(data: bytes, name: str, folder: Path) -> dict[str, Any]:
    """Pillow's pictures, into files."""
    pixels = wanted.whole(data)
    np.save(folder / "whole.npy", pixels)
    for number, part in enumerate(wanted.parts(name, pixels.shape[1], pixels.shape[0])):
        np.save(folder / f"{number}.npy", wanted.made(data, part))
    return {}


def _trial(data: bytes, name: str, make: Callable[[], Decoder], folder: Path) -> Callable[[], dict[str, Any]]:
    def work() -> dict[str, Any]:
        decoder = make()
        try:
            pixels = decoder.decode(data)
        except PictureError as error:
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"apart": _apart(pixels, decoder, data, name, folder) if (folder / "whole.npy").exists() else ""}

    return work


def _apart(pixels: Pixels, decoder: Decoder, data: bytes, name: str, folder: Path) -> str:
    """In what our pictures differ from Pillow's; "" where in nothing."""
    found = [("the whole", difference(pixels, np.load(folder / "whole.npy")))]
    height, width = pixels.shape[:2]
    for number, part in enumerate(wanted.parts(name, width, height)) if not found[0][1] else ():
        box = Box(part.left, part.top, part.width, part.height)
        found.append(
            (str(part), difference(decoder.decode(data, box=box, size=part.size), np.load(folder / f"{number}.npy")))
        )
    return next((f"{what}: {words}" for what, words in found if words), "")


def difference(ours: Pixels, other: Pixels) -> str:
    """How far two pictures are apart, in words; "" where they are the same within the tolerance."""
    if ours.shape != other.shape:
        return f"{ours.shape[1]} x {ours.shape[0]} instead of {other.shape[1]} x {other.shape[0]} pixels"
    apart = np.abs(ours.astype(np.int16) - other)
    if apart.max() <= SAME:
        return ""
    share = (apart.max(-1) > SAME).mean()
    return f"{share:.2%} of the pixels, by up to {apart.max()} levels, {apart.mean():.2f} in the mean"


def _verdict(ours: Ended, pillows: Ended) -> Verdict:
    if ours.trouble:
        return Verdict("broke", ours.trouble)
    if "refused" in ours.value:
        return Verdict("both refuse" if pillows.trouble else "we refuse", ours.value["refused"])
    if pillows.trouble:
        return Verdict("we read", pillows.trouble)
    return Verdict("differs", ours.value["apart"]) if ours.value["apart"] else Verdict("same")

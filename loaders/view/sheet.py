"""A contact sheet: thumbnails in a grid with their classes and keys, as a PNG made by Pillow alone.

Letters are those of the font in Pillow's own package, the same on every machine, which has those of ASCII. For a
caption with others a font of the system is taken where there is one that Pillow finds; without one accents are left
out, and what then remains are boxes.
"""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from loaders.view.viewer import Seen
from wds_tools.errors import counted
from wds_tools.show.thumbnail import Thumbnail

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

__all__ = ["sheet"]

_GAP, _MARGIN, _HEAD, _CAPTION = 14, 24, 46, 42
_PAGE, _CELL, _INK, _SOFT, _WRONG = "#f6f7f9", "#e7eaee", "#1b1f24", "#5c6670", "#b3261e"
_FONTS = ("NotoSansCJK-Regular.ttc", "NotoSans-Regular.ttf", "DejaVuSans.ttf", "Arial Unicode.ttf")
_RATIO = 1.5  # width to height of the whole


def sheet(title: str, shown: Sequence[Seen], *, side: int, columns: int | None = None) -> bytes:
    """The PNG.

    Args:
        title: for the head line.
        shown: the samples, row by row.
        side: pixels of a cell; thumbnails are no larger, and smaller ones are not enlarged beyond whole multiples.
        columns: cells in a row; by default so many that the sheet is half again as wide as high.
    """
    from PIL import Image, ImageDraw

    across = columns or max(1, min(len(shown), round(math.sqrt(max(1, len(shown)) * _RATIO * (side + 50) / side))))
    down = math.ceil(len(shown) / across)
    width = max(360, 2 * _MARGIN + across * side + (across - 1) * _GAP)
    height = _HEAD + _MARGIN + down * (side + _CAPTION + _GAP)
    image = Image.new("RGB", (width, height), _PAGE)
    draw = ImageDraw.Draw(image)
    note = f"  {counted(len(shown), 'sample')}"
    _write(draw, (_MARGIN, 14), _Line(title, 18, _INK, bold=True), width - 2 * _MARGIN - 120)
    _write(draw, (width - _MARGIN - _length(draw, note, 13), 18), _Line(note, 13, _SOFT), 200)
    for at, seen in enumerate(shown):
        place = _MARGIN + at % across * (side + _GAP), _HEAD + at // across * (side + _CAPTION + _GAP)
        _cell(image, draw, seen, place, side)
    target = io.BytesIO()
    image.save(target, "PNG", optimize=True)
    return target.getvalue()


def _cell(image: Image.Image, draw: ImageDraw.ImageDraw, seen: Seen, place: tuple[int, int], side: int) -> None:
    left, top = place
    wrong = next((problem for _, problem in seen.faults), "")
    draw.rounded_rectangle((left, top, left + side - 1, top + side - 1), 6, fill=_CELL)
    small = seen.thumbnail
    if small is not None:
        picture = _opened(small, side)
        image.paste(picture, (left + (side - picture.width) // 2, top + (side - picture.height) // 2))
    else:
        text = wrong or next((value.summary for value in seen.values.values()), "no fields")
        _paragraph(draw, (left + 10, top + 10), text, side - 20, _WRONG if wrong else _SOFT)
    if wrong:
        draw.rounded_rectangle((left, top, left + side - 1, top + side - 1), 6, outline=_WRONG, width=2)
    first = seen.caption or (seen.key if not wrong else "broken")
    _write(draw, (left + 1, top + side + 5), _Line(first, 13, _WRONG if wrong else _INK, bold=True), side)
    second = seen.key if seen.caption or wrong else f"{seen.number:,}"
    _write(draw, (left + 1, top + side + 22), _Line(second or f"sample {seen.number:,}", 12, _SOFT), side)


def _opened(small: Thumbnail, side: int) -> Image.Image:
    from PIL import Image

    picture = Image.open(io.BytesIO(small.data)).convert("RGB")
    times = side // max(picture.size) if small.exact else 1
    if times > 1:
        picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    if max(picture.size) > side:
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return picture


def _paragraph(draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, width: int, ink: str) -> None:
    left, top = place
    line, lines = "", []
    for word in text.split():
        wider = f"{line} {word}".strip()
        if line and _length(draw, wider, 12) > width:
            lines.append(line)
            wider = word
        line = wider
    for at, each in enumerate([*lines, line][:8]):
        _write(draw, (left, top + 16 * at), _Line(each, 12, ink), width)


class _Line(NamedTuple):
    text: str
    points: int
    ink: str
    bold: bool = False


def _write(draw: ImageDraw.ImageDraw, place: tuple[float, float], line: _Line, width: float) -> None:
    """One line, cut with dots where it is wider."""
    text = _drawable("".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line.text[:400]))
    if _length(draw, text, line.points) > width:
        while text and _length(draw, text + "…", line.points) > width:
            text = text[:-1]
        text += "…"
    font = _font(line.points, _plain(text))
    for shift in (0, 0.4) if line.bold else (0,):  # the font has no bold letters
        draw.text((place[0] + shift, place[1]), text, fill=line.ink, font=font)


def _length(draw: ImageDraw.ImageDraw, text: str, points: int) -> float:
    return float(draw.textlength(text, font=_font(points, _plain(text))))


def _plain(text: str) -> bool:
    return all(sign.isascii() or sign == "…" for sign in text)


def _drawable(text: str) -> str:
    """The text, without the accents that no font here can draw."""
    if _plain(text) or _system_font() is not None:
        return text
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


@cache
def _system_font() -> str | None:
    """The first font of the system that is there."""
    from PIL import ImageFont

    for name in _FONTS:
        try:
            ImageFont.truetype(name, 12)
        except OSError:
            continue
        return name
    return None


@cache
def _font(points: int, plain: bool) -> Any:  # noqa: FBT001 - the key of a cache
    from PIL import ImageFont

    name = None if plain else _system_font()
    return ImageFont.load_default(points) if name is None else ImageFont.truetype(name, points)

"""The pieces of html that notebooks show for our objects (`_repr_html_`): a table, one sample, a grid of thumbnails.

Styles stand in the elements, in constants: a notebook is also read where no stylesheet of ours is let through. What is
shown of a large object is bounded, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wds_tools.show.markup import Markup, element, isolated, joined, table
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.values import Value
from wds_tools.show.words import size

__all__ = ["SIDE", "facts_html", "grid_html", "picture_html", "sample_html", "titled"]

SIDE = 160
"""Pixels of the longer side of a thumbnail in a notebook."""

_GRID = "display:flex;flex-wrap:wrap;gap:8px;margin:4px 0"
_CELL = "margin:0;width:128px;text-align:center;font-size:11px;line-height:1.3;overflow-wrap:anywhere"
_FRAME = "width:128px;height:128px;object-fit:contain;background:#8881;display:block"
_PIXELS = ";image-rendering:pixelated"
_LEFT = "text-align:left"
_TEXT = "text-align:left;white-space:pre-wrap;max-width:60em;max-height:16em;overflow:auto;margin:0"
_WRONG = "color:#b3261e"


def titled(title: str, *parts: str) -> Markup:
    """A heading line, and what belongs to it."""
    return element("div", element("div", element("strong", title)), *parts)


def facts_html(rows: Iterable[tuple[str, str]]) -> Markup:
    """A table of names and texts."""
    return table([(name, text if isinstance(text, Markup) else isolated(text)) for name, text in rows], has=_left())


def grid_html(cells: Sequence[tuple[Thumbnail | None, str]], *, of: int) -> Markup:
    """Thumbnails with their captions, and how many more there are.

    Args:
        cells: what to show; None in place of a picture shows the caption alone.
        of: how many there are altogether.
    """
    shown = [element("figure", _framed(small), element("figcaption", isolated(text)), has={"style": _CELL})
             for small, text in cells]  # fmt: skip
    rest = f"and {of - len(cells):,} more" if of > len(cells) else ""
    return element("div", element("div", *shown, has={"style": _GRID}), rest)


def picture_html(small: Thumbnail, *, alt: str = "") -> Markup:
    """One picture at its own size."""
    style = "image-rendering:pixelated" if small.exact else None
    return element(
        "img",
        has={"src": small.uri, "width": small.width, "height": small.height, "alt": alt, "style": style},
    )


def sample_html(values: Iterable[Value], *, title: str, place: str = "") -> Markup:
    """One sample: every field with its kind, bytes and value."""
    rows = [(isolated(each.name), each.kind, "" if each.bytes is None else size(each.bytes), _value(each))
            for each in values]  # fmt: skip
    return titled(title, isolated(place), table(rows, head=("field", "kind", "bytes", "value"), has=_left()))


def _value(value: Value) -> Markup:
    parts: list[str] = [picture_html(small, alt=value.name) for small in value.thumbnails]
    if value.text:
        parts.append(element("pre", value.text, has={"style": _TEXT}))
    else:
        parts.append(element("div", isolated(value.summary), has={"style": _LEFT}))
    if value.error:
        parts.append(element("div", isolated(value.error), has={"style": f"{_LEFT};{_WRONG}"}))
    return joined(parts)


def _framed(small: Thumbnail | None) -> Markup:
    if small is None:
        return element("div", has={"style": _FRAME})
    return element("img", has={"src": small.uri, "alt": "", "style": _FRAME + _PIXELS * small.exact})


def _left() -> dict[str, str]:
    return {"style": _LEFT}

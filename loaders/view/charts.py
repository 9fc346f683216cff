"""Charts as inline SVG: a histogram of classes, a scatter of picture sizes. Colours come from the page's stylesheet.

Positions are attributes and not styles, since the page's policy admits no style but the sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wds_tools.errors import counted
from wds_tools.show.markup import Attribute, Attributes, Markup, element, isolated, joined

__all__ = ["bars", "ranks", "scatter"]

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 10, 40
_DOT = 3
_MOST_BARS = 200  # of a chart of ranks: what a screen resolves


def bars(counts: Sequence[tuple[str, int]]) -> Markup:
    """A row for each class: its name, a bar, its samples."""
    most = max((count for _, count in counts), default=0) or 1
    rows = [element("tr", element("td", isolated(name)), element("td", _bar(count / most)),
                    element("td", f"{count:,}", has={"class": "n"})) for name, count in counts]  # fmt: skip
    return element("table", element("tbody", *rows), has={"class": "bars"})


def _bar(share: float) -> Markup:
    bar = element("rect", has={"width": f"{100 * share:.2f}", "height": 8, "rx": 1, "class": "mark"})
    return element(
        "svg", bar, has={"viewBox": "0 0 100 8", "preserveAspectRatio": "none", "class": "bar", "aria-hidden": "true"}
    )


def ranks(counts: Sequence[tuple[str, int]]) -> Markup:
    """Many classes: their samples from the most frequent class to the rarest. Several share a bar where there are many.

    The bar of several is as high as the mean of them, and its title names the first.
    """
    ordered = sorted(counts, key=lambda item: (-item[1], item[0]))
    step = math.ceil(len(ordered) / _MOST_BARS)
    groups = [ordered[at : at + step] for at in range(0, len(ordered), step)]
    high = _round_up(max(count for _, count in ordered))
    width = (_WIDTH - _LEFT - _RIGHT) / len(groups)
    drawn = []
    for at, group in enumerate(groups):
        mean = sum(count for _, count in group) / len(group)
        top = _y(mean, high)
        has: dict[str, Attribute] = {
            "x": f"{_LEFT + at * width:.2f}",
            "y": f"{top:.2f}",
            "width": f"{max(0.5, width - 0.5):.2f}",
        }
        has |= {"height": f"{_HEIGHT - _BOTTOM - top:.2f}", "class": "mark"}
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        drawn.append(element("rect", element("title", f"{group[0][0]}{more}: {mean:,.0f}"), has=has))
    label = f"{counted(len(ordered), 'class', 'classes')}, the most frequent first"
    return _chart("samples of each class", [*_lines(high), *drawn, _caption(label)])


def scatter(sizes: Sequence[tuple[int, int]]) -> Markup:
    """Pictures by width and height in pixels, a dot for each; darker where several lie on one another."""
    wide, high = (_round_up(max(size[axis] for size in sizes)) for axis in (0, 1))
    dots = []
    for width, height in sizes:
        has: Attributes = {"cx": f"{_x(width, wide):.1f}", "cy": f"{_y(height, high):.1f}", "r": _DOT, "class": "dot"}
        dots.append(element("circle", element("title", f"{width} x {height}"), has=has))
    return _chart(
        "sizes of pictures: width across, height up", [*_lines(high), *_ticks(wide), *dots, _caption("width x height")]
    )


def _chart(title: str, parts: Sequence[Markup]) -> Markup:
    has: Attributes = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "class": "chart", "role": "img", "aria-label": title}
    return element("svg", joined(parts), has=has)


def _lines(high: float) -> list[Markup]:
    """Horizontal lines with their values."""
    parts = []
    for at in range(5):
        value = high * at / 4
        y = f"{_y(value, high):.1f}"
        parts.append(element("line", has={"x1": _LEFT, "x2": _WIDTH - _RIGHT, "y1": y, "y2": y, "class": "grid"}))
        has: Attributes = {"x": _LEFT - 6, "y": y, "dy": "0.32em", "text-anchor": "end", "class": "tick"}
        parts.append(element("text", _short(value), has=has))
    return parts


def _ticks(wide: float) -> list[Markup]:
    y = _HEIGHT - _BOTTOM + 14
    return [
        element("text", _short(wide * at / 4), has={"x": f"{_x(wide * at / 4, wide):.1f}", "y": y, "class": "tick",
                                                    "text-anchor": "middle"})
        for at in range(5)
    ]  # fmt: skip


def _caption(text: str) -> Markup:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return element("text", text, has={"x": middle, "y": _HEIGHT - 8, "text-anchor": "middle", "class": "tick"})


def _x(value: float, wide: float) -> float:
    return _LEFT + value / wide * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, high: float) -> float:
    return _HEIGHT - _BOTTOM - value / high * (_HEIGHT - _TOP - _BOTTOM)


def _round_up(value: float) -> float:
    """The next number of 1, 2, 4, 6, 8 times a power of ten, a quarter of which is a good tick."""
    power = 10.0 ** math.floor(math.log10(max(value, 1)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}"

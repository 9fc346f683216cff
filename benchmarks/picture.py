"""The race as a picture for the README: horizontal bars, the limit as a line, how much of it each of them reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.table import Row

__all__ = ["draw"]

OURS_COLOUR, LIMIT_COLOUR, OTHERS_COLOUR, INK = "#1f6feb", "#57606a", "#b8c0cc", "#24292f"
LIGHTER = "#8db8f5"
"""Ours with a part left out."""
_GAP = 20
"""Pixels between a bar and its label, and behind that."""


def draw(rows: Sequence[Row], facts: Mapping[str, object], path: Path) -> None:
    """Draw those that ran, the fastest at the top; whiskers reach from the slowest round to the fastest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ran = sorted((row for row in rows if row.value is not None), key=lambda row: row.value or 0)
    with mpl.rc_context({"font.size": 9, "axes.edgecolor": INK, "text.color": INK, "svg.hashsalt": ""}):
        margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.06)  # inches; names and labels else touch the edges
        figure = Figure(figsize=(8.6, 0.36 * len(ran) + 1.1), layout=margins)
        axes = figure.add_subplot()
        axes.barh([row.who for row in ran], [row.value or 0 for row in ran], color=_colours(ran), height=0.72)
        labels = []
        for at, row in enumerate(ran):
            low, high = row.spread or (row.value or 0,) * 2
            axes.plot([low, high], [at, at], color=INK, linewidth=0.9, solid_capstyle="butt")
            share = "" if row.of_limit is None else f"  ({row.of_limit:.2f} of the limit)"
            label = axes.annotate(
                f"{row.value:,.0f}{share}",
                (high, at),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # over the line of the limit
            )
            labels.append((high, label))
        limit = next((row.value for row in ran if PEERS[row.who].limit), None)
        if limit is not None:
            axes.axvline(limit, color=LIMIT_COLOUR, linestyle=(0, (4, 3)), linewidth=1, zorder=0)
        axes.set_ylim(-0.6, len(ran) - 0.4)
        axes.set_xlabel(_conditions(facts))
        figure.suptitle(
            "pictures/s: JPEGs to random crops of 224x224, flipped, in uint8 batches of 64",
            x=0.01,
            ha="left",
            fontsize=10,
            fontweight="bold",
        )
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 2 * max(high for high, _ in labels))  # room for all, so that the axis is as wide as it will be
        figure.draw_without_rendering()  # how wide are names and labels?
        wide = axes.bbox.width
        axes.set_xlim(0, max(high * wide / (wide - label.get_window_extent().width - _GAP) for high, label in labels))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Software": None}, pil_kwargs={"optimize": True})


def _colours(rows: Sequence[Row]) -> list[str]:
    first = next((name for name, peer in PEERS.items() if peer.ours), None)
    return [
        LIMIT_COLOUR
        if PEERS[row.who].limit
        else OURS_COLOUR
        if row.who == first
        else LIGHTER
        if PEERS[row.who].ours
        else OTHERS_COLOUR
        for row in rows
    ]


def _conditions(facts: Mapping[str, object]) -> str:
    return (
        f"{facts['pictures']:,} JPEGs of {float(str(facts['mean_picture_bytes'])) / 1e3:.0f} KB, 2 cores of "
        f"{facts['cpu']},\n2 worker threads or processes each; medians of {facts['rounds']} rounds in turn"
    )

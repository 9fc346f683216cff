"""A picture of a run: samples a second, and finished batches that waited, over time. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loaders.plot import check_plot
from loaders.trace import Event, Trace
from wds_tools.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_timeline"]

_RATE, _QUEUE, _WAIT = "#1f5fa8", "#d9822b", "#b03a2e"
_STRETCHES = 100
_FEWEST = 3
_FINEST_S = 0.25

Floats = npt.NDArray[np.float64]


def draw_timeline(path: Path, trace: Trace, *, title: str, prefetch: int) -> None:
    """Draw a recorded run to a file: above what the consumer got, below how many finished batches waited for it.

    Args:
        path: its suffix says the format.
        trace: what was recorded.
        title: stands above.
        prefetch: the most batches that can wait.

    Raises:
        UsageError: as `plot.check_plot`; nothing was recorded.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    waits = [event for event in trace.events if event.what == "wait"]
    if len(waits) < _FEWEST:
        raise UsageError(f"{len(waits)} batches are too few for a plot over time", cure="Record a longer run.")
    begun, ended = waits[0].span.ended, waits[-1].span.ended
    edges = np.linspace(begun, ended, max(2, min(_STRETCHES, int((ended - begun) / _FINEST_S))) + 1)
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    rate, queue = figure.subplots(2, 1, sharex=True)
    figure.suptitle(title)
    _rate(rate, waits, edges)
    _queue(queue, trace, waits, edges, prefetch)
    figure.savefig(path, dpi=90)


def _rate(axes: Axes, waits: Sequence[Event], edges: Floats) -> None:
    """What came in each stretch. A batch counts where it was made: over the time since the one before it."""
    ends = np.array([event.span.ended for event in waits])
    samples = np.cumsum([0, *(event.samples for event in waits[1:])])
    rates = np.diff(np.interp(edges, ends, samples)) / np.diff(edges)
    mean = samples[-1] / (ends[-1] - ends[0])
    axes.plot(_middles(edges), rates, color=_RATE)
    axes.axhline(mean, color=_RATE, linewidth=0.8, linestyle="--", label=f"mean {mean:,.0f}")
    axes.set(ylabel="samples a second", ylim=(0, 1.1 * float(rates.max())))
    axes.legend(loc="lower right")


def _queue(axes: Axes, trace: Trace, waits: Sequence[Event], edges: Floats, prefetch: int) -> None:
    axes.plot(_middles(edges), _mean_queue(trace.queue(), edges), color=_QUEUE, label="finished batches that wait")
    axes.set(ylabel="batches", ylim=(0, prefetch * 1.05), xlabel="seconds since the first batch")
    share = axes.twinx()
    waited = 100 * _covered(waits, edges)
    share.fill_between(_middles(edges), waited, color=_WAIT, alpha=0.25, linewidth=0, label="the consumer waits")
    share.set(ylabel="% of the time", ylim=(0, 105))
    handles = [handle for each in (axes, share) for handle in each.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, loc="upper right")


def _middles(edges: Floats) -> Floats:
    middles: Floats = (edges[:-1] + edges[1:]) / 2 - edges[0]
    return middles


def _mean_queue(steps: Sequence[tuple[float, int]], edges: Floats) -> Floats:
    """The mean over each stretch of a number that changes in steps."""
    moments, values = np.array(steps, dtype=np.float64).T
    area = np.cumsum([0.0, *(values[:-1] * np.diff(moments))])
    means: Floats = np.diff(np.interp(edges, moments, area)) / np.diff(edges)
    return means


def _covered(waits: Sequence[Event], edges: Floats) -> Floats:
    """The part of each stretch in which the consumer waited."""
    moments = np.array([moment for event in waits for moment in event.span])
    spent = np.cumsum(np.diff(moments, prepend=moments[0]) * (np.arange(len(moments)) % 2))
    parts: Floats = np.diff(np.interp(edges, moments, spent)) / np.diff(edges)
    return parts

"""A picture of an order beside a perfect shuffle: where the samples of each place come from, and how mixed batches are.

matplotlib is imported when a picture is drawn, and needed for nothing else: the extra `plot`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loaders.line import Ints
from loaders.quality import Batches, distinct
from wds_tools.errors import UsageError
from wds_tools.permutation import permutation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_plot", "draw"]

_DOTS = 20_000
_OURS, _PERFECT = "#1f5fa8", "#d9822b"


def check_plot(path: Path) -> None:
    """See that a picture can be drawn to this file, before the work for it is done.

    Raises:
        UsageError: matplotlib is missing, it cannot draw files of this kind, or the folder is not there.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{str(path.parent)!r}, where {path.name!r} would be written, is no folder", cure="Make it.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise UsageError(
            "drawing needs matplotlib, which is not installed", cure="pip install 'shardstream[plot]'"
        ) from error
    kinds = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise UsageError(
            f"{path.name!r} is no picture that can be drawn", cure=f"Name it .{', .'.join(sorted(kinds))}."
        )


def draw(
    path: Path, ours: Batches, perfect: Batches, source_of: Callable[[Ints], Ints], *, of: str, samples: int, title: str
) -> None:
    """Draw the batches of an order and of a perfect shuffle to a file.

    Args:
        path: its suffix says the format.
        ours: what is looked at.
        perfect: the same batches of a perfect shuffle.
        source_of: numbers of samples to their sources.
        of: what the sources are, in the plural.
        samples: of the dataset.
        title: stands above.

    Raises:
        UsageError: as `check_plot`.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    (dots, dots_perfect), (batches, ranks) = figure.subplots(2, 2)
    figure.suptitle(title)
    _scatter(dots, ours, samples, "this order", _OURS)
    _scatter(dots_perfect, perfect, samples, "a perfect shuffle", _PERFECT)
    found = [_sources(each, source_of) for each in (ours, perfect)]
    _along(batches, ours, *[distinct(each.reshape(-1, each.shape[-1])) for each in found], of=of)
    _counts(ranks, *[distinct(ours.parts(each)) for each in found], of=of, ranks=ours.ranks)
    figure.savefig(path, dpi=110)


def _sources(batches: Batches, source_of: Callable[[Ints], Ints]) -> Ints:
    return source_of(batches.samples.reshape(-1)).reshape(batches.samples.shape)


def _scatter(axes: Axes, batches: Batches, samples: int, title: str, color: str) -> None:
    numbers = batches.samples.reshape(-1)
    chosen = permutation(len(numbers), (0, 0))[:_DOTS]  # at random: regular steps would show patterns of their own
    axes.scatter(chosen, numbers[chosen], s=1.2, alpha=0.5, linewidths=0, color=color, rasterized=True)
    axes.set(title=title, xlabel=f"place in the epoch{_of_stretches(batches)}", ylabel="sample of the dataset")
    axes.set(xlim=(0, len(numbers)), ylim=(0, samples))
    _part(axes, batches, batches.samples.shape[1] * batches.samples.shape[2])
    _short_numbers(axes)


def _along(axes: Axes, batches: Batches, ours: Ints, perfect: Ints, *, of: str) -> None:
    for values, color, label in ((perfect, _PERFECT, "perfect shuffle"), (ours, _OURS, "this order")):
        axes.scatter(range(len(values)), values, s=6, alpha=0.6, linewidths=0, color=color, rasterized=True)
        axes.axhline(float(values.mean()), color=color, label=f"{label}: {values.mean():.1f}, worst {values.min()}")
    axes.set(title=f"different {of} in a batch of {batches.samples.shape[-1]:,}")
    axes.set(xlabel=f"batch of the epoch{_of_stretches(batches)}")
    axes.set(xlim=(0, max(1, len(ours))), ylim=(0, max(int(ours.max()), int(perfect.max())) * 1.1 + 1))
    _part(axes, batches, batches.samples.shape[1])
    axes.legend(loc="center right")
    _short_numbers(axes)


def _of_stretches(batches: Batches) -> str:
    """What to say where not the whole epoch is shown."""
    stretches, length, _ = batches.samples.shape
    return (
        "" if batches.looked_at == batches.of else f", {stretches} stretches of {length} batches out of {batches.of:,}"
    )


def _part(axes: Axes, batches: Batches, width: int) -> None:
    for stretch in range(1, batches.samples.shape[0]):
        axes.axvline(stretch * width, color="0.75", linewidth=0.7, zorder=0)


def _counts(axes: Axes, ours: Ints, perfect: Ints, *, of: str, ranks: int) -> None:
    from matplotlib.ticker import MaxNLocator

    most = int(max(ours.max(), perfect.max()))
    least = int(min(ours.min(), perfect.min()))
    edges: Any = np.linspace(least - 0.5, most + 0.5, min(60, most - least + 1) + 1)
    for values, color, label in ((perfect, _PERFECT, "perfect shuffle"), (ours, _OURS, "this order")):
        weights = np.full(len(values), 100 / len(values))
        axes.hist(values, bins=edges, weights=weights, color=color, alpha=0.6, label=f"{label}: {values.mean():.1f}")
    axes.set(title=f"different {of} in one rank's batch, {ranks} ranks", xlabel=of, ylabel="% of the ranks' batches")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
    axes.legend(loc="upper left")


def _short_numbers(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
        axis.set_major_formatter(EngFormatter(sep=""))

"""What notebooks show for batches, samples, loaders and open datasets, in place of their repr.

Nothing of it is imported before a notebook asks for `_repr_html_`, and nothing is opened for it: a loader shows its
arguments, and of its dataset what is known already. An open dataset of files shows its first samples; a remote one does
not, since looking at a name should not wait for a network. What cannot be shown says why: a repr never raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wds_tools.errors import ShardstreamError, public
from wds_tools.pictures.decode import Decoder
from wds_tools.pictures.options import Pictures
from wds_tools.sample import INDEX, KEY, URL, RawSample
from wds_tools.show import cards, thumbnail
from wds_tools.show.markup import Markup
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.values import Value, on_host, show_sample, show_value
from wds_tools.show.words import one_line

__all__ = ["batch_html", "facts_html", "previews_html", "sample_html", "urls_in_words"]

MOST_SHOWN = 24
"""Samples of a batch: four rows in a notebook."""
PREVIEWS = 8
"""Samples of a dataset."""
_MOST_URLS = 3


def batch_html(title: str, names: Sequence[str], columns: Sequence[Any]) -> Markup:
    """A batch: its columns, and its first samples, a thumbnail with the other columns' values below it.

    Args:
        title: such as its class's name.
        names: of the columns.
        columns: arrays or tensors with a first axis of samples, or lists.
    """
    count = max((len(column) for column in columns), default=0)
    rows = [(name, _kind(column)) for name, column in zip(names, columns, strict=True)]
    shown = {name: _first(column) for name, column in zip(names, columns, strict=True)}
    pictures = {name: small for name, column in shown.items() if (small := _thumbnails(column)) is not None}
    others = {name: column for name, column in shown.items() if name not in pictures}
    cells = [
        (next((column[at] for column in pictures.values()), None), _caption(others, at))
        for at in range(min(count, MOST_SHOWN))
    ]
    grid = cards.grid_html(cells, of=count) if pictures else Markup()
    return cards.titled(f"{title} of {count:,}", cards.facts_html(rows), grid)


def sample_html(raw: RawSample, pictures: Pictures) -> Markup:
    """A raw sample with all its fields, decoded."""
    values = show_sample(raw, side=cards.SIDE, decoder=Decoder(pictures)).values()
    number = f" {raw[INDEX]:,}" if INDEX in raw else ""
    return cards.sample_html(values, title=f"Sample{number} {one_line(raw[KEY])}", place=public(raw[URL]))


def facts_html(title: str, facts: Mapping[str, object]) -> Markup:
    """Names and values; what is None is left out."""
    return cards.titled(title, cards.facts_html((name, str(each)) for name, each in facts.items() if each is not None))


def previews_html(read: Callable[[int], RawSample], samples: int, pictures: Pictures) -> Markup:
    """The first samples that `read` gives by number, in a grid."""
    decoder = Decoder(pictures)
    cells = [_preview(read, number, decoder) for number in range(min(samples, PREVIEWS))]
    return cards.grid_html(cells, of=samples) if cells else Markup()


def urls_in_words(urls: object) -> str:
    """Urls as a user gave them: a few of many, without what may be secret in them."""
    if isinstance(urls, str | os.PathLike):
        return public(os.fspath(urls))
    if isinstance(urls, Sequence):
        more = f" and {len(urls) - _MOST_URLS:,} more" if len(urls) > _MOST_URLS else ""
        return ", ".join(map(urls_in_words, urls[:_MOST_URLS])) + more
    return repr(urls)


def _preview(read: Callable[[int], RawSample], number: int, decoder: Decoder) -> tuple[Thumbnail | None, str]:
    try:
        values = show_sample(raw := read(number), side=cards.SIDE, decoder=decoder).values()
    except ShardstreamError as error:
        return None, f"{number}: {error.problem}"
    small = next((small for each in values for small in each.thumbnails), None)
    return small, one_line(", ".join([raw[KEY], *_short(values)]))


def _short(values: Iterable[Value]) -> Iterable[str]:
    """What is short enough for a caption, and what is wrong."""
    for each in values:
        if each.error:
            yield f"{each.name} {each.error}"
        elif each.kind in {"int", "text"}:
            yield f"{each.name} {one_line(each.summary, 40)}"


def _kind(column: Any) -> str:
    if hasattr(column, "shape"):
        device = getattr(column, "device", None)
        where = f" on {device}" if device is not None and str(device) != "cpu" else ""
        return f"{column.dtype} {tuple(column.shape)}{where}"
    kinds = sorted({type(each).__name__ for each in column})
    return f"list of {len(column):,} {' or '.join(kinds)}"


def _first(column: Any) -> Any:
    part = column[:MOST_SHOWN]
    return on_host(part) if hasattr(part, "shape") else part


def _thumbnails(column: Any) -> list[Thumbnail] | None:
    """A thumbnail for each of a column of pictures; None for another column."""
    if not isinstance(column, np.ndarray) or column.ndim not in (3, 4):
        return None
    small = [thumbnail.of_array(each, side=cards.SIDE) for each in column]
    return None if not small or None in small else [each for each in small if each is not None]


def _caption(columns: Mapping[str, Any], at: int) -> str:
    values = ((name, column[at]) for name, column in columns.items())
    return one_line(", ".join(f"{name} {_words(name, value)}" for name, value in values), 90)


def _words(name: str, value: Any) -> str:
    return show_value(name, value.item() if isinstance(value, np.generic) else value, side=1).summary

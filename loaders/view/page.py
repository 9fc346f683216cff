"""One self-contained page of a dataset: its facts, a grid of samples, what is broken, its shards.

No address in it leads outside: thumbnails are data URIs, styles and script stand in the page. It can be mailed, kept
beside an experiment, and opened from a disk. With 60 samples of ImageNet's size it has about 1 MB.
"""

from __future__ import annotations

from collections.abc import Sequence

from loaders.view import parts
from loaders.view.facts import Facts
from loaders.view.viewer import Seen
from wds_tools.errors import counted
from wds_tools.show.markup import Attributes, Markup, element, isolated
from wds_tools.show.thumbnail import Thumbnail

__all__ = ["page"]


def page(facts: Facts, shown: Sequence[Seen]) -> str:
    """The page.

    Args:
        facts: what there is.
        shown: the samples of the grid, of those that the facts are about. Broken ones that are not among them are
            shown in the table of what is broken.
    """
    wrong = parts.broken_of(facts)
    return parts.frame(
        facts.name,
        element("h1", isolated(facts.name)),
        parts.tiles(facts),
        parts.overview(facts),
        *(_section("Broken", f"of {counted(len(facts.seen), 'sample')} looked at", wrong) if wrong else ()),
        element("h2", "Samples ", element("small", _which(facts, shown)), has={"class": "top"}),
        _tools(shown),
        element("div", *(parts.card(seen, _inline) for seen in shown), has={"class": "cards"}),
        *_section("Shards", f"{len(facts.shards):,}", parts.shards_of(facts)),
        parts.footer(),
    )


def _inline(seen: Seen, value: object, small: Thumbnail) -> str:
    del seen, value
    return small.uri


def _section(title: str, note: str, content: Markup) -> tuple[Markup]:
    head = element("h2", f"{title} ", element("small", note))
    return (element("section", head, content, has={"class": "panel wide"}),)


def _which(facts: Facts, shown: Sequence[Seen]) -> str:
    return f"{len(shown):,} of {facts.samples:,}; a click shows all fields"


def _tools(shown: Sequence[Seen]) -> Markup:
    box: Attributes = {"type": "search", "id": "filter", "placeholder": "key, class or number", "aria-label": "filter"}
    left = element("span", f"{len(shown):,} of {len(shown):,}", has={"id": "left", "class": "note"})
    return element("div", element("input", has=box), left, has={"class": "bar-of-tools"})

"""The pieces of pages: the frame with its policy, a sample's card and its fields, the facts of a dataset.

The page and the live server use the same pieces. A frame carries one stylesheet and one script, admitted by their
hashes; nothing else may run or be loaded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources

from loaders.view import charts
from loaders.view.facts import Facts, Histogram
from loaders.view.viewer import Seen
from wds_tools import __version__
from wds_tools.errors import counted
from wds_tools.show.markup import Attributes, Markup, element, isolated, joined, table
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.values import Value
from wds_tools.show.words import one_line, size

__all__ = ["Address", "broken_of", "card", "fields_of", "footer", "frame", "overview", "policy", "shards_of", "tiles"]

MOST_BARS = 40
"""Classes with a row each; of more, their ranks are drawn, and the first and last ones named."""
_NAMED = 8
_MOST_SHARDS = 500

Address = Callable[[Seen, Value | None, Thumbnail], str]
"""Where a thumbnail is to be found; of the sample's first picture where no field is given."""


@cache
def _asset(name: str) -> str:
    return resources.files("loaders.view").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy(pictures: str = "data:") -> str:
    """The Content-Security-Policy: this stylesheet, this script, pictures from `pictures`, and nothing else."""
    style, script = _hash(_asset("view.css")), _hash(_asset("view.js"))
    rest = "base-uri 'none'; form-action 'self'" if pictures != "data:" else "base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; img-src {pictures}; style-src {style}; script-src {script}; {rest}"


def frame(title: str, *body: str, head: Iterable[str] = (), pictures: str = "data:") -> str:
    """A whole page.

    Args:
        title: of the window.
        body: what stands in it.
        head: further elements of the head.
        pictures: where pictures may come from.
    """
    metas = [
        element("meta", has={"charset": "utf-8"}),
        element("meta", has={"http-equiv": "Content-Security-Policy", "content": policy(pictures)}),
        element("meta", has={"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", has={"name": "referrer", "content": "no-referrer"}),
        element("title", title),
        element("style", Markup(_asset("view.css"))),
    ]
    script = element("script", Markup(_asset("view.js")))
    page = element("html", element("head", *metas, *head), element("body", *body, script), has={"lang": "en"})
    return f"<!doctype html>\n{page}\n"


def tiles(facts: Facts) -> Markup:
    """The figures at the top."""
    order = {True: "shuffled", False: "not shuffled", None: "order unknown"}[facts.shuffled]
    looked = f"{len(facts.seen):,} looked at"
    broken = len(facts.broken)
    cells = [
        (f"{facts.samples:,}", "samples", order),
        (f"{len(facts.shards):,}", "shards", _per_shard(facts)),
        (size(facts.bytes), "in all", f"{size(facts.bytes / max(1, facts.samples))} a sample"),
        (str(broken), "broken", looked),
    ]
    if facts.histogram is not None:
        each = "in all samples" if facts.histogram.whole else "in those looked at"
        cells.insert(3, (f"{len(facts.histogram.counts):,}", "classes", each))
    return element(
        "div", *(_tile(*cell, bad=cell[1] == "broken" and broken > 0) for cell in cells), has={"class": "tiles"}
    )


def _tile(figure: str, what: str, small: str, *, bad: bool) -> Markup:
    parts = element("b", figure), element("span", what), element("small", small)
    return element("div", *parts, has={"class": "tile bad" if bad else "tile"})


def _per_shard(facts: Facts) -> str:
    counts = [shard.samples for shard in facts.shards] or [0]
    least, most = min(counts), max(counts)
    return f"{most:,} samples each" if least == most else f"{least:,} to {most:,} samples"


def overview(facts: Facts) -> Markup:
    """The facts: classes, sizes, fields, and what the listing says of how it was made."""
    parts = []
    if facts.histogram is not None and facts.histogram.counts:
        parts.append(_panel(f"Classes, by {facts.histogram.field}", _note(facts.histogram, facts), _classes(facts)))
    if facts.sizes:
        parts.append(
            _panel("Sizes of pictures", f"{len(facts.sizes):,} samples looked at", charts.scatter(facts.sizes))
        )
    parts.append(_panel("Fields", f"of {counted(len(facts.seen), 'sample')} looked at", _fields(facts)))
    made = [("made by", isolated(facts.command))] if facts.command else []
    made += [("not packed", isolated(f"{count:,} {kind}")) for kind, count in facts.failed.items()]
    if made:
        parts.append(_panel("How it was made", "as the listing says", table(made, has={"class": "plain"})))
    return element("div", *parts, has={"class": "panels"})


def _panel(title: str, note: str, *parts: str) -> Markup:
    return element("section", element("h2", title, " ", element("small", note)), *parts, has={"class": "panel"})


def _note(found: Histogram, facts: Facts) -> str:
    return "all samples" if found.whole else f"{len(facts.seen):,} samples looked at"


def _classes(facts: Facts) -> Markup:
    found = facts.histogram
    if found is None:
        return Markup()
    if len(found.counts) <= MOST_BARS:
        return charts.bars(found.counts)
    ordered = sorted(found.counts, key=lambda item: (-item[1], item[0]))
    ends = [*ordered[:_NAMED], *ordered[-_NAMED:]]
    named = element("details", element("summary", "the most frequent and the rarest"), charts.bars(ends))
    return joined([charts.ranks(found.counts), named])


def _fields(facts: Facts) -> Markup:
    rows = [
        (isolated(each.name), each.kind, f"{each.samples:,}", size(each.mean_bytes),
         ", ".join(f"{count:,} {name}" for name, count in each.formats.items()))
        for each in facts.fields
    ]  # fmt: skip
    return table(rows, head=("field", "kind", "samples", "mean", "formats"), has={"class": "plain"})


def shards_of(facts: Facts, *, link: Callable[[int], str] | None = None) -> Markup:
    """A table of the shards, the first ones of very many; `link` gives the address of a shard's samples."""
    rows = []
    for at, shard in enumerate(facts.shards[:_MOST_SHARDS]):
        name = shard.url.rpartition("/")[2]
        shown = element("a", isolated(name), has={"href": link(at)}) if link is not None else isolated(name)
        rows.append((f"{at:,}", element("span", shown, has={"title": shard.url}), f"{shard.samples:,}",
                     size(shard.bytes), f"{shard.first:,}"))  # fmt: skip
    more = len(facts.shards) - len(rows)
    rest = element("p", f"and {counted(more, 'more shard')}", has={"class": "note"}) if more else Markup()
    head = ("", "shard", "samples", "bytes", "first sample")
    return joined([table(rows, head=head, has={"class": "plain shards"}), rest])


def card(seen: Seen, address: Address, *, link: str | None = None) -> Markup:
    """A sample in the grid; with `link` a link to its own page, else it opens in place and shows its fields."""
    face = joined([_face(seen, address), _captions(seen)])
    words = one_line(" ".join([seen.key, seen.label, str(seen.number)]), 400)
    has: Attributes = {"class": f"card{' broken' if seen.faults else ''}", "data-words": words.lower()}
    if link is not None:
        return element("a", face, has={**has, "href": link})
    return element("details", element("summary", face), fields_of(seen, address), has=has)


def _face(seen: Seen, address: Address) -> Markup:
    small = seen.thumbnail
    if small is not None:
        return element("span", _image(small, address(seen, None, small), alt=seen.key), has={"class": "face"})
    wrong = next((problem for _, problem in seen.faults), None)
    first = next((value for value in seen.values.values() if not value.error), None)
    text = wrong or (one_line(first.summary, 80) if first is not None else "no fields")
    return element("span", element("span", isolated(text), has={"class": "words"}), has={"class": "face"})


def _image(small: Thumbnail, where: str, *, alt: str) -> Markup:
    has: Attributes = {"src": where, "alt": alt, "width": small.width, "height": small.height, "loading": "lazy"}
    return element("img", has={**has, "class": "exact" if small.exact else None})


def _captions(seen: Seen) -> Markup:
    parts = [element("span", isolated(seen.caption), has={"class": "label", "title": seen.caption})]
    parts = parts if seen.caption else []
    parts.append(
        element("span", isolated(seen.key or f"sample {seen.number:,}"), has={"class": "key", "title": seen.key})
    )
    if seen.faults and seen.thumbnail is not None:
        name, problem = seen.faults[0]
        parts.append(element("span", isolated(f"{name}: {problem}"), has={"class": "key wrong", "title": problem}))
    return element("span", *parts, has={"class": "captions"})


def fields_of(seen: Seen, address: Address, *, raw: Callable[[Value], str] | None = None) -> Markup:
    """All fields of a sample; `raw` gives the address of a field's bytes."""
    where = [("sample", f"{seen.number:,}"), ("key", isolated(seen.key or "?")), ("shard", isolated(seen.url))]
    rows = [element("tr", element("th", name), element("td", text, has={"colspan": 3})) for name, text in where]
    if seen.error:
        wrong = element("td", isolated(seen.error), has={"class": "wrong", "colspan": 3})
        rows.append(element("tr", element("th", "error"), wrong))
    for value in seen.values.values():
        nbytes = "" if value.bytes is None else size(value.bytes)
        loaded = element("a", nbytes, has={"href": raw(value), "download": True}) if raw is not None else nbytes
        cells = (
            element("td", value.kind, has={"class": "kind"}),
            element("td", loaded, has={"class": "n"}),
            element("td", _value(seen, value, address), has={"class": "value"}),
        )
        rows.append(element("tr", element("th", isolated(value.name)), *cells))
    return element("table", element("tbody", *rows), has={"class": "fields"})


def _value(seen: Seen, value: Value, address: Address) -> Markup:
    parts: list[str] = [_image(small, address(seen, value, small), alt=value.name) for small in value.thumbnails]
    parts.append(element("pre", value.text) if value.text else element("div", isolated(value.summary)))
    if value.error:
        parts.append(element("div", isolated(value.error), has={"class": "wrong"}))
    return joined(parts)


def broken_of(facts: Facts, *, link: Callable[[Seen], str] | None = None) -> Markup:
    """A table of what is wrong; nothing where nothing is."""
    rows = []
    for seen in facts.broken:
        for name, problem in seen.faults:
            number: str = f"{seen.number:,}"
            number = element("a", number, has={"href": link(seen)}) if link is not None else number
            shard = element("span", isolated(seen.url.rpartition("/")[2]), has={"title": seen.url})
            rows.append((number, isolated(seen.key or "?"), isolated(name or "all"), isolated(problem), shard))
    if not rows:
        return Markup()
    return table(rows, head=("sample", "key", "field", "what is wrong", "shard"), has={"class": "plain broken"})


def footer() -> Markup:
    """Who made it."""
    return element("footer", f"shardstream {__version__}")

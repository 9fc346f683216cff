"""Pages of all samples of a dataset, made when they are asked for: what `wds view --live` serves.

    /?at=&shard=&class=&q=      a page of samples, with filters
    /sample/N                   one sample with all its fields
    /overview                   counts, classes, sizes, shards
    /small/N/F/T, /large/N/F/T  thumbnail T of field F of sample N, by their places
    /raw/N/F                    the bytes of field F, to be downloaded

A request names samples by numbers alone, so none leads to another file. Only GET and HEAD are answered, on loopback
only to requests for this machine's own name (`check_request`); no page of another site may frame these, load their
pictures, or be told where a link was followed from. Bytes of fields leave as downloads of no type, and pictures are
those that this package has encoded itself: nothing that a dataset holds is interpreted by the browser.

A page of 60 samples of the million-sample dataset costs as much as one of a small one: the index says where they lie.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import Self
from urllib.parse import unquote_to_bytes

from loaders.view import parts
from loaders.view.choice import chosen
from loaders.view.classes import ClassIndex
from loaders.view.facts import Facts, facts_of
from loaders.view.keys import KeyIndex
from loaders.view.selecting import Listed, Query, listed
from loaders.view.viewer import Seen, Viewer
from wds_tools.errors import ShardstreamError, UsageError, counted
from wds_tools.sample import SPECIAL
from wds_tools.serve.answers import Answer, check_request, page_answer
from wds_tools.serve.head import BadRequestError, Request
from wds_tools.show.markup import Attributes, Markup, element, isolated
from wds_tools.show.thumbnail import Thumbnail
from wds_tools.show.values import Value

__all__ = ["Live"]

PAGE = 60
SMALL, LARGE = 224, 1024
"""Pixels of a thumbnail in a grid, and on a sample's own page."""
_KEPT = 600  # samples seen small: ten pages, some 10 MB
_KEPT_LARGE = 12
_LOOKED_AT = 256
_MOST_CHOICES = 2000  # of a list of classes or shards in a page

_log = logging.getLogger(__name__)


class _Kept:
    """The samples seen last, by number. One that could not be read is looked at again: its server may be back."""

    def __init__(self, see: Callable[[int], Seen], most: int) -> None:
        self._see = see
        self._most = most
        self._lock = threading.Lock()
        self._seen: dict[int, Seen] = {}  # the one used last at the end

    def __call__(self, number: int) -> Seen:
        with self._lock:
            seen = self._seen.pop(number, None)
            if seen is not None:
                self._seen[number] = seen
                return seen
        seen = self._see(number)
        with self._lock:
            if not seen.error:
                self._seen[number] = seen
            while len(self._seen) > self._most:
                del self._seen[next(iter(self._seen))]
        return seen


class Live:
    """Answers requests about one dataset. Safe for many threads. To be closed, before the dataset is.

    Args:
        viewer: of the dataset.
        name: what it is called.
        asked: whether the user has named the field with the class.
    """

    def __init__(self, viewer: Viewer, name: str, *, asked: bool = False) -> None:
        self._viewer = viewer
        self._dataset = viewer.dataset
        self._name = str(viewer.dataset.listing.get("name") or name)
        self._keys = KeyIndex(viewer.dataset)
        self._classes = ClassIndex(viewer.dataset, viewer.labels, asked=asked)
        self._small = _Kept(lambda number: viewer.see(number, side=SMALL), _KEPT)
        self._large = _Kept(lambda number: viewer.see(number, side=LARGE), _KEPT_LARGE)
        self._facts: Facts | None = None
        self._looking = threading.Lock()

    def close(self) -> None:
        """End what is read in the background. Twice does nothing."""
        self._keys.close()
        self._classes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def respond(self, request: Request, loopback: bool) -> Answer:  # noqa: FBT001 - as `WebServer` calls it
        """The answer to a request.

        Raises:
            BadRequestError: an error for an answer.
        """
        check_request(request, loopback=loopback)
        try:
            return self._answer(request)
        except UsageError as error:
            return self._page("Not found", _wrong(str(error)), status=404)
        except ShardstreamError as error:
            return self._page("Unavailable", _wrong(str(error)), status=502)
        except BadRequestError:
            raise
        except Exception as error:  # a bug of ours must not end the server
            _log.exception("a request failed: %s", request.path)
            raise BadRequestError(500, "this page could not be made; the server's log says why") from error

    def _answer(self, request: Request) -> Answer:
        path = unquote_to_bytes(request.path).decode("latin-1")
        if path == "/":
            return self._grid(Query.parse(request.query))
        if path == "/overview":
            return self._overview()
        if match := re.fullmatch(r"/sample/([0-9]{1,18})", path):
            return self._sample(self._number(match[1]))
        if match := re.fullmatch(r"/(small|large)/([0-9]{1,18})/([0-9]{1,4})/([0-9]{1,4})", path):
            see = self._small if match[1] == "small" else self._large
            return _picture(see(self._number(match[2])), int(match[3]), int(match[4]))
        if match := re.fullmatch(r"/raw/([0-9]{1,18})/([0-9]{1,4})", path):
            return self._raw(self._number(match[1]), int(match[2]))
        raise BadRequestError(404, "no such page")

    def _number(self, digits: str) -> int:
        number = int(digits)
        if number >= len(self._dataset):
            raise UsageError(f"there is no sample {number:,}", cure=f"The last one is {len(self._dataset) - 1:,}.")
        return number

    # Pages.

    def _grid(self, query: Query) -> Answer:
        try:
            found, wrong = listed(query, self._dataset, self._keys, self._classes), ""
        except ShardstreamError as error:
            found, wrong = Listed(numbers=range(0)), str(error)
        at = query.at
        if query.text.startswith("#"):
            wanted = query.text[1:].replace(",", "").strip()
            known = wanted.isascii() and wanted.isdigit() and int(wanted[:18]) < len(self._dataset)
            if known:
                at, query = found.place_of(int(wanted)), Query(shard=query.shard, label=query.label)
            else:
                found, wrong = Listed(numbers=range(0)), f"there is no sample {query.text}"
        at = min(at, max(0, len(found.numbers) - 1))
        seen = self._see(found.page(at, PAGE))
        cards = [parts.card(each, _address("small"), link=f"/sample/{each.number}") for each in seen]
        again = [element("meta", has={"http-equiv": "refresh", "content": "1"})] if found.going_on else []
        body = [self._form(query), _turning(query, at, len(found.numbers))]
        body += [_wrong(wrong)] if wrong else []
        body += [element("p", isolated(found.note), has={"class": "note"})] if found.note else []
        body += [element("div", *cards, has={"class": "cards"})]
        body += [_turning(query, at, len(found.numbers))] if len(cards) > 12 else []
        return self._page(self._name, *body, head=again)

    def _see(self, numbers: Sequence[int]) -> list[Seen]:
        return list(self._viewer.map(self._small, numbers))

    def _form(self, query: Query) -> Markup:
        text: Attributes = {
            "type": "search", "name": "q", "value": query.text, "aria-label": "key",
            "placeholder": "part of a key, ^beginning, #number",
        }  # fmt: skip
        fields = [element("input", has=text)]
        if names := self._classes.names[:_MOST_CHOICES]:
            choices = element("datalist", *(element("option", has={"value": name}) for name in names), has={"id": "c"})
            fields += [_box("class", query.label, "class", "c"), choices]
        else:
            fields += [_box("class", query.label, f"class ({self._classes.field})", None)]
        shard = "" if query.shard is None else str(query.shard)
        fields += [_box("shard", shard, f"shard, 0 to {len(self._dataset.urls) - 1:,}", None)]
        fields += [element("button", "Show", has={"type": "submit"}), element("a", "all", has={"href": "/"})]
        return element("form", *fields, has={"method": "get", "action": "/"})

    def _sample(self, number: int) -> Answer:
        seen, last = self._large(number), len(self._dataset) - 1
        shard = element("a", "its shard", has={"href": Query(shard=seen.shard).address()})
        links = [
            _link("previous", f"/sample/{number - 1}", "prev", there=number > 0),
            _link("next", f"/sample/{number + 1}", "next", there=number < last),
            element("a", "among its neighbours", has={"href": Query().address(at=max(0, number - PAGE // 2))}),
            shard,
            element("span", f"sample {number:,} of {last + 1:,}", has={"class": "here"}),
        ]
        fields = parts.fields_of(seen, _address("large"), raw=lambda value: f"/raw/{number}/{_place(seen, value)}")
        head = element("h2", isolated(seen.label or seen.key or "?"), has={"class": "top"})
        panel = element("section", fields, has={"class": "panel wide"})
        return self._page(f"{seen.key} - {self._name}", element("nav", *links), head, panel)

    def _overview(self) -> Answer:
        with self._looking:
            if self._facts is None:
                seen = self._see(chosen(len(self._dataset), _LOOKED_AT, 0))
                self._facts = facts_of(self._viewer, seen, name=self._name)
            facts = self._facts
        wrong = parts.broken_of(facts, link=lambda seen: f"/sample/{seen.number}")
        shards = parts.shards_of(facts, link=lambda shard: Query(shard=shard).address())
        body = [parts.tiles(facts), parts.overview(facts)]
        body += [_section("Broken", f"of {counted(len(facts.seen), 'sample')} looked at", wrong)] if wrong else []
        return self._page(f"Overview - {self._name}", *body, _section("Shards", f"{len(facts.shards):,}", shards))

    def _page(self, title: str, *body: str, head: Sequence[Markup] = (), status: int = 200) -> Answer:
        name = element("h1", element("a", isolated(self._name), has={"href": "/"}))
        ways = [element("a", words, has={"href": to}) for words, to in (("samples", "/"), ("overview", "/overview"))]
        top = element("header", name, element("nav", *ways))
        html = parts.frame(title, top, *body, parts.footer(), head=head, pictures="'self'")
        policy = parts.policy("'self'") + "; frame-ancestors 'none'"
        fields = [("Content-Security-Policy", policy), *_PRIVATE]
        return page_answer(html.encode(), "text/html; charset=utf-8", fields, status=status)

    def _raw(self, number: int, place: int) -> Answer:
        raw = self._viewer.read(number)
        names = [name for name in raw if name not in SPECIAL]
        if place >= len(names):
            raise BadRequestError(404, "no such field")
        suffix = re.sub(r"[^a-z0-9.]", "_", names[place])[:60]
        download = ("Content-Disposition", f'attachment; filename="{number}.{suffix}"')
        return page_answer(bytes(raw[names[place]]), "application/octet-stream", [download, *_PRIVATE])


_PRIVATE = (
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Another dataset may be served here tomorrow; and whoever else's page it is, it gets nothing."""


def _picture(seen: Seen, field: int, at: int) -> Answer:
    values = list(seen.values.values())
    if field >= len(values) or at >= len(values[field].thumbnails):
        raise BadRequestError(404, "no such picture")
    small = values[field].thumbnails[at]
    return page_answer(small.data, small.media, _PRIVATE)


def _address(size: str) -> parts.Address:
    def address(seen: Seen, value: Value | None, small: Thumbnail) -> str:
        del value
        places = ((at, each.thumbnails.index(small)) for at, each in enumerate(seen.values.values())
                  if small in each.thumbnails)  # fmt: skip
        field, at = next(places)
        return f"/{size}/{seen.number}/{field}/{at}"

    return address


def _place(seen: Seen, value: Value) -> int:
    return list(seen.values).index(value.name)


def _turning(query: Query, at: int, total: int) -> Markup:
    last = max(0, (total - 1) // PAGE * PAGE)
    upto = min(at + PAGE, total)
    here = f"{at + 1:,} to {upto:,} of {total:,}" if total else "no samples"
    return element(
        "nav",
        _link("first", query.address(), None, there=at > 0),
        _link("previous", query.address(at=max(0, at - PAGE)), "prev", there=at > 0),
        element("span", here, has={"class": "here"}),
        _link("next", query.address(at=at + PAGE), "next", there=upto < total),
        _link("last", query.address(at=last), None, there=upto < total),
    )


def _link(text: str, address: str, rel: str | None, *, there: bool) -> Markup:
    if not there:
        return element("span", text, has={"class": "here"})
    return element("a", text, has={"href": address, "rel": rel})


def _box(name: str, value: str, words: str, choices: str | None) -> Markup:
    return element(
        "input",
        has={"name": name, "value": value, "placeholder": words, "aria-label": name, "list": choices, "size": 18},
    )


def _section(title: str, note: str, content: Markup) -> Markup:
    return element("section", element("h2", f"{title} ", element("small", note)), content, has={"class": "panel wide"})


def _wrong(text: str) -> Markup:
    return element("p", isolated(text), has={"class": "wrong"})

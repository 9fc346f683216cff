"""Html from parts, escaped by construction: a text is text, and only `element` makes what is not.

Keys, captions and names of classes are written by whoever made a dataset. So every str that is put into an element is
escaped, quotes too, and what a reader would not see, or would see in another place, is written out as an escape:
control characters, marks that turn the direction of a line around (U+202E makes "gpj.exe" of "exe.jpg"), line
separators, bytes that are no UTF-8 (lone surrogates, which no page may hold). Right-to-left letters themselves stay, in
a `bdi` of their own (`isolated`), so that they do not reorder what stands around them.

Addresses are not judged here: `href` and `src` are for those that this package makes itself.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeAlias

__all__ = ["Attribute", "Attributes", "Markup", "element", "escape", "isolated", "joined", "table"]

_VOID = frozenset({"br", "img", "input", "link", "meta"})
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_KEPT = "\u200c\u200d"  # joiners: without them Persian words and many emoji fall apart, and they move nothing


class Markup(str):
    """Html that may stand in a page as it is. Made by this module, or of constants."""

    __slots__ = ()


Attribute: TypeAlias = str | int | float | bool | None
Attributes: TypeAlias = Mapping[str, Attribute]


def escape(text: str, *, lines: bool = False) -> Markup:
    """The text for the inside of an element or of a quoted attribute.

    Args:
        text: anything, lone surrogates too.
        lines: whether line breaks and tabs stay, for `pre`.
    """
    if not text.isprintable():
        text = "".join(_visible(sign, lines=lines) for sign in text)
    return Markup(html.escape(text))


def _visible(sign: str, *, lines: bool) -> str:
    if sign.isprintable() or sign in _KEPT or (lines and sign in "\n\t"):
        return sign
    if unicodedata.category(sign) not in _HIDDEN:
        return sign  # spaces of all kinds
    return ascii(sign)[1:-1]


def element(tag: str, *children: str, has: Attributes | None = None) -> Markup:
    """`<tag has...>children</tag>`; children that are no Markup are escaped, and so are the attributes' values.

    Args:
        tag: a constant of the caller's.
        children: one after the other.
        has: the attributes; True gives a bare one, False and None give none.
    """
    head = f"<{tag}{''.join(_attribute(name, value) for name, value in (has or {}).items())}>"
    if tag in _VOID:
        return Markup(head)
    lines = tag in {"pre", "textarea"}
    inside = "".join(child if isinstance(child, Markup) else escape(child, lines=lines) for child in children)
    return Markup(f"{head}{inside}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def isolated(text: str) -> Markup:
    """A text from the data, in its own direction."""
    return element("bdi", text)


def joined(parts: Iterable[str]) -> Markup:
    """The parts one after the other, escaped where they are no Markup."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def table(rows: Iterable[tuple[str, ...]], *, head: tuple[str, ...] = (), has: Attributes | None = None) -> Markup:
    """A table; with `head` its first row, else the first cell of each row is that row's head."""
    top = element("thead", element("tr", *(element("th", cell) for cell in head))) if head else Markup()
    return element("table", top, element("tbody", *(_row(row, headed=not head) for row in rows)), has=has)


def _row(row: tuple[str, ...], *, headed: bool) -> Markup:
    return element("tr", *(element("th" if headed and not at else "td", cell) for at, cell in enumerate(row)))

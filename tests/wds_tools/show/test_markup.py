"""Html that is escaped by construction, whatever the text."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.show.markup import Markup, element, escape, isolated, joined, table

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "a & b &lt; c",
    "exe\u202egpj.",
    "lone \udcff surrogate",
    "line\u2028separator\x00\x1b[31m",
    "שלום עולם",
]


class Parsed(HTMLParser):
    """All elements, attributes and texts of a piece of html."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=()))))
def test_a_text_makes_no_element_and_leaves_no_attribute(text: str) -> None:
    parsed = Parsed(element("p", text, element("img", has={"alt": text, "src": "x"})))
    assert [tag for tag, _ in parsed.tags] == ["p", "img"]
    assert set(parsed.tags[1][1]) == {"alt", "src"}
    assert parsed.tags[1][1]["alt"] == parsed.text


@given(st.text(st.characters(exclude_categories=())))
def test_what_comes_out_can_be_written_as_utf8_and_hides_nothing(text: str) -> None:
    out = escape(text)
    out.encode()
    assert not [sign for sign in out if not sign.isprintable() and not sign.isspace() and sign not in "\u200c\u200d"]


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_letters_of_all_scripts_stay_as_they_are(text: str) -> None:
    assert Parsed(element("p", text)).text == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("exe\u202egpj.", "exe\\u202egpj."),
        ("\udcff", "\\udcff"),
        ("a\nb", "a\\nb"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\ufeff", "\\ufeff"),
    ],
)
def test_what_would_not_be_seen_is_written_out(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_breaks_stay_where_lines_are_shown() -> None:
    assert element("pre", "a\n\tb\u2028") == "<pre>a\n\tb\\u2028</pre>"
    assert element("p", "a\n\tb") == "<p>a\\n\\tb</p>"


def test_markup_stays_and_text_beside_it_does_not() -> None:
    assert element("p", element("b", "<"), "<", Markup("&amp;")) == "<p><b>&lt;</b>&lt;&amp;</p>"
    assert joined([isolated("<"), "<"]) == "<bdi>&lt;</bdi>&lt;"


def test_attributes_true_false_and_none() -> None:
    assert element("input", has={"disabled": True, "checked": False, "value": None, "size": 3}) == (
        '<input disabled size="3">'
    )


def test_a_table_with_a_head_and_one_whose_rows_are_named() -> None:
    assert table([("a", "<")], head=("x", "y")) == (
        "<table><thead><tr><th>x</th><th>y</th></tr></thead><tbody><tr><td>a</td><td>&lt;</td></tr></tbody></table>"
    )
    assert table([("a", "b")]) == "<table><tbody><tr><th>a</th><td>b</td></tr></tbody></table>"

import contextlib
import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.expression import Expression
from tests.builders import picture
from wds_tools.codec import encode_field
from wds_tools.errors import FieldError, ShardstreamError, UsageError


class Sample:
    """A sample in memory, which notes what was asked of it."""

    def __init__(self, key: str = "a/1", shard: str = "s-0.tar", **fields: bytes) -> None:
        self.key = key
        self.shard = shard
        self.fields: Mapping[str, bytes] = {name.replace("__", "."): data for name, data in fields.items()}
        self.asked: list[str] = []

    def names(self) -> list[str]:
        return list(self.fields)

    def data(self, field: str) -> bytes:
        self.asked.append(field)
        return self.fields[field]


SAMPLE = Sample(
    jpg=picture(1, width=64, height=48),
    cls=b"3",
    txt=b"A cat on a mat",
    json=b'{"width": 640, "meta": {"tags": ["cat", "mat"], "score": 0.5}, "null": null}',
    seg__png=picture(1, width=30, height=20, form="PNG"),
    npy=encode_field("npy", np.zeros((4, 5), np.uint8)),
)


@pytest.mark.parametrize(
    "text",
    [
        "cls == 3",
        "cls in (1, 2, 3) and cls not in [4]",
        "2 < cls <= 3 < 4",
        "cls == 3 and json.width >= 256 and key.startswith('a')",
        "not cls == 4",
        "cls - 1 == 2 and cls * 2 + 1 == 7 and cls / 2 == 1.5 and cls // 2 == 1 and cls % 2 == 1 and -cls == -3",
        "json.meta.score >= .5",
        "json.meta.tags[0] == 'cat' and 'mat' in json.meta.tags and json['meta']['score'] < 1",
        "'cat' in txt and len(txt) == 14 and txt.lower().split()[0] == 'a'",
        "jpg.width == 64 and jpg.height == 48 and jpg.format == 'jpeg' and len(jpg) > 100",
        "image.width * image.height == 3072",
        "seg.png.width == 30 and field('seg.png').height == 20",
        "npy.shape == (4, 5) and npy.size == 20 and npy.dtype == 'uint8'",
        "matches(key, '^a/[0-9]$') and not matches(txt, 'dog')",
        "shard == 's-0.tar' and 'jpg' in fields",
        "str(cls) == '3' and str(json.meta) == \"{'tags': ['cat', 'mat'], 'score': 0.5}\" and str(fields)[0] == '('",
        "max(json.width, 700) == 700 and abs(-2) == 2 and int('7') == 7 and round(2.6) == 3 and str(cls) == '3'",
        "png is None and json.null is None and json.nothing is None and cls is not None",
        "json.meta.tags[7] == None",
        "cls == 3 or json.width.height.depth == 4",
    ],
)
def test_what_holds_is_true(text: str) -> None:
    assert Expression(text)(SAMPLE) is True
    assert Expression(f"not ({text})")(SAMPLE) is False
    assert pickle.loads(pickle.dumps(Expression(text)))(SAMPLE) is True


@pytest.mark.parametrize(
    "text",
    [
        "nothing < 3", "nothing > 3", "nothing <= 3", "3 >= nothing", "nothing == 3", "'a' in nothing",
        "nothing in 'abc'", "nothing.deeper > 1", "nothing + 1 > 0", "-nothing < 0", "len(nothing) > 0",
        "nothing.lower() == 'a'", "int(nothing) == 0", "matches(nothing, '.*')", "nothing[0] == 1",
        "field('nothing') == ''",
    ],
)  # fmt: skip
def test_what_is_missing_fulfils_nothing(text: str) -> None:
    assert Expression(text)(SAMPLE) is False


def test_only_the_fields_that_decide_are_read() -> None:
    sample = Sample(jpg=picture(1), cls=b"1", json=b"{}")
    Expression("cls == 2 and json.width > 3")(sample)
    assert sample.asked == ["cls"]
    sample.asked.clear()
    Expression("key == 'b' or 'jpg' in fields")(sample)
    assert sample.asked == []
    sample.asked.clear()
    Expression("cls == 2 or cls == 1 or cls == 3")(sample)
    assert sample.asked == ["cls"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cls < 'a'", "cannot be decided"),
        ("'JPEG' in str(jpg)", "cannot be decided: picture has no text"),
        ("str((cls, image)) == ''", "picture has no text"),
        ("str(npy) != ''", "ndarray has no text"),
        ("json.width.deeper == 1", "json.width is no object with a key 'deeper' but int"),
        ("cls.lower() == 'a'", "method of text"),
        ("cls / 0 == 1", "division by zero"),
        ("int(txt) == 1", "invalid literal"),
        ("cls[0] == 1", "cannot be indexed"),
        ("txt * 1000000000 == 1", "arithmetic with str"),
        ("jpg.real == 1", "no object with a key"),
        ("1 in cls", "not iterable"),
    ],
)
def test_values_that_do_not_fit_are_errors_of_the_sample(text: str, words: str) -> None:
    with pytest.raises(FieldError, match=words) as caught:
        Expression(text)(SAMPLE)
    assert caught.value.key == "a/1"


def test_a_field_that_does_not_decode_is_an_error_of_the_sample() -> None:
    with pytest.raises(FieldError) as caught:
        Expression("cls == 3")(Sample(cls=b"three"))
    assert (caught.value.key, caught.value.field) == ("a/1", "cls")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "open('/etc/passwd')", "eval('1')", "(lambda: 1)()", "[x for x in txt]",
        "cls if cls else 1", "cls ** 99", "cls << 99", "f'{cls}'", "txt[0:1] == 'a'", "txt.format(1)",
        "txt.__class__()", "(1).__class__.__bases__()", "txt.encode()", "cls := 3", "~cls", "b'a' == 1", "1j == 1",
        "...", "*cls, 1", "len(obj=txt)", "matches(key, '[')", "matches(key, txt)", "field(txt)", "field()",
        "{'a': 1} == 1", "await cls",
    ],
)  # fmt: skip
def test_what_is_not_in_the_language_is_refused_when_it_is_parsed(text: str) -> None:
    with pytest.raises(UsageError):
        Expression(text)


def test_attributes_of_python_objects_are_not_reached() -> None:
    for text in ("txt.__class__ == 1", "json.__class__.__name__ == 'dict'", "key.__len__ == 1", "npy.tofile == 1"):
        try:
            assert Expression(text)(SAMPLE) is False
        except FieldError:
            continue


@pytest.mark.parametrize("text", ["", "cls ==", "class == 3", "cls = 3", "a b", "(" * 3000, "x" * 20_000, "a\0b"])
def test_what_does_not_parse_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"expression"):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cls == 3 and json.width > 1", {"cls", "json"}),
        ("key == 'a' and len(txt.lower()) > 1 and image.width > 1", {"txt"}),
        ("field('seg.png') != None and matches(caption, 'a') and shard in fields", {"seg", "caption"}),
    ],
)
def test_it_knows_the_fields_that_it_names(text: str, names: set[str]) -> None:
    assert Expression(text).names == names


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_comparisons_are_those_of_python(left: int, right: int, sign: str) -> None:
    expected = {
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "==": left == right,
        "!=": left != right,
    }[sign]  # fmt: skip
    assert Expression(f"cls {sign} {right}")(Sample(cls=b"%d" % left)) is expected


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(ShardstreamError):
        Expression(text)(SAMPLE)


def test_what_is_not_part_of_the_language_is_said_once() -> None:
    with pytest.raises(UsageError, match="cannot be used") as caught:
        Expression("key.format(1)")
    assert "does not parse" not in str(caught.value)

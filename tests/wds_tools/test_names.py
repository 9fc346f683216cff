from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from webdataset.tariterators import base_plus_ext

from wds_tools.errors import FieldRefusedError, KeyRefusedError, UsageError
from wds_tools.names import (
    MAX_FIELD,
    MAX_KEY,
    check_field,
    check_key,
    is_litter,
    is_metadata,
    near_field,
    split_name,
)

PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
TAKEN = st.text("aZ_- é猫", min_size=1, max_size=9)
PATHS = st.lists(st.text("ab.A_/", max_size=6), max_size=5).map("/".join)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jpg", ("a", "jpg")),
        ("a.seg.jpg", ("a", "seg.jpg")),
        ("dir.v1/a.jpg", ("dir.v1/a", "jpg")),
        ("./a.jpg", ("./a", "jpg")),
        ("Track 2.0 (Clean).mp3", ("Track 2", "0 (clean).mp3")),
        ("train.v1/0001.CLS", ("train.v1/0001", "cls")),
        ("a/22.0/1.1.png", ("a/22.0/1", "1.png")),
        ("KEY.Left.JPG", ("KEY", "left.jpg")),
        ("a.", ("a", "")),
        ("noext", None),
        ("dir/noext", None),
        ("dir.v1/noext", None),
        (".hidden.jpg", None),
        ("dir/.hidden.jpg", None),
        ("", None),
        ("/", None),
        ("\udce9.jpg", ("\udce9", "jpg")),
    ],
)
def test_a_key_ends_at_the_first_dot_after_the_last_slash(name: str, expected: tuple[str, str] | None) -> None:
    assert split_name(name) == expected


@given(st.one_of(PATHS, PRINTABLE))
@example("dir.v1/a.b.c")
def test_keys_and_fields_are_those_of_webdataset(name: str) -> None:
    assume("\n" not in name)  # its expression takes no line breaks
    base = name.rpartition("/")[2]
    assume(not base.startswith("."))  # it makes a sample `dir/` of `dir/.hidden.jpg`
    key, field = base_plus_ext(name)
    assert split_name(name) == (None if key is None else (key, field.lower()))


@given(st.text("_ab./", max_size=12))
def test_metadata_is_what_webdataset_skips(name: str) -> None:
    assert is_metadata(name) == (re.match(r"__[^/]*__($|/)", name) is not None)


def test_a_json_about_a_shard_is_a_sample() -> None:
    assert not is_metadata("__meta__.json")
    assert split_name("__meta__.json") == ("__meta__", "json")


@pytest.mark.parametrize("name", ["._a.jpg", "d/._a.jpg", "__MACOSX/._a.jpg", "__MACOSX/d/a.jpg", "./__MACOSX/a.jpg"])
def test_what_macos_adds_is_litter(name: str) -> None:
    assert is_litter(name)


@pytest.mark.parametrize("name", ["a.jpg", "_a.jpg", "d._x/a.jpg", ".a.jpg"])
def test_ordinary_names_are_no_litter(name: str) -> None:
    assert not is_litter(name)


@pytest.mark.parametrize("key", ["a", "n01440764/00001", "dir.v1/x", "Müller", "a b", "_x", "__x", "x" * MAX_KEY])
def test_keys_that_every_reader_splits_alike_are_taken(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "problem", "cure"),
    [
        ("", "empty", "name"),
        ("a.b", "dot", "replace"),
        ("d/a.b", "dot", "replace"),
        ("/a", "absolute", "leading"),
        ("a/", "slash", "base name"),
        ("a//b", "two slashes", "one"),
        ("../a", "'..'", "root"),
        ("a/../b", "'..'", "root"),
        ("./a", "'.'", "root"),
        ("a/./b", "'.'", "root"),
        ("a\0b", "control", "NUL"),
        ("a\nb", "control", "line breaks"),
        ("a\x7f", "control", "line breaks"),
        ("a\\b", "backslash", "'/'"),
        ("__x__", "metadata", "'__'"),
        ("__x__/a", "metadata", "'__'"),
        ("d/._a", "macOS", "'._'"),
        ("__MACOSX/a", "macOS", "'__MACOSX'"),
        ("\udce9", "surrogates", "encoding"),
        ("x" * (MAX_KEY + 1), "longer", "Shorten"),
        ("é" * (MAX_KEY // 2 + 1), "longer", "Shorten"),
        (7, "int", "str"),
    ],
)
def test_a_refused_key_comes_with_reason_and_cure(key: str, problem: str, cure: str) -> None:
    with pytest.raises(KeyRefusedError, match=re.escape(problem)) as caught:
        check_key(key)
    assert cure in (caught.value.cure or "")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("field", ["jpg", "seg.png", "json.gz", "0 (clean).mp3", "x_y-1", "é", "x" * MAX_FIELD])
def test_fields_that_come_back_as_they_are_are_taken(field: str) -> None:
    check_field(field)


@pytest.mark.parametrize(
    ("field", "cure"),
    [
        ("", "jpg"),
        (".jpg", "'jpg'"),
        ("jpg.", "'jpg'"),
        ("a..b", "'a.b'"),
        ("JPG", "'jpg'"),
        ("a/b", "key"),
        ("a\\b", "key"),
        ("__key__", "'__'"),
        ("b__", "'__'"),
        ("a\n", "line breaks"),
        ("\udce9", "encoding"),
        ("x" * (MAX_FIELD + 1), "Shorten"),
        (7, "str"),
    ],
)
def test_a_refused_field_comes_with_a_cure(field: str, cure: str) -> None:
    with pytest.raises(FieldRefusedError) as caught:
        check_field(field)
    assert cure in (caught.value.cure or "")


def _taken(check: object, name: str) -> bool:
    try:
        check(name)  # type: ignore[operator]
    except UsageError:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # refused names are sought as well
@given(st.one_of(TAKEN, PATHS, PRINTABLE), st.one_of(TAKEN.map(str.lower), st.text("ab._A", max_size=6), PRINTABLE))
@example("__a", "b__")
@example("a", "K")  # the Kelvin sign, which lowers to an ordinary k
def test_what_is_taken_is_read_back_as_it_was(key: str, field: str) -> None:
    assume(_taken(check_key, key) and _taken(check_field, field))
    name = f"{key}.{field}"
    assert split_name(name) == base_plus_ext(name) == (key, field)
    assert not is_metadata(name)
    assert not is_litter(name)
    assert name.splitlines() == [name]


def test_the_field_that_somebody_may_have_meant_is_the_one_that_ends_with_his() -> None:
    assert near_field("mp3", ["json", "0 (clean).mp3", "1.mp3"]) == "0 (clean).mp3"
    assert near_field("MP3", ["0 (clean).mp3"]) == "0 (clean).mp3"


def test_no_field_is_near_when_none_ends_with_it_behind_a_dot() -> None:
    assert near_field("jpg", ["xjpg", "jpg.gz", "jpg"]) is None


class _Text(str):
    """A str that is none of those which are accepted at a glance."""

    __slots__ = ()


@given(st.text(alphabet="aZ9_-/. é", max_size=12))
def test_what_is_accepted_at_a_glance_would_be_accepted_at_length(key: str) -> None:
    def accepted(text: str) -> bool:
        try:
            check_key(text)
        except KeyRefusedError:
            return False
        return True

    assert accepted(key) == accepted(_Text(key))

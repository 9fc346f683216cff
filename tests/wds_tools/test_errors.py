"""Errors: printing, pickling, filling in, and the builtin types they also are."""

import inspect
import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

from wds_tools import errors
from wds_tools.names import check_key
from wds_tools.urls import expand

ALL = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, errors.ShardstreamError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_pickles_with_all_it_knows(kind: type[errors.ShardstreamError]) -> None:
    error = kind("3 expected, 4 found", url="a.tar", offset=512, key="k", field="jpg", cure="Copy it again")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.problem, again.url, again.offset, again.key, again.field, again.cure) == (
        "3 expected, 4 found",
        "a.tar",
        512,
        "k",
        "jpg",
        "Copy it again",
    )


@pytest.mark.parametrize("kind", ALL)
def test_every_error_prints_its_message_whatever_builtin_it_also_is(kind: type[errors.ShardstreamError]) -> None:
    # KeyError prints its repr, OSError its errno: ours print the sentence.
    assert str(kind("the sentence", url="a.tar", cure="Do this")) == "the sentence (shard a.tar). Do this"


def test_all_errors_are_exported() -> None:
    words = {"counted", "public", "shown", "there_are"}
    assert sorted(kind.__name__ for kind in ALL) == sorted(set(errors.__all__) - words)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "There is none at all."),
        (["a"], "There is a."),
        (["b", "a"], "There are b, a."),
        (map(str, range(1002)), "There are 0, 1 and 1,000 more."),
    ],
)
def test_what_there_is_is_said_for_one_many_and_none(names: Iterable[str], said: str) -> None:
    assert errors.there_are(names, most=2) == said


def test_the_message_names_each_place_that_is_known() -> None:
    error = errors.PictureError("no JPEG", url="s3://b/x.tar", offset=1024, key="n01/7", field="jpg")
    assert str(error) == "no JPEG (shard s3://b/x.tar, offset 1024, key n01/7, field jpg)"
    assert str(errors.UsageError("bare")) == "bare"
    assert "offset 0" in str(errors.ShardError("at the very start", offset=0))


@pytest.mark.parametrize("name", ["\udce9.jpg", "a\nb", "a\x1b[31m", "nul\0"])
def test_names_that_cannot_be_printed_are_shown_in_ascii(name: str) -> None:
    text = str(errors.SampleError("bad", url=name, key=name, field=name))
    text.encode("utf-8")
    assert text.isprintable()
    assert ascii(name) in text


def test_what_libraries_say_of_hostile_bytes_stays_on_one_line() -> None:
    text = str(errors.DataError("no table: bad\nmagic \x1b[31m\udcff\n", cure="Größe:\tmend"))
    assert text == r"no table: bad magic \x1b[31m\udcff. Größe: mend"


def test_at_fills_in_what_is_missing_and_keeps_what_is_set() -> None:
    error = errors.FieldError("no number", offset=7)
    assert error.at(url="a.tar", offset=0, key="k", field="cls", cure="c") is error
    assert (error.url, error.offset, error.key, error.field, error.cure) == ("a.tar", 7, "k", "cls", "c")
    error.at(url="other", key="other", field="other", cure="other")
    assert (error.url, error.key, error.field, error.cure) == ("a.tar", "k", "cls", "c")


def test_the_cause_survives_the_way_up() -> None:
    with pytest.raises(errors.UnavailableError) as caught:
        try:
            raise TimeoutError("slow")
        except TimeoutError as error:
            raise errors.UnavailableError("no answer", url="u") from error
    assert isinstance(caught.value.__cause__, TimeoutError)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.UsageError, ValueError),
        (errors.NoShardsError, FileNotFoundError),
        (errors.FieldRefusedError, TypeError),
        (errors.TargetError, FileExistsError),
        (errors.TruncatedShardError, EOFError),
        (errors.MissingFieldError, KeyError),
        (errors.UnavailableError, OSError),
        (errors.ShardMissingError, FileNotFoundError),
    ],
)
def test_errors_are_what_callers_catch_already(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)


def test_only_content_is_a_sample_error() -> None:
    # on_error="skip" skips SampleError: a disk or a damaged container must never be one.
    for kind in (errors.UnavailableError, errors.ShardError, errors.ListingError, errors.UsageError, errors.BatchError):
        assert not issubclass(kind, errors.SampleError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Größe", "'Größe'"),
        ("it's", '"it\'s"'),
        ("a\nb", r"'a\nb'"),
        ("\x1b[31mü", r"'\x1b[31m\xfc'"),
        ("\udcff.jpg", r"'\udcff.jpg'"),
        ("\u202eü", r"'\u202e\xfc'"),
    ],
)
def test_text_is_shown_as_it_is_where_it_can_be_printed(text: str, expected: str) -> None:
    assert errors.shown(text) == expected
    assert errors.shown(7) == "7"
    errors.shown(text).encode()


def test_names_in_messages_are_whole_words(tmp_path: Path) -> None:
    (tmp_path / "Größe").mkdir()
    with pytest.raises(errors.NoShardsError, match=r"Größe.*holds 'Größe/'"):
        expand(str(tmp_path / "Größe*.tar"))
    with pytest.raises(errors.KeyRefusedError, match="'Größe/'"):
        check_key("Größe/")


def test_one_of_a_thing_is_no_plural() -> None:
    assert [errors.counted(number, "shard") for number in (0, 1, 1000)] == ["0 shards", "1 shard", "1,000 shards"]
    assert [errors.counted(number, "class", "classes") for number in (1, 2)] == ["1 class", "2 classes"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:s3cr3t@host/a b.tar?X-Signature=s3cr3t&v=1", "https://host/a b.tar?X-Signature=...&v=..."),
        ("http://host:80/x@y.tar", "http://host:80/x@y.tar"),
        ("http://me@host", "http://host"),
        ("http://host/x?s3cr3t", "http://host/x?..."),
        ("s3://bucket/key#s3cr3t", "s3://bucket/key#..."),
        ("http://u:s3cr3t@[::1]:9/x", "http://[::1]:9/x"),
        ("/a/b?x=1#2", "/a/b?x=1#2"),
        ("file:///a?b=1", "file:///a?b=1"),
        ("file:///a@b.tar", "file:///a@b.tar"),
        ("FILE://me:s3cr3t@host/a.tar", "FILE://host/a.tar"),
        ("it lies at 'file://me:s3cr3t@host/a.tar'", "it lies at 'file://host/a.tar'"),
        ("pipe:curl -s 'https://u:s3cr3t@h/x?tok=s3cr3t' | cat", "pipe:curl -s 'https://h/x?tok=...' | cat"),
        ("http://a\nb/x?y=s3cr3t", "http://a\nb/x?y=..."),
    ],
)
def test_what_may_be_secret_in_an_address_is_not_shown(address: str, shown: str) -> None:
    assert errors.public(address) == shown


def test_no_message_shows_what_may_be_secret_wherever_the_address_stands() -> None:
    url = "https://me:s3cr3t@host/x.tar?X-Signature=s3cr3t"
    error = errors.UnavailableError(f"not at {url}", url=url, cure=f"Look at '{url}'")
    assert str(error) == (
        "not at https://host/x.tar?X-Signature=... (shard https://host/x.tar?X-Signature=...). "
        "Look at 'https://host/x.tar?X-Signature=...'"
    )
    assert "s3cr3t" not in str(pickle.loads(pickle.dumps(error)))
    assert error.url == url

"""Addresses as text: schemes, file urls, braces, relative to a listing, names of shards."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools import addresses
from wds_tools.errors import UsageError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("a.tar", None),
        ("/data/a.tar", None),
        ("D:/x.tar", None),
        (r"C:\data\x.tar", None),
        ("C://x.tar", None),  # one letter is a drive
        (r"\\srv\share\x.tar", None),
        ("a:b.tar", None),
        ("://x", None),
        ("file:///x", "file"),
        ("HTTP://h/x", "http"),
        ("s3://b/k", "s3"),
        ("gs+x.1-y://b", "gs+x.1-y"),
    ],
)
def test_a_path_is_a_path_unless_it_names_a_scheme(address: str, expected: str | None) -> None:
    assert addresses.scheme(address) == expected


@pytest.mark.parametrize(
    ("address", "windows", "expected"),
    [
        ("file:///a/x%20y.tar", False, "/a/x y.tar"),
        ("file://localhost/a.tar", False, "/a.tar"),
        ("file:///a%23b%3Fc%25.tar", False, "/a#b?c%.tar"),
        ("file:///a#b?c.tar", False, "/a#b?c.tar"),
        ("file:///%E9.tar", False, "/\udce9.tar"),
        ("FILE:///a.tar", False, "/a.tar"),
        ("file:///C:/x%20y.tar", True, "C:/x y.tar"),
        ("file:///C:/x%20y.tar", False, "/C:/x y.tar"),
        ("file://srv/share/x.tar", True, r"\\srv\share\x.tar"),
        ("a%20b.tar", False, "a%20b.tar"),
        (r"C:\a%20b.tar", True, r"C:\a%20b.tar"),
    ],
)
def test_only_file_urls_are_decoded(address: str, windows: bool, expected: str) -> None:
    assert addresses.path_of(address, windows=windows) == expected


@pytest.mark.parametrize("address", ["file://host/a.tar", "http://h/a.tar"])
def test_what_lies_elsewhere_is_no_local_path(address: str) -> None:
    with pytest.raises(UsageError):
        addresses.path_of(address, windows=False)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s-{000..002}.tar", ["s-000.tar", "s-001.tar", "s-002.tar"]),
        ("s-{8..10}.tar", ["s-8.tar", "s-9.tar", "s-10.tar"]),
        ("{a,b}/{0..1}.tar", ["a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"]),
        ("x{1,{3..4}}.tar", ["x1.tar", "x3.tar", "x4.tar"]),
        ("{00..04..2}", ["00", "02", "04"]),
        ("{2..0}", ["2", "1", "0"]),
        (r"C:\data\s-{000..001}.tar", [r"C:\data\s-000.tar", r"C:\data\s-001.tar"]),
        (r"data\x.tar", [r"data\x.tar"]),
        ("a{b}c.tar", ["a{b}c.tar"]),
        ('{"k":1}', ['{"k":1}']),
        ("http://h/{a,b}.tar", ["http://h/a.tar", "http://h/b.tar"]),
        ("http://h/x.tar?tok={a,b}", ["http://h/x.tar?tok={a,b}"]),
        ("http://h/{a,b}.tar?t={c,d}#{e,f}", ["http://h/a.tar?t={c,d}#{e,f}", "http://h/b.tar?t={c,d}#{e,f}"]),
        ("http://{a,b}/x.tar", ["http://{a,b}/x.tar"]),
        ("s3://b/x", ["s3://b/x"]),
        ("file:///d/{0..1}?.tar", ["file:///d/0?.tar", "file:///d/1?.tar"]),
    ],
)
def test_braces_expand_as_in_bash_and_backslashes_stay(address: str, expected: list[str]) -> None:
    assert addresses.expand_braces(address) == expected


@pytest.mark.parametrize("address", ["s-{000..002.tar", "s-000}.tar", "{a,{b}"])
def test_braces_that_do_not_pair_are_named(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        addresses.expand_braces(address)
    assert caught.value.url == address
    assert "Path" in str(caught.value)


@pytest.mark.parametrize("address", ["{0..99999999999}", "{0..9999}{0..9999}", "{-99999999999..0..2}"])
def test_a_slip_does_not_fill_the_memory(address: str) -> None:
    with pytest.raises(UsageError, match="names"):
        addresses.expand_braces(address)


@given(st.text(max_size=30).filter(lambda text: not set("{}") & set(text)))
def test_text_without_braces_comes_back_as_it_is(text: str) -> None:
    assert addresses.expand_braces(text) == [text]


@given(first=st.integers(0, 3000), more=st.integers(0, 50), width=st.integers(5, 7))
def test_zero_padded_ranges_keep_their_width(first: int, more: int, width: int) -> None:
    last = first + more
    pattern = f"s-{{{first:0{width}d}..{last:0{width}d}}}.tar"
    assert addresses.expand_braces(pattern) == [f"s-{at:0{width}d}.tar" for at in range(first, last + 1)]


@pytest.mark.parametrize(
    ("listing", "address", "expected"),
    [
        ("/d/dataset.json", "x.tar", "/d/x.tar"),
        ("/d/dataset.json", "../e/x.tar", "/e/x.tar"),
        ("dataset.json", "x.tar", "x.tar"),
        ("d/dataset.json", "s/x.tar", "d/s/x.tar"),
        ("/d/dataset.json", "/e/x.tar", "/e/x.tar"),
        ("/d/dataset.json", "http://h/x.tar", "http://h/x.tar"),
        ("/d/dataset.json", "D:/x.tar", "D:/x.tar"),
        ("/d/dataset.json", "a#b?c%20.tar", "/d/a#b?c%20.tar"),
        ("http://h/d/dataset.json", "x.tar", "http://h/d/x.tar"),
        ("http://h/d/dataset.json?sig=1/2", "s/x.tar", "http://h/d/s/x.tar"),
        ("http://h/dataset.json", "../../x.tar", "http://h/x.tar"),
        ("s3://b/d/dataset.json", "x.tar", "s3://b/d/x.tar"),
        ("file:///d%20e/dataset.json", "x y.tar", "file:///d%20e/x%20y.tar"),
    ],
)
def test_relative_addresses_lie_beside_the_listing(listing: str, address: str, expected: str) -> None:
    assert addresses.join(listing, address) == expected


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "A.TAR"])
def test_shard_names(name: str) -> None:
    assert addresses.is_shard_name(name)


@pytest.mark.parametrize(
    "name", [".a.tar", "._a.tar", ".a.tar.1f2e3d4c.tmp", "a.tar.tmp", "a.tar.idx", "a.json", "tar"]
)
def test_other_names(name: str) -> None:
    assert not addresses.is_shard_name(name)


def test_paths_are_made_absolute_and_urls_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert addresses.absolute("a/./b.tar") == "/a/b.tar"
    assert addresses.absolute("http://h/a/./b.tar") == "http://h/a/./b.tar"


def test_unfinished_names_and_listings() -> None:
    assert addresses.is_temporary(".a.tar.1f2e3d4c.tmp")
    assert not addresses.is_temporary("a.tar.tmp")
    assert addresses.is_listing("d/dataset.json")
    assert addresses.is_listing("https://h/dataset.json?sig=x.tar")
    assert not addresses.is_listing("https://h/x.tar?next=dataset.json")


@given(st.lists(st.sampled_from(["/", ".", "..", "//", "a", "b c", "x.tar"]), min_size=1, max_size=8).map("".join))
def test_paths_are_made_absolute_as_the_system_does(path: str) -> None:
    assert addresses.absolute(path) == os.path.abspath(path)


@given(
    st.lists(st.sampled_from(["/", ".", "..", "//", "a", "b c", "x.tar"]), min_size=1, max_size=6).map("".join),
    st.sampled_from(["/data/dataset.json", "dataset.json", "/dataset.json", "../a/./d.json", "a//b/d.json"]),
)
def test_shards_lie_beside_their_listing_as_paths_do(address: str, listing: str) -> None:
    expected = address if address.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(listing), address))
    assert addresses.join(listing, address) == expected

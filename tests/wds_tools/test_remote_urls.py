"""What remote urls mean, and what must be said of them where nobody can list."""

from __future__ import annotations

import pytest

from wds_tools import addresses
from wds_tools.errors import UsageError
from wds_tools.urls import Place, places


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/d/", [Place("http://h/d/dataset.json", listing=True)]),
        ("http://h:8000", [Place("http://h:8000/dataset.json", listing=True)]),
        ("http://h?sig=a/b", [Place("http://h/dataset.json?sig=a/b", listing=True)]),
        ("https://h/d/?sig=1", [Place("https://h/d/dataset.json?sig=1", listing=True)]),
        ("http://h/d/dataset.json?v=2", [Place("http://h/d/dataset.json?v=2", listing=True)]),
        ("http://h/x-{0..1}.tar?s=a*b", [Place(f"http://h/x-{at}.tar?s=a*b", listing=False) for at in (0, 1)]),
        ("s3://b/d/train.json", [Place("s3://b/d/train.json", listing=True)]),
        ("s3://b/x.tar", [Place("s3://b/x.tar", listing=False)]),
    ],
)
def test_what_needs_no_asking(url: str, expected: list[Place]) -> None:
    assert places(url) == expected


def test_a_pattern_on_a_web_server_is_refused_with_the_cure() -> None:
    with pytest.raises(UsageError, match="braces") as caught:
        places("https://h/d/*.tar?token=hidden")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("listing", "address", "expected"),
    [
        ("http://h/d/dataset.json", "x.tar?a=b//c", "http://h/d/x.tar?a=b//c"),
        ("http://h/d/dataset.json?s=1", "../e/x.tar", "http://h/e/x.tar"),
        ("http://h/d/dataset.json", "/root/x.tar", "http://h/root/x.tar"),
        ("http://h/dataset.json", "x.tar#part", "http://h/x.tar#part"),
        ("http://h/d/dataset.json", "../../../x.tar", "http://h/x.tar"),
        ("http://h/d/dataset.json", "https://other/x.tar?q", "https://other/x.tar?q"),
        ("s3://b/d/dataset.json", "sub/what?.tar", "s3://b/d/sub/what?.tar"),
        ("s3://b/d/dataset.json", "C:/x.tar", "s3://b/d/C:/x.tar"),
    ],
)
def test_what_a_listing_on_a_host_names_lies_on_that_host(listing: str, address: str, expected: str) -> None:
    assert addresses.join(listing, address) == expected

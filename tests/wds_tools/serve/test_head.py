"""Request heads: what is understood, and what is refused with which status."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wds_tools.serve.head import BadRequestError, names_of, parse_head

HOST = b"\r\nHost: h:8000"


def test_a_plain_request() -> None:
    request = parse_head(b"GET /a/b%20c.tar?sig=1 HTTP/1.1" + HOST + b"\r\nRange:  bytes=0-9 \r\nX-A: 1\r\nx-a: 2")
    assert (request.method, request.path, request.host) == ("GET", "/a/b%20c.tar", "h")
    assert request.fields["range"] == "bytes=0-9"
    assert request.fields["x-a"] == "1, 2"
    assert request.keep_alive
    assert not request.has_body


@pytest.mark.parametrize(
    ("lines", "keep"),
    [
        (b"GET / HTTP/1.1\r\nHost: h", True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, CLOSE", False),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.1\nHost: h", True),  # bare line feeds
    ],
)
def test_whether_the_connection_goes_on(lines: bytes, keep: bool) -> None:
    assert parse_head(lines).keep_alive is keep


@pytest.mark.parametrize(
    ("field", "body"),
    [
        (b"Content-Length: 0", False),
        (b"Content-Length: 7", True),
        (b"Content-Length: x", True),
        (b"Transfer-Encoding: chunked", True),
        (b"X: y", False),
    ],
)
def test_whether_a_body_follows(field: bytes, body: bool) -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nHost: h\r\n" + field).has_body is body


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://other:80/a?b", "/a", "other"),
        (b"HTTPS://other", "/", "other"),
        (b"http://user@[::1]:80/a", "/a", "::1"),
        (b"/http://x/a", "/http://x/a", "h"),
        (b"*", "*", "h"),
    ],
)
def test_forms_of_the_target(target: bytes, path: str, host: str) -> None:
    request = parse_head(b"GET " + target + b" HTTP/1.1" + HOST)
    assert (request.path, request.host) == (path, host)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a", "/a", ""),
        (b"/a?q=x%20y&at=7", "/a", "q=x%20y&at=7"),
        (b"/a?q=1?2#3", "/a", "q=1?2"),
        (b"/a#b?c", "/a", ""),
        (b"http://other?b", "/", "b"),
    ],
)
def test_the_query_stands_behind_the_path(target: bytes, path: str, query: str) -> None:
    request = parse_head(b"GET " + target + b" HTTP/1.1" + HOST)
    assert (request.path, request.query) == (path, query)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", 400),
        (b"GET /", 400),
        (b"GET / HTTP/1.1", 400),  # no Host
        (b"GET  / HTTP/1.1" + HOST, 400),
        (b"GET /a b HTTP/1.1" + HOST, 400),
        (b"GET / HTTP/1.1 " + HOST, 400),
        (b"GET /\xff HTTP/1.1" + HOST, 400),
        (b"G\x00T / HTTP/1.1" + HOST, 400),
        (b"GET / HTTP/1.1" + HOST + HOST, 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nContent-Length: 1\r\nContent-Length: 1", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\n folded", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nA : b", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nA: b\rC: d", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nA: \x00", 400),
        (b"GET / HTTP/1.1" + HOST + b"\r\nno colon", 400),
        (b"GET / HTTP/2.0" + HOST, 505),
        (b"GET / HTTP/1.1" + HOST + b"\r\nA: b" * 100, 431),
    ],
)
def test_what_is_refused(head: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as got:
        parse_head(head)
    assert got.value.status == status


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for head in (data, b"GET / HTTP/1.1\r\nHost: h\r\n" + data):
        with contextlib.suppress(BadRequestError):
            names_of(parse_head(head).path)


@pytest.mark.parametrize(
    ("path", "names", "slash"),
    [
        ("/", [], True),
        ("/a.tar", ["a.tar"], False),
        ("/a/b%2etar", ["a", "b.tar"], False),
        ("/a/", ["a"], True),
        ("/100%.tar", ["100%.tar"], False),
        ("/%ff", ["\udcff"], False),
        ("/a..b/c...", ["a..b", "c..."], False),
    ],
)
def test_names_of_a_path(path: str, names: list[str], slash: bool) -> None:
    assert names_of(path) == (names, slash)


@pytest.mark.parametrize(
    "path",
    [
        *["*", "a", "//a", "/a//b", "/.", "/..", "/../a", "/a/../b", "/%2e%2e/a", "/%2E./a", "/.%2e/a", "/a%2fb"],
        *["/..%2fa", "/a%00", "/.hidden", "/a/.git/config", "/.a.tar.0123abcd.tmp", "h:443"],
    ],
)
def test_paths_that_name_nothing_served(path: str) -> None:
    with pytest.raises(BadRequestError) as got:
        names_of(path)
    assert got.value.status == 404

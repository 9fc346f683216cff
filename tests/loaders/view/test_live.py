"""The live server, over real sockets: its pages, its filters, and all that it refuses."""

from __future__ import annotations

import http.client
import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import loaders
from loaders.view import keys as keys_module
from loaders.view.live import Live
from loaders.view.viewer import Viewer
from tests.builders import write_pictures, write_shard
from tests.loaders.view.conftest import CUT, SCRIPT, fields
from tests.loaders.view.test_page import CHROMIUM, KNOWN, browse
from tests.wds_tools.show.test_markup import Parsed
from wds_tools import contents
from wds_tools.dataset import open_dataset
from wds_tools.index.listing import ShardRecord, write_listing
from wds_tools.make_index import make_index
from wds_tools.serve import WebServer, serve


class Reply(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def page(self) -> Parsed:
        assert self.fields["content-type"] == "text/html; charset=utf-8"
        return Parsed(self.body.decode())

    @property
    def links(self) -> list[str]:
        return [str(has["href"]) for tag, has in self.page.tags if tag == "a"]

    @property
    def samples(self) -> list[int]:
        """The numbers of the samples in the grid, from their links."""
        cards = [has for tag, has in self.page.tags if tag == "a" and "card" in str(has.get("class"))]
        return [int(str(has["href"]).removeprefix("/sample/")) for has in cards]


class Client:
    def __init__(self, server: WebServer) -> None:
        self._server = server

    def __call__(self, path: str, *, method: str = "GET", host: str | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=host is not None)
            if host is not None:
                connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            head = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, head, answer.read())
        finally:
            connection.close()

    def settled(self, path: str) -> Reply:
        """The page when nothing is being read in the background any more, asked for again as a browser does."""
        for _ in range(120):
            reply = self(path)
            if not any(has.get("http-equiv") == "refresh" for _, has in reply.page.tags):
                return reply
        raise AssertionError(f"{path} never settled")


@contextmanager
def live(urls: object, *, asked: bool = False) -> Iterator[Client]:
    with (
        loaders.open(str(urls)) as opened,
        Live(Viewer(opened, labels="cls"), "name", asked=asked) as shown,
        WebServer(host="127.0.0.1", port=0, respond=shown.respond) as server,
    ):
        yield Client(server)


@pytest.fixture(scope="module")
def get(hostile: Path) -> Iterator[Client]:
    with live(hostile) as client:
        yield client


def test_the_grid_shows_samples_with_their_thumbnails(get: Client) -> None:
    reply = get("/")
    assert (reply.status, reply.samples) == (200, list(range(16)))
    pictures = [str(has["src"]) for tag, has in reply.page.tags if tag == "img"]
    assert len(pictures) == 15
    for path in pictures:
        picture = get(path)
        assert (picture.status, picture.fields["content-type"]) == (200, "image/jpeg")
        assert Image.open(io.BytesIO(picture.body)).size == (200, 150)


def test_what_the_dataset_says_stays_text_on_every_page(get: Client) -> None:
    for path in (
        "/",
        "/overview",
        *(f"/sample/{n}" for n in range(16)),
        f"/?q={quote(SCRIPT)}",
        f"/?class={quote(SCRIPT)}",
    ):
        parsed = get(path).page
        assert {tag for tag, _ in parsed.tags} <= KNOWN | {"form", "button", "datalist", "option"}
        assert [tag for tag, _ in parsed.tags].count("script") == 1
        assert not [name for _, has in parsed.tags for name in has if name.startswith("on") or name == "style"]


def test_pages_keep_others_out(get: Client) -> None:
    head = get("/").fields
    assert "default-src 'none'; img-src 'self'; " in head["content-security-policy"]
    assert head["content-security-policy"].endswith("frame-ancestors 'none'")
    assert "unsafe" not in head["content-security-policy"]
    assert head["cross-origin-resource-policy"] == "same-origin"
    assert (head["referrer-policy"], head["cache-control"]) == ("no-referrer", "no-store")
    assert head["x-content-type-options"] == "nosniff"


def test_a_sample_has_a_page_of_all_its_fields(get: Client) -> None:
    reply = get("/sample/5")
    for text in ("sample 5 of 16", "float32 (500,)", '"id": 5', "values 0, 3", "2 (owl)"):
        assert text in reply.page.text
    assert {"/sample/4", "/sample/6", "/?shard=0", "/raw/5/0"} <= set(reply.links)
    assert get("/raw/5/0").body == fields(5)["jpg"]


def test_bytes_leave_as_downloads_of_no_type(get: Client) -> None:
    head = get("/raw/0/6").fields
    assert head["content-type"] == "application/octet-stream"
    assert head["content-disposition"] == 'attachment; filename="0.bin"'


def test_what_is_broken_says_why(get: Client) -> None:
    assert "JPEG picture cut off" in get(f"/sample/{CUT}").page.text
    assert "JPEG picture cut off" in get("/").page.text
    assert f"/sample/{CUT}" in get("/overview").links


def test_the_overview_leads_to_the_shards(get: Client) -> None:
    reply = get("/overview")
    assert "16samples" in reply.page.text
    assert {"/?shard=0", "/?shard=1"} <= set(reply.links)


def test_filters_and_their_combinations(get: Client) -> None:
    assert get("/?shard=1").samples == list(range(8, 16))
    assert get.settled("/?class=owl").samples == [2, 5, 8, 11, 14]
    assert get.settled("/?class=2&shard=1").samples == [8, 11, 14]
    assert get.settled("/?q=plain").samples == [6, 14]
    assert get.settled("/?q=^plain&class=owl").samples == [14]
    assert get.settled("/?q=plain&shard=0").samples == [6]
    assert get.settled(f"/?q={quote('猫')}").samples == [5, 13]
    assert get("/?q=%2315").samples == [15]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/?class=owls", "The nearest is 'owl'"),
        ("/?shard=2", "there is no shard 2. The last one is 1."),
        ("/?q=%23999", "there is no sample #999"),
        ("/?q=^", "nothing to search for"),
    ],
)
def test_a_filter_that_finds_nothing_says_why(get: Client, path: str, message: str) -> None:
    reply = get.settled(path)
    assert (reply.status, reply.samples) == (200, [])
    assert message in reply.page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, 404) for path in (
            "/nothing", "/sample/", "/sample/16", "/sample/-1", "/sample/1e3", "/sample/0/0", "/sample/%31/..",
            "/sample/9999999999999999999999", "/small/0/99/0", "/small/0/0/9", "/small/0/1/0", "/raw/0/99",
            "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/sample/..%2f..%2fetc%2fpasswd", "//etc/passwd",
            "/sample/1%00", "/%ff", "/?at=-1", "/?at=x", "/?shard=%C2%B2", "/raw/0/0/../../../etc/passwd",
        )),
        ("/?" + "&".join(f"a{n}=1" for n in range(500)), 404),
    ],
)  # fmt: skip
def test_paths_that_name_nothing(get: Client, path: str, status: int) -> None:
    reply = get(path)
    assert reply.status == status
    assert b"root:" not in reply.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_get_and_head(get: Client, method: str) -> None:
    assert get("/", method=method).status == 405


def test_head_is_get_without_the_body(get: Client) -> None:
    reply = get("/overview", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"])
def test_another_host_s_name_is_refused(get: Client, host: str) -> None:
    assert get("/", host=host).status == 421
    assert get("/raw/0/0", host=host).status == 421


def test_a_place_beyond_the_end_is_the_end(get: Client) -> None:
    assert get("/?at=999999999").samples == [15]


def test_a_fault_of_ours_ends_one_page_and_not_the_server(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with live(hostile) as get:
        with monkeypatch.context() as patch:
            patch.setattr("loaders.view.live.chosen", lambda *_: 1 / 0)
            assert get("/overview").status == 500
        assert "ZeroDivisionError" in caplog.text
        assert get("/overview").status == 200


def test_a_shard_that_goes_away_is_shown_as_gone(tmp_path: Path) -> None:
    folder = Path(write_pictures(tmp_path / "d", [3, 3]))
    with live(folder) as get:
        (folder / "s-0001.tar").unlink()
        reply = get("/")
        assert reply.samples == list(range(6))
        assert "ShardMissingError" in reply.page.text
        assert get("/raw/4/0").status == 502
        write_pictures(tmp_path / "d", [3, 3])
        assert "ShardMissingError" not in get("/").page.text


def test_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pictures(tmp_path / "d", [5, 5])
    make_index(folder)
    with serve(folder) as server, live(f"{server.url}/dataset.json") as get:
        assert get("/").samples == list(range(10))
        assert get.settled("/?class=7").samples == [7]
        assert get.settled("/?q=00003").samples == [3]
    monkeypatch.setattr("loaders.view.classes.REMOTE_BYTES", 1000)
    with serve(folder) as server:
        url = f"{server.url}/dataset.json"
        with live(url) as get:
            assert "Start with --labels cls" in get("/?class=7").page.text
        with live(url, asked=True) as get:
            assert get.settled("/?class=7").samples == [7]


def test_closing_ends_the_reading_of_classes_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pictures(tmp_path / "d", [2] * 40)
    at_work, go_on = threading.Event(), threading.Event()
    walk = contents.keys

    def slowly(source: object) -> Iterator[str]:
        at_work.set()
        go_on.wait(60)
        return walk(source)  # type: ignore[arg-type]

    monkeypatch.setattr(keys_module, "keys", slowly)
    with live(folder) as get:
        reply = get("/?q=0")
        assert "0 of 40 shards searched so far" in reply.page.text
        assert at_work.wait(60)
        go_on.set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("shardstream-keys")]


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000,000 samples: one real shard of 1,000 under 1,000 names, with a listing and offsets."""
    folder = tmp_path_factory.mktemp("million")
    first = write_shard(folder / "s-000.tar", [(f"k{n:03d}", {"cls": str(n % 10).encode()}) for n in range(1000)])
    offsets, nbytes = open_dataset(first).offsets, first.stat().st_size
    for shard in range(1, 1000):
        os.link(first, folder / f"s-{shard:03d}.tar")
    records = [ShardRecord(url=f"s-{n:03d}.tar", samples=1000, bytes=nbytes, offsets=offsets) for n in range(1000)]
    write_listing(folder / "dataset.json", records, name="million")
    return folder


@pytest.mark.long
def test_a_million_samples_are_paged_searched_and_filtered(million: Path) -> None:
    with live(million) as get:
        reply = get("/?at=777660")
        assert reply.samples == list(range(777_660, 777_720))
        assert "777,661 to 777,720 of 1,000,000" in reply.page.text
        assert {"/?at=777720", "/?at=777600", "/?at=999960"} <= set(reply.links)
        assert get("/sample/999999").status == 200
        assert get("/?shard=999").samples == list(range(999_000, 999_060))
        assert get("/?q=%23500000").samples[0] == 500_000
        owls = get.settled("/?class=7&at=60000").samples
        assert owls == list(range(600_007, 600_607, 10))
        found = get.settled("/?q=k123")
        assert found.samples == list(np.arange(60) * 1000 + 123)
        assert "1 to 60 of 1,000" in found.page.text
        assert "the first 10,000 keys that match" in get.settled("/?q=k").page.text


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_the_live_pages_and_runs_nothing_of_the_dataset(get: Client, tmp_path: Path) -> None:
    for at, path in enumerate(("/", "/sample/0", "/overview")):
        dom = browse(f"http://127.0.0.1:{get._server.port}{path}", tmp_path / str(at), "--dump-dom")
        title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
        assert title is not None
        assert title[1] != "owned"
        assert "<table" in dom or 'class="card' in dom

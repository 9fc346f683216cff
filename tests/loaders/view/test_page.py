"""The page: all facts, all samples with all fields, what is broken; and nothing that a dataset holds becomes html."""

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import loaders
from loaders.view.facts import facts_of
from loaders.view.page import page
from loaders.view.viewer import Viewer
from tests.builders import write_shard
from tests.loaders.view.conftest import CUT, SCRIPT
from tests.wds_tools.show.test_markup import Parsed
from wds_tools.codec import encode_field

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")  # fmt: skip
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "script", "header", "nav", "h1", "h2", "small", "section", "div",
    "span", "b", "a", "p", "footer", "input", "details", "summary", "pre", "bdi", "img", "table", "thead", "tbody",
    "tr", "th", "td", "svg", "rect", "line", "circle", "text",
}  # fmt: skip


def page_of(urls: object, *, count_classes: bool = False) -> str:
    with loaders.open(str(urls)) as opened:
        viewer = Viewer(opened, labels="cls")
        seen = list(viewer.see_all(range(len(opened)), side=96))
        return page(facts_of(viewer, seen, name="name", count_classes=count_classes), seen)


@pytest.fixture(scope="module")
def html(hostile: Path) -> str:
    return page_of(hostile)


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def test_only_the_page_s_own_elements_are_in_it(parsed: Parsed) -> None:
    assert {tag for tag, _ in parsed.tags} <= KNOWN
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    names = {name for _, has in parsed.tags for name in has}
    assert not [name for name in names if name.startswith("on") or name == "style"]


def test_what_the_dataset_says_is_shown_as_text(parsed: Parsed) -> None:
    for text in (SCRIPT, "exe\\u202egpj", "مفتاح/one", "猫", "a{b}&amp;c", "wds pack <script>", "</script><script>"):
        assert text in parsed.text


def test_nothing_comes_from_elsewhere(parsed: Parsed) -> None:
    for tag, has in parsed.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            if name in has:
                assert (tag, str(has[name])[:11]) == ("img", "data:image/")


def test_the_policy_admits_one_style_and_one_script_by_their_hashes(html: str, parsed: Parsed) -> None:
    policy = next(has["content"] for tag, has in parsed.tags if has.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'; img-src data:; " in policy
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        found = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{found}'" in policy


def test_every_sample_shows_every_field(parsed: Parsed) -> None:
    cards = [has for tag, has in parsed.tags if tag == "details" and "card" in str(has.get("class"))]
    assert len(cards) == 16
    assert [str(has["class"]) for has in cards].count("card broken") == 1
    for text in ("jpeg 200 x 150, RGB", "values 0, 3", "float32 (500,), 0 to 499, mean 249.5", '"id": 15', "2 (owl)"):
        assert text in parsed.text


def test_what_is_broken_is_named(parsed: Parsed) -> None:
    assert "1broken16 looked at" in parsed.text
    assert re.search(rf"{CUT}plain-{CUT}jpgJPEG picture cut off after \d+ bytes", parsed.text)


def test_thumbnails_are_pictures(parsed: Parsed) -> None:
    sources = [str(has["src"]) for tag, has in parsed.tags if tag == "img"]
    assert len(sources) == 15 + 15 + 16  # on the cards, among the fields, and the masks
    for source in sources:
        image = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        assert max(image.size) <= 96


def test_classes_sizes_and_shards(parsed: Parsed) -> None:
    assert "Classes, by cls 16 samples looked at" in parsed.text
    assert "owl5" in parsed.text
    assert len([tag for tag, _ in parsed.tags if tag == "circle"]) == 16
    assert "s-1.tar8" in parsed.text


def test_classes_are_counted_in_all_samples_where_that_is_asked_for(tmp_path: Path) -> None:
    samples = [(f"{n:04d}", {"cls": str(n % 50).encode()}) for n in range(400)]
    write_shard(tmp_path / "a.tar", samples)
    with loaders.open(tmp_path) as opened:
        viewer = Viewer(opened, labels="cls")
        seen = list(viewer.see_all(range(3), side=9))
        few, all_of_them = (facts_of(viewer, seen, name="x", count_classes=count) for count in (False, True))
    assert few.histogram == ("cls", [("0", 1), ("1", 1), ("2", 1)], False)
    assert all_of_them.histogram == ("cls", [(str(n), 8) for n in range(50)], True)
    drawn = Parsed(page(all_of_them, seen))
    assert "50 classes, the most frequent first" in drawn.text
    assert len([has for tag, has in drawn.tags if tag == "rect" and "height" in has]) == 50 + 16


def test_samples_that_cannot_be_read_are_shown_with_the_reason(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [("a", {"cls": b"1"}), ("b", {"cls": b"2"})])
    with loaders.open(tmp_path) as opened:
        viewer = Viewer(opened, labels="cls")
        (tmp_path / "a.tar").unlink()
        seen = list(viewer.see_all(range(2), side=9))
        text = Parsed(page(facts_of(viewer, seen, name="gone"), seen)).text
    assert text.count("ShardMissingError") >= 2
    assert "2broken2 looked at" in text


def test_a_dataset_without_samples_or_pictures_has_a_page_too(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [])
    assert "0samples" in Parsed(page_of(tmp_path)).text
    write_shard(tmp_path / "b" / "a.tar", [("k", {"txt": b"words", "npy": encode_field("npy", np.zeros(1))})])
    assert "words" in Parsed(page_of(tmp_path / "b")).text


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_it_and_runs_nothing_of_the_dataset(html: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    dom = browse(file.as_uri(), tmp_path / "one", "--dump-dom")
    parsed = Parsed(dom)
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None
    assert title[1] != "owned"
    assert len([has for tag, has in parsed.tags if tag == "details" and "card" in str(has.get("class"))]) == 16
    shot = tmp_path / "page.png"
    browse(file.as_uri(), tmp_path / "two", f"--screenshot={shot}", "--window-size=1200,1600")
    with Image.open(shot) as image:
        assert image.size == (1200, 1600)
        assert len(image.convert("RGB").resize((200, 260)).getcolors(1 << 16) or ()) > 100  # no blank page


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_policy_holds_where_escaping_would_fail(html: str, tmp_path: Path) -> None:
    """Markup put into the finished page: the browser itself refuses to run it."""
    file = tmp_path / "page.html"
    file.write_text(html.replace("<body>", f"<body>{SCRIPT}<img src=x onerror=\"document.title='owned'\">"))
    dom = browse(file.as_uri(), tmp_path / "profile", "--dump-dom")
    assert SCRIPT in dom
    assert "<title>owned</title>" not in dom


def browse(address: str, profile: Path, *flags: str) -> str:
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=4000", *flags, address],
        capture_output=True, text=True, timeout=120, check=True, env=os.environ | {"HOME": str(profile)},
    )  # fmt: skip
    return done.stdout

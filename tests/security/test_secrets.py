"""Passwords, tokens and signatures of urls stand in no message, log line, repr, file name or file.

One dataset on a server whose url has a user, a password and a token; every command and a loader read it, and whatever
they print, log and leave on the disk is searched.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import loaders
from loaders import Reading
from shardwriter import pack
from shardwriter.inputs import open_shards
from tests.builders import picture, write_shard
from tests.servers.faulty import Behaviour, FaultyServer, says
from wds_tools import errors
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.errors import UsageError
from wds_tools.make_index import make_index
from wds_tools.merge_listings import merge_listings
from wds_tools.sources.http import close_idle
from wds_tools.sources.options import Remote

SECRET = "s3cr3t-0f-m1ne"


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture
def cache() -> Path:
    """The user's cache directory: of every test its own."""
    return Path(os.environ["XDG_CACHE_HOME"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    """Two shards, the second with a picture that is cut off, and their listing."""
    folder = tmp_path / "served"
    for shard in range(2):
        samples = [
            (f"{n:03d}", {"jpg": picture(n)[: 300 if n == 7 else None], "cls": b"%d" % (n % 3)})
            for n in range(5 * shard, 5 * shard + 5)
        ]
        write_shard(folder / f"s-{shard}.tar", samples)
    make_index(folder)
    with FaultyServer({f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}) as server:
        yield server


def _secret(server: FaultyServer, path: str) -> str:
    return (
        f"http://me:{SECRET}@127.0.0.1:{server.port}{path}?token={SECRET}&X-Amz-Credential=c&X-Amz-Signature={SECRET}"
    )


def _no_secret_below(*folders: Path) -> None:
    looked_at = 0
    for folder in folders:
        for path in folder.rglob("*"):
            assert SECRET not in str(path)
            if path.is_file():
                looked_at += 1
                assert SECRET.encode() not in path.read_bytes(), path
    assert looked_at


@pytest.mark.parametrize(
    "command",
    [
        "info", "info --json", "ls", "ls --json", "ls --long", "verify", "verify --decode --json",
        "plan --batch-size 2", "plan --json", "cat --json {url} 006",
        "view --class 1 --labels cls --json --out {out}/sheet.png",
        "bench --batch-size 2 --seconds 0.2", "view --json --out {out}/sheet.png", "view --html {out}/page.html",
        "reshard {url} {out}/again --name again", "index {url} --out {out}/index", "cat {url} 006", "cat {url} none",
        "cache warm {url}", "cache warm --json", "cat {url} 006 too much {url}", "nothing {url}",
    ],
)  # fmt: skip
def test_no_command_shows_or_keeps_them(
    command: str,
    server: FaultyServer,
    tmp_path: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    out = tmp_path / "out"
    out.mkdir()
    shard = _secret(server, "/d/s-1.tar").replace(f"token={SECRET}&", "")  # a token would be refused by index
    words = command.format(url=shard, out=out).split()
    if "{url}" not in command:
        words.append(_secret(server, "/d/dataset.json"))
    run = CliRunner().invoke(root, words)
    assert not isinstance(run.exception, AssertionError | TypeError), run.output
    assert run.exit_code in {0, 1, 2}
    assert server.requests or run.exit_code == 2, run.output
    assert SECRET not in run.output
    assert SECRET not in caplog.text
    assert run.exception is None or SECRET not in "".join(traceback.format_exception(run.exception))
    (out / "something").touch()
    _no_secret_below(out, cache)


def test_a_loader_keeps_them_to_itself(
    server: FaultyServer, tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    quarantine = tmp_path / "files" / "bad.jsonl"
    quarantine.parent.mkdir()
    read = Reading(cache_dir=tmp_path / "files" / "cache", remote=Remote(headers={"X-Key": SECRET}))
    with loaders.ShardLoader(
        _secret(server, "/d/dataset.json").replace("me:", "you:"), batch_size=2, image=loaders.CenterCrop(16),
        on_error="skip", quarantine=quarantine, read=read, fields=("jpg", "cls"),
    ) as loader:  # fmt: skip
        assert sum(len(batch.cls) for batch in loader) == 10
        shown = [repr(loader), str(loader.report()), repr(loader.report()), json.dumps(loader.state_dict())]
        shown += [repr(loader.dataset), repr(read), loader._repr_html_() if hasattr(loader, "_repr_html_") else ""]
    (line,) = quarantine.read_text().splitlines()
    assert json.loads(line)["key"] == "007"
    assert SECRET not in "".join(shown)
    assert SECRET not in caplog.text
    _no_secret_below(tmp_path / "files", cache)


def test_what_fails_says_so_without_them(server: FaultyServer, caplog: pytest.LogCaptureFixture) -> None:
    url = _secret(server, "/d/gone.tar")
    server.routes["/d/gone.tar"] = Behaviour(says(403))
    for text in (url, [url], _secret(server, "/none/{00..03}.tar")):
        with pytest.raises(errors.ShardstreamError) as caught:
            list(loaders.samples(text))
        again = pickle.loads(pickle.dumps(caught.value))
        for each in (caught.value, again):
            assert SECRET not in "".join([str(each), repr(each), *traceback.format_exception(each)])
    assert SECRET not in caplog.text


def test_reprs_of_errors_hide_what_their_words_hide() -> None:
    error = errors.UnavailableError(f"GET https://me:{SECRET}@h/x?sig={SECRET} failed", url=f"https://h/x?a={SECRET}")
    assert SECRET not in repr(error)
    assert repr(error).startswith("UnavailableError('GET https://h/x?sig=... failed")
    assert SECRET not in repr([error])


def test_packing_shards_names_their_samples_without_them(server: FaultyServer, tmp_path: Path) -> None:
    samples = open_shards([_secret(server, f"/d/s-{at}.tar") for at in range(2)])
    pack(samples, tmp_path / "out", name="again", max_failures=None)
    assert "7" in (tmp_path / "out" / "failures.jsonl").read_text()
    _no_secret_below(tmp_path / "out")


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://me:{secret}@{host}/d/s-0.tar", "http://{host}/d/s-0.tar"),
        ("http://{host}/d/s-0.tar?X-Amz-Credential=c&X-Amz-Signature={secret}", "http://{host}/d/s-0.tar"),
        ("http://{host}/d/s-0.tar?sv=1&sig={secret}&v=2", "http://{host}/d/s-0.tar?v=2"),
        ("http://{host}/d/s-0.tar?v=2", "http://{host}/d/s-0.tar?v=2"),
        ("http://{host}/d/s-0.tar", "http://{host}/d/s-0.tar"),
    ],
)
def test_a_listing_names_objects_and_not_what_opens_them(
    url: str, named: str, server: FaultyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = {"secret": SECRET, "host": f"127.0.0.1:{server.port}"}
    (made,) = make_index(url.format(**place), out=tmp_path / "out")
    assert made.samples == 5
    assert list(open_dataset(tmp_path / "out").urls) == [named.format(**place)]
    assert ("without passwords" in caplog.text) == (SECRET in url.format(**place))
    _no_secret_below(tmp_path / "out")


def test_joined_listings_name_objects_too(server: FaultyServer, tmp_path: Path) -> None:
    place = f"http://me:{SECRET}@127.0.0.1:{server.port}/d/dataset.json"
    merge_listings([place], out=tmp_path / "out")
    assert list(open_dataset(tmp_path / "out").urls) == [server.url(f"/d/s-{at}.tar") for at in range(2)]
    _no_secret_below(tmp_path / "out")


@pytest.mark.parametrize("name", ["token", "access_token", "X-Api-Key", "sig", "password"])
def test_a_listing_that_would_pass_a_secret_on_is_not_written(name: str, server: FaultyServer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{name} in the url looks like a secret") as caught:
        make_index(server.url(f"/d/s-0.tar?{name}={SECRET}"), out=tmp_path / "out")
    assert SECRET not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not server.requests

"""A listing on a host is somebody else's text: what it names gets no headers of the user's, and opens no file here.

Redirects and netrc: tests/wds_tools/sources/test_http_places.py.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

import loaders
from loaders import Reading
from shardwriter import pack
from shardwriter.inputs import flat_folder
from tests.builders import write_labels
from tests.servers.faulty import Behaviour, FaultyServer, Stored, well
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.errors import ListingError, UsageError
from wds_tools.make_index import make_index
from wds_tools.merge_listings import merge_listings
from wds_tools.sources.http import close_idle
from wds_tools.sources.options import Headers, Remote
from wds_tools.urls import expand

TOKEN = {"Authorization": "Bearer s3cr3t"}


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = Path(write_labels(tmp_path / "d", [5, 4]))
    make_index(folder)
    return folder


@pytest.fixture
def stranger(folder: Path) -> Iterator[FaultyServer]:
    """A host that the user has not named."""
    with FaultyServer({f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}) as server:
        yield server


def _listing(folder: Path, **changed: object) -> bytes:
    return json.dumps(json.loads((folder / "dataset.json").read_text()) | changed).encode()


def _leading_away(folder: Path, stranger: FaultyServer) -> dict[str, bytes]:
    """Listings of a host that name what lies on another: a shard, the offsets, another listing."""
    shards = json.loads((folder / "dataset.json").read_text())["shardlist"]
    away = [shards[0], shards[1] | {"url": stranger.url("/d/s-0001.tar")}]
    return {
        "/shard/dataset.json": _listing(folder, shardlist=away),
        "/offsets/dataset.json": _listing(folder, offsets=stranger.url("/d/dataset.offsets.npy")),
        "/part/dataset.json": _listing(
            folder, shardlist=[], datasets=[{"source_url": stranger.url("/d/dataset.json"), "perepoch": 1}]
        ),
    } | {f"/offsets/{path.name}": path.read_bytes() for path in folder.glob("*.tar")}


class _Renewed:
    """A token that is looked up for each request, and is the same for every url."""

    same_for_all = True

    def __call__(self, url: str) -> Mapping[str, str]:
        del url
        return TOKEN


@pytest.mark.parametrize("headers", [TOKEN, _Renewed()], ids=["mapping", "function"])
@pytest.mark.parametrize("kind", ["shard", "offsets", "part"])
def test_a_host_that_only_a_listing_names_gets_no_headers(
    kind: str, headers: Headers, folder: Path, stranger: FaultyServer
) -> None:
    with FaultyServer(_leading_away(folder, stranger)) as host:
        url = host.url(f"/{kind}/dataset.json")
        with pytest.raises(UsageError, match="on another host, which would be sent your headers") as caught:
            open_dataset(url, remote=Remote(headers=headers))
        assert "function of the url" in str(caught.value)
        with pytest.raises(UsageError, match="another host"):
            expand(url, remote=Remote(headers=headers))
    assert stranger.requests == []


@pytest.mark.parametrize("command", ["cache warm", "info", "ls", "verify", "verify --decode", "plan --batch-size 2"])
def test_a_file_of_headers_is_for_the_hosts_that_a_command_names(
    command: str, folder: Path, stranger: FaultyServer, tmp_path: Path
) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer s3cr3t\n")
    with FaultyServer(_leading_away(folder, stranger)) as host:
        words = [*command.split(), "--headers", str(tmp_path / "headers"), host.url("/shard/dataset.json")]
        run = CliRunner().invoke(root, words)
    assert run.exit_code == 2, run.output
    assert "your headers" in run.output
    assert stranger.requests == []


def test_listings_to_be_joined_are_held_to_it_whatever_they_say_later(
    folder: Path, stranger: FaultyServer, tmp_path: Path
) -> None:
    hostile = _leading_away(folder, stranger)["/part/dataset.json"]
    first = Behaviour(plan=lambda request, _: well(request, Stored(hostile)))
    with FaultyServer({f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}, [first]) as host:
        with pytest.raises(UsageError, match="on another host, which would be sent your headers"):
            merge_listings([host.url("/d/dataset.json")], out=tmp_path, remote=Remote(headers=TOKEN))
    assert stranger.requests == []


@pytest.mark.parametrize("same", [True, False], ids=["same-host", "another-host"])
def test_a_part_names_its_keys_on_its_own_host(same: bool, stranger: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    for number in range(3):
        (tmp_path / f"flat/{number}.cls").write_text("1")
    pack(flat_folder(tmp_path / "flat", keys="number"), tmp_path / "out", part=(0, 1))
    (listing,) = (tmp_path / "out").glob("*.json")
    with FaultyServer({f"/d/{path.name}": path.read_bytes() for path in (tmp_path / "out").iterdir()}) as host:
        if not same:
            moved = json.loads(listing.read_text()) | {"originals": stranger.url("/d/keys.tsv")}
            host.put(f"/d/{listing.name}", json.dumps(moved).encode())
        with contextlib.nullcontext() if same else pytest.raises(UsageError, match="your headers"):
            merge_listings([host.url(f"/d/{listing.name}")], out=tmp_path / "joined", remote=Remote(headers=TOKEN))
    assert (tmp_path / "joined/train.keys.tsv").exists() is same
    assert stranger.requests == []


def _for_one_host(port: int) -> Remote:
    def headers(url: str) -> Mapping[str, str]:
        return TOKEN if f":{port}/" in url else {}

    return Remote(headers=headers)


def test_a_function_says_who_gets_them(folder: Path, stranger: FaultyServer) -> None:
    with FaultyServer(_leading_away(folder, stranger)) as host:
        dataset = open_dataset(host.url("/offsets/dataset.json"), remote=_for_one_host(host.port))
        assert len(dataset) == 9
        assert {request.headers.get("authorization") for request in host.requests} == {TOKEN["Authorization"]}
    assert [request.path for request in stranger.requests if "authorization" in request.headers] == []
    assert stranger.requests


def test_on_the_same_host_headers_go_along(folder: Path) -> None:
    files = {f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}
    with FaultyServer(files) as host:
        shards = json.loads(files["/d/dataset.json"])["shardlist"]
        for at, shard in enumerate(shards):
            shard["url"] = host.url(f"/d/s-{at:04d}.tar")
        host.put("/e/dataset.json", _listing(folder, shardlist=shards, offsets="../d/dataset.offsets.npy"))
        for listing in ("/d/dataset.json", "/e/dataset.json"):
            read = Reading(remote=Remote(headers=TOKEN))
            with loaders.ShardLoader(
                host.url(listing), fields=("cls",), batch_size=3, shuffle=False, read=read
            ) as loader:
                assert sum(len(batch.cls) for batch in loader) == 9
        assert {request.headers.get("authorization") for request in host.requests} == {TOKEN["Authorization"]}


def test_a_listing_of_ones_own_may_name_any_host(folder: Path, stranger: FaultyServer, tmp_path: Path) -> None:
    shards = json.loads((folder / "dataset.json").read_text())["shardlist"]
    own = [shard | {"url": stranger.url(f"/d/{shard['url']}")} for shard in shards]
    (tmp_path / "dataset.json").write_bytes(
        _listing(folder, shardlist=own, offsets=stranger.url("/d/dataset.offsets.npy"))
    )
    assert len(open_dataset(tmp_path / "dataset.json", remote=Remote(headers=TOKEN))) == 9
    assert {request.headers.get("authorization") for request in stranger.requests} == {TOKEN["Authorization"]}


@pytest.mark.parametrize("what", ["shard", "offsets", "base"])
def test_a_listing_on_a_host_opens_no_file_of_this_machine(what: str, folder: Path) -> None:
    own = folder.as_uri()
    shards = [{"url": f"{own}/s-0000.tar", "nsamples": 5, "filesize": (folder / "s-0000.tar").stat().st_size}]
    listing = {
        "shard": _listing(folder, shardlist=shards),
        "offsets": _listing(folder, offsets=f"{own}/dataset.offsets.npy"),
        "base": _listing(folder, base=own),
    }[what]
    with FaultyServer({"/d/dataset.json": listing}) as host:
        with pytest.raises(ListingError, match="names a file of this machine"):
            open_dataset(host.url("/d/dataset.json"))

"""`wds index URL`: one pass over each remote shard, and a listing that opens as one beside local shards does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner

from tests.builders import write_labels
from tests.servers.faulty import FaultyServer
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.errors import NoShardsError, ShardError, TargetError, UsageError
from wds_tools.make_index import make_index
from wds_tools.sources.http import close_idle


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_labels(tmp_path_factory.mktemp("d"), [7, 5, 4]))


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture
def server(folder: Path) -> Iterator[FaultyServer]:
    with FaultyServer({f"/d/{path.name}": path.read_bytes() for path in folder.glob("*.tar")}) as server:
        yield server


@pytest.fixture
def store(folder: Path) -> Iterator[str]:
    """The shards in an object store in memory."""
    system = fsspec.filesystem("memory")
    for path in folder.glob("*.tar"):
        system.pipe_file(f"/index-tests/{path.name}", path.read_bytes())
    yield "memory://index-tests"
    system.rm("/index-tests", recursive=True)


def test_a_listing_of_shards_on_a_web_server_is_written_here(
    server: FaultyServer, folder: Path, tmp_path: Path
) -> None:
    url = server.url("/d/s-{0000..0002}.tar")
    (made,) = make_index(url, out=tmp_path / "out")
    assert (made.listing, made.samples, made.shards, made.made) == (tmp_path / "out" / "dataset.json", 16, 3, True)
    assert sorted(request.path for request in server.requests) == [f"/d/s-000{at}.tar" for at in range(3)]
    assert [request.range for request in server.requests] == [None] * 3
    dataset = open_dataset(tmp_path / "out")
    assert list(dataset.urls) == [server.url(f"/d/s-000{at}.tar") for at in range(3)]
    local = open_dataset(folder)
    assert np.array_equal(dataset.offsets, local.offsets)
    assert dataset.sizes.tolist() == local.sizes.tolist()
    assert dataset.listing["fields"] == {"cls": 16}


def test_nothing_is_overwritten_without_force(server: FaultyServer, tmp_path: Path) -> None:
    url = server.url("/d/s-{0000..0001}.tar")
    make_index(url, out=tmp_path)
    server.requests.clear()
    with pytest.raises(TargetError, match="a listing is there"):
        make_index(url, out=tmp_path)
    assert not server.requests
    (made,) = make_index(server.url("/d/s-0002.tar"), out=tmp_path, force=True)
    assert len(open_dataset(tmp_path)) == made.samples == 4


def test_a_web_server_takes_no_listing(server: FaultyServer, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        make_index(server.url("/d/s-0000.tar"))
    with pytest.raises(UsageError, match="--dali"):
        make_index(server.url("/d/s-0000.tar"), out=tmp_path, dali=True)
    with pytest.raises(UsageError, match="local and remote"):
        make_index([server.url("/d/s-0000.tar"), folder / "s-0001.tar"], out=tmp_path)
    with pytest.raises(UsageError, match="beside its shards"):
        make_index(folder, out=tmp_path)


def test_damage_leaves_no_listing(server: FaultyServer, folder: Path, tmp_path: Path) -> None:
    server.put("/d/s-0001.tar", (folder / "s-0001.tar").read_bytes()[:3000])
    with pytest.raises(ShardError) as caught:
        make_index(server.url("/d/s-{0000..0002}.tar"), out=tmp_path / "out")
    assert caught.value.url == server.url("/d/s-0001.tar")
    assert not (tmp_path / "out").exists()


def test_in_a_store_the_listing_lies_beside_the_shards(store: str, folder: Path) -> None:
    for urls in (f"{store}/", f"{store}/*.tar", f"{store}/s-{{0000..0002}}.tar"):
        (made,) = make_index(urls, force=True)
        assert made.listing == f"{store}/dataset.json"
        dataset = open_dataset(f"{store}/")
        assert list(dataset.urls) == [f"{store}/s-000{at}.tar" for at in range(3)]
        assert np.array_equal(dataset.offsets, open_dataset(folder).offsets)
    with pytest.raises(TargetError, match="a listing is there"):
        make_index(f"{store}/*.tar")


def test_what_a_store_does_not_have(store: str) -> None:
    for urls in (f"{store}/x*.tar", f"{store}/none/"):
        with pytest.raises(NoShardsError):
            make_index(urls)


def test_the_commands_take_urls(server: FaultyServer, folder: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(root, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    url = server.url("/d/s-{0000..0002}.tar")
    assert "16 samples in 3 shards" in run("index", url, "--out", str(tmp_path))
    assert run("ls", url) == run("ls", str(folder))
    server.requests.clear()
    assert run("cat", str(tmp_path / "dataset.json"), "#9", "cls") == "9"
    assert [request.range is not None for request in server.requests] == [True]
    assert "cls" in run("cat", server.url("/d/s-0001.tar"), "000009")
    assert "16" in run("info", str(tmp_path / "dataset.json"))

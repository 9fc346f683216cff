"""Troubles with paths and file urls (B57): those of Windows by the parser, odd names on a real disk."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

import loaders
from loaders import ShardLoader
from shardwriter import ShardWriter
from tests.servers.faulty import FaultyServer
from wds_tools import addresses
from wds_tools.errors import UsageError
from wds_tools.sources.http import close_idle
from wds_tools.urls import expand

NAMES = ["a b", "a#b", "a?b", "a%20b", "{0..3}", "{x}", "a&b", "it's", '"q"', "ü-猫", "a;b", "$HOME", "x[1]", "*", "~"]


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("D:/x.tar", "D:/x.tar"),
        (r"C:\data\s-000.tar", r"C:\data\s-000.tar"),
        (r"\\srv\share\x.tar", r"\\srv\share\x.tar"),
        (r"data\x.tar", r"data\x.tar"),
        ("file:///C:/x%20y.tar", "C:/x y.tar"),
        ("file://srv/share/x.tar", r"\\srv\share\x.tar"),
    ],
)
def test_b57_windows_paths_are_paths(address: str, path: str) -> None:
    # https://github.com/webdataset/webdataset/issues/29
    assert addresses.path_of(address, windows=True) == path
    assert not addresses.is_remote(address)


def test_b57_backslashes_survive_braces() -> None:
    assert addresses.expand_braces(r"C:\data\s-{000..002}.tar") == [rf"C:\data\s-00{n}.tar" for n in range(3)]


def test_b57_a_file_url_of_another_host_is_refused() -> None:
    with pytest.raises(UsageError, match="another host"):
        addresses.path_of("file://elsewhere/x.tar", windows=False)


@pytest.mark.parametrize("name", NAMES)
def test_b57_odd_names_are_written_listed_and_read(tmp_path: Path, name: str) -> None:
    """As a folder and as a file: by string, by Path, by file url, by the listing that lies there."""
    folder = tmp_path / name
    with ShardWriter(folder / f"{name}-%03d.tar") as writer:
        for number in range(3):
            writer.write({"__key__": str(number), "cls": number})
    (path,) = folder.glob("*.tar")
    assert path.name == f"{name}-000.tar"
    for urls in (path, str(path), path.as_uri(), folder, str(folder), folder / "dataset.json"):
        with loaders.samples(urls) as samples:
            assert [sample["__key__"] for sample in samples] == ["0", "1", "2"], urls
        with ShardLoader(urls, batch_size=3, fields=("cls",)) as loader:
            assert [sorted(labels.tolist()) for (labels,) in loader] == [[0, 1, 2]], urls


def test_b57_braces_of_a_path_object_are_letters(tmp_path: Path) -> None:
    for name in ("s-0.tar", "s-1.tar", "s-{0..1}.tar"):
        (tmp_path / name).touch()
    assert expand(tmp_path / "s-{0..1}.tar") == [str(tmp_path / "s-{0..1}.tar")]
    (tmp_path / "s-{0..1}.tar").unlink()
    assert expand(str(tmp_path / "s-{0..1}.tar")) == [str(tmp_path / "s-0.tar"), str(tmp_path / "s-1.tar")]


def test_b57_a_query_reaches_the_server_as_it_was_written(tmp_path: Path) -> None:
    """No shell, and no braces expanded: what stands behind the question mark is the signature's."""
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write({"__key__": "k", "cls": 1})
    content = (tmp_path / "s-000.tar").read_bytes()
    query = "?tok=a{b}c&x={000..002}&it='s"
    with FaultyServer({"/d/s.tar": content}) as server, loaders.samples(server.url("/d/s.tar") + query) as samples:
        assert [sample["__key__"] for sample in samples] == ["k"]
        assert {unquote(request.target) for request in server.requests} == {"/d/s.tar" + query}
        close_idle()

"""Habits of network file systems: handles that go stale, short reads, no mapping of shards.

What the system answers is changed below Python and below our own C, by a library that is loaded before the C library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loaders import CenterCrop, ShardLoader
from tests.builders import write_pictures
from wds_tools.errors import ShardstreamError

HERE = Path(__file__).parent
EPOCH = """
import json, sys
import loaders
from wds_tools.errors import UnavailableError
try:
    with loaders.ShardLoader(sys.argv[1], batch_size=8, image=loaders.CenterCrop(8), threads=2, seed=1) as loader:
        batches = [batch.cls.tolist() for batch in loader]
    with loaders.samples(sys.argv[1]) as samples:
        print(json.dumps([batches, [sample["__key__"] for sample in samples]]))
except UnavailableError as error:
    print(json.dumps([str(error), error.url]))
"""


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("shards"), [20, 20])


@pytest.fixture(scope="module")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and Linux")
    library = tmp_path_factory.mktemp("preload") / "preload.so"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(HERE / "preload.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


def epoch(urls: str, preload: Path | None = None, **habits: int) -> tuple[object, object]:
    """An epoch and a pass in another process, or what is said and of which shard."""
    changed = {"LD_PRELOAD": str(preload), **{name: str(value) for name, value in habits.items()}} if preload else {}
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])} | changed
    done = subprocess.run(
        [sys.executable, "-c", EPOCH, urls], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    return first, second


@pytest.fixture(scope="module")
def expected(urls: str) -> tuple[object, object]:
    return epoch(urls)


def test_a_stale_handle_is_opened_again(urls: str, preload: Path, expected: tuple[object, object]) -> None:
    assert epoch(urls, preload, STALE=1) == expected


def test_one_that_stays_stale_is_an_error_by_name(urls: str, preload: Path) -> None:
    said, url = epoch(urls, preload, STALE=1000)
    assert "Stale file handle" in str(said)
    assert str(url).endswith(".tar")


def test_short_reads_are_continued(urls: str, preload: Path, expected: tuple[object, object]) -> None:
    assert epoch(urls, preload, SHORT=700) == expected


def test_no_shard_is_ever_mapped(urls: str) -> None:
    """A file that shrinks, or a server that goes away, would be a SIGBUS."""
    with ShardLoader(urls, batch_size=8, image=CenterCrop(8)) as loader:
        for _ in loader:
            assert ".tar" not in Path("/proc/self/maps").read_text()


def test_a_shard_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    urls = write_pictures(tmp_path, [20, 20])
    path = tmp_path / "s-0001.tar"
    with ShardLoader(urls, batch_size=4, image=CenterCrop(8), shuffle=False, threads=1) as loader:
        batches = iter(loader)
        next(batches)
        with path.open("r+b") as file:
            file.truncate(2048)
        with pytest.raises(ShardstreamError) as caught:
            list(batches)
        assert caught.value.url == str(path)

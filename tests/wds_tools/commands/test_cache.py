"""`wds cache`."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import write_labels, write_shard
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.serve import Served, serve
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.cache.groups import DATASETS
from wds_tools.sources.http import HttpFile


def cache(*args: str) -> Result:
    return CliRunner().invoke(root, ["cache", *args])


class Site:
    """Three shards of 10 KiB and their listing on a web server."""

    def __init__(self, folder: Path) -> None:
        write_labels(folder, [3, 4, 5])
        CliRunner().invoke(root, ["index", str(folder)])
        self.folder = folder
        self.served: list[Served] = []
        self.server = serve(folder, on_request=self.served.append)

    @property
    def url(self) -> str:
        return self.server.url.rstrip("/")

    def shard_requests(self) -> int:
        return sum(each.path.endswith(".tar") for each in self.served)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    with made.server:
        yield made


def test_a_dataset_is_warmed_by_its_listing_shown_and_cleared(site: Site, tmp_path: Path) -> None:
    where = ["--cache-dir", str(tmp_path / "cache")]
    done = cache("warm", f"{site.url}/dataset.json", *where, "--bytes", "10MB")
    assert done.exit_code == 0, done.output
    assert done.stdout == "3 of 3 shards in the cache, 30.7 KB of 30.7 KB, 30.7 KB of it fetched now\n"
    assert site.shard_requests() == 3
    again = cache("warm", f"{site.url}/dataset.json", *where)
    assert again.stdout.endswith("30.7 KB of 30.7 KB, 0 bytes of it fetched now\n")
    assert site.shard_requests() == 3

    shown = cache("info", *where).stdout.splitlines()
    assert shown[0] == f"folder   {tmp_path / 'cache'}"
    assert shown[1].startswith("shards   3 shards, 3 of them whole, 30.7 KB, ")
    assert shown[2].startswith(f"datasets {site.url}/s-0000.tar and 2 more (")
    assert shown[2].endswith("): 3 shards, 30.7 KB of 30.7 KB, used just now")

    assert cache("clear", f"{site.url}/s-0000.tar", *where).stdout.startswith("removed 1 shard, ")
    assert json.loads(cache("info", *where, "--json").stdout)["shards"]["shards"] == 2
    assert cache("clear", *where).stdout.startswith("removed 2 shards, ")
    assert json.loads(cache("info", *where, "--json").stdout)["shards"]["booked"] == 0


def test_a_cache_without_room_for_all_is_status_1(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/s-{{0000..0002}}.tar"
    done = cache("warm", url, "--cache-dir", str(tmp_path / "cache"), "--bytes", "60KB", "--threads", "1", "--json")
    assert done.exit_code == 1
    facts = json.loads(done.stdout)
    assert (facts["shards"], facts["whole"], facts["bytes"], facts["kept"]) == (3, 2, 30720, 20480)
    assert facts["fetched"] == 20480


def test_files_of_this_machine_are_refused(site: Site, tmp_path: Path) -> None:
    done = cache("warm", str(site.folder), "--cache-dir", str(tmp_path / "cache"))
    assert done.exit_code == 2
    assert "http://" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_missing_shard_is_named(site: Site, tmp_path: Path) -> None:
    done = cache("warm", f"{site.url}/no.tar", "--cache-dir", str(tmp_path / "cache"))
    assert done.exit_code == 1
    assert f"{site.url}/no.tar" in done.stderr
    assert "Traceback" not in done.output


def test_a_size_that_is_none_is_used_wrongly() -> None:
    assert cache("warm", "http://h/a.tar", "--bytes", "much").exit_code == 2


def test_the_index_lies_in_the_users_cache_and_goes_with_the_rest(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [("a", {"cls": b"1"})])
    open_dataset(str(shard))
    before = json.loads(cache("info", "--json").stdout)
    assert before["index"]["files"] >= 1
    assert before["shards"]["folder"].startswith(os.environ["XDG_CACHE_HOME"])
    assert json.loads(cache("clear", "--keep-index", "--json").stdout)["index"] == {"files": 0, "bytes": 0}
    assert "removed 0 shards, 0 bytes\nremoved " in cache("clear").stdout
    assert json.loads(cache("info", "--json").stdout)["index"] == {"files": 0, "bytes": 0}


def test_what_a_process_uses_is_kept_and_said(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/s-0000.tar"
    with DiskCache(tmp_path) as used, used.open(url, size=10240, version=None, inner=HttpFile(url), dataset="d"):
        assert "in use" in cache("info", "--cache-dir", str(tmp_path)).stdout
        assert cache("clear", "--cache-dir", str(tmp_path)).stdout.endswith("kept 1 shard that a process uses\n")
    long_ago = time.time() - 3 * 86400 - 5
    for path in (tmp_path / "shards" / DATASETS).iterdir():
        os.utime(path, (long_ago, long_ago))
    assert "used 3 days ago" in cache("info", "--cache-dir", str(tmp_path)).stdout

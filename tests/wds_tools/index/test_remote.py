"""Remote datasets are opened by their listing, kept copies of it, or the sidecars of their shards; never by a scan."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.builders import write_labels
from tests.servers.faulty import Behaviour, FaultyServer, Stored, bare, ignoring_range, says, well
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import ListingError, ShardMissingError, StaleIndexError, UnavailableError, UsageError
from wds_tools.index.sidecars import dali_path, energon_path
from wds_tools.make_index import make_index
from wds_tools.sources.http import close_idle
from wds_tools.sources.options import Remote

HASTY = Remote(attempts=1)
COUNTS = [7, 5, 0, 4]
NAMES = [f"s-{at:04d}.tar" for at in range(len(COUNTS))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards with every kind of index beside them."""
    path = Path(write_labels(tmp_path_factory.mktemp("d"), COUNTS))
    make_index(path, dali=True, energon=True)
    return path


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


def serve(folder: Path, *kinds: str) -> FaultyServer:
    """The shards, and of what lies beside them the listing ("json"), "energon" or "dali"."""
    beside = {"json": ["dataset.json", "dataset.offsets.npy"]}
    beside |= {"energon": list(map(energon_path, NAMES)), "dali": list(map(dali_path, NAMES))}
    names = [*NAMES, *(name for kind in kinds for name in beside[kind])]
    files = {f"/d/{name}": (folder / name).read_bytes() for name in names}
    return FaultyServer(files)


def same(remote: Dataset, local: Dataset) -> None:
    assert remote.counts.tolist() == local.counts.tolist()
    assert remote.sizes.tolist() == local.sizes.tolist()
    assert np.array_equal(remote.offsets, local.offsets)


def asked(server: FaultyServer) -> list[str]:
    found = [request.path.removeprefix("/d/") for request in server.requests]
    server.requests.clear()
    return found


def test_a_listing_is_fetched_once_kept_and_revalidated(folder: Path) -> None:
    with serve(folder, "json") as server:
        for _ in range(3):
            dataset = open_dataset(server.url("/d/dataset.json"))
            same(dataset, open_dataset(folder))
            assert list(dataset.urls) == [server.url(f"/d/{name}") for name in NAMES]
            assert dataset.remote_shards.all()
        ranges = [request.range for request in server.requests]
        assert asked(server) == ["dataset.json", "dataset.offsets.npy"] * 3
        assert ranges == [None] * 2 + [(0, 0)] * 4


def test_a_listing_that_was_replaced_is_fetched_again(folder: Path) -> None:
    with serve(folder, "json") as server:
        open_dataset(server.url("/d/"))
        facts = json.loads((folder / "dataset.json").read_text())
        server.put("/d/dataset.json", json.dumps({**facts, "classes": ["new"]}).encode())
        assert open_dataset(server.url("/d/")).classes == ("new",)
        assert open_dataset(server.url("/d/")).classes == ("new",)


def test_a_signed_listing_is_the_same_file_whatever_its_signature(folder: Path) -> None:
    signed = "/d/dataset.json?X-Amz-Credential=me&X-Amz-Signature={}&part={}"
    with serve(folder, "json") as server:
        for signature, part, fetched in ((1, "a", True), (2, "a", False), (3, "b", True), (4, "b", False)):
            open_dataset(server.url(signed.format(signature, part)))
            ranges = [request.range for request in server.requests if request.path == "/d/dataset.json"]
            assert (ranges == [None]) is fetched, (signature, ranges)
            server.requests.clear()


def test_a_host_without_versions_is_asked_for_all_each_time(folder: Path) -> None:
    with serve(folder, "json") as server:
        server.then = Behaviour(bare(well))
        for _ in range(2):
            same(open_dataset(server.url("/d/")), open_dataset(folder))


def test_a_host_without_ranges_will_do(folder: Path) -> None:
    with serve(folder, "json") as server:
        server.then = Behaviour(ignoring_range)
        for _ in range(2):
            same(open_dataset(server.url("/d/")), open_dataset(folder))


def test_offsets_of_another_run_are_fetched_again_and_then_refused(folder: Path) -> None:
    with serve(folder, "json") as server:
        good = (folder / "dataset.offsets.npy").read_bytes()
        server.put("/d/dataset.offsets.npy", Stored(good[:-16] + good[-8:] + good[-16:-8]))
        with pytest.raises(StaleIndexError) as caught:
            open_dataset(server.url("/d/"))
        assert caught.value.url in {server.url("/d/dataset.offsets.npy"), server.url("/d/s-0003.tar")}
        server.put("/d/dataset.offsets.npy", good)
        same(open_dataset(server.url("/d/")), open_dataset(folder))


def test_a_kept_copy_that_is_damaged_is_fetched_again(folder: Path, tmp_path: Path) -> None:
    with serve(folder, "json") as server:
        open_dataset(server.url("/d/"), cache_dir=tmp_path)
        for kept in (tmp_path / "index").glob("remote-*.data"):
            data = bytearray(kept.read_bytes())
            if data.startswith(b"\x93NUMPY"):
                data[-1] ^= 1
                kept.write_bytes(data)
        same(open_dataset(server.url("/d/"), cache_dir=tmp_path), open_dataset(folder))


def test_offsets_that_are_missing_say_so(folder: Path) -> None:
    with serve(folder, "json") as server:
        server.routes["/d/dataset.offsets.npy"] = Behaviour(says(404))
        with pytest.raises(StaleIndexError, match="missing"):
            open_dataset(server.url("/d/"))


def test_without_a_cache_directory_all_is_held_in_memory(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with serve(folder, "json") as server:
        same(open_dataset(server.url("/d/"), cache_dir=tmp_path / "file"), open_dataset(folder))


def test_named_shards_find_the_listing_beside_them(folder: Path) -> None:
    with serve(folder, "json") as server:
        dataset = open_dataset(server.url("/d/s-{0000..0003}.tar"))
        same(dataset, open_dataset(folder))
        assert asked(server) == ["dataset.json", "dataset.offsets.npy"]
        some = open_dataset([server.url("/d/s-0003.tar"), server.url("/d/s-0000.tar")])
        assert some.counts.tolist() == [COUNTS[3], COUNTS[0]]


def test_a_query_is_kept_for_its_shard_and_passed_on_to_nothing(folder: Path) -> None:
    with serve(folder, "json") as server:
        urls = [server.url(f"/d/{name}?sig=s{at}") for at, name in enumerate(NAMES)]
        dataset = open_dataset(urls)
        assert list(dataset.urls) == urls
        assert {request.target for request in server.requests} == {"/d/dataset.json", "/d/dataset.offsets.npy"}
        listed = open_dataset(server.url("/d/dataset.json?sig=1"))
        assert list(listed.urls) == [server.url(f"/d/{name}") for name in NAMES]


def test_a_listing_beside_that_lacks_a_shard_is_passed_over(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(folder, "json", "energon") as server:
        server.put("/d/new.tar", (folder / NAMES[0]).read_bytes())
        server.put("/d/new.tar.idx", (folder / energon_path(NAMES[0])).read_bytes())
        with caplog.at_level(logging.WARNING):
            dataset = open_dataset([server.url(f"/d/{name}") for name in (*NAMES, "new.tar")])
        assert dataset.counts.tolist() == [*COUNTS, COUNTS[0]]
        assert "does not list" in caplog.text


@pytest.mark.parametrize("kind", ["energon", "dali"])
def test_indexes_of_other_loaders_are_fetched_and_held_against_the_shard(folder: Path, kind: str) -> None:
    names = [name for name, count in zip(NAMES, COUNTS, strict=True) if count]  # DALI has no index of no samples
    with serve(folder, kind) as server:
        urls = [server.url(f"/d/{name}") for name in names]
        same(open_dataset(urls), open_dataset([folder / name for name in names]))
        server.requests.clear()
        same(open_dataset(urls), open_dataset([folder / name for name in names]))
        again = [path for path in asked(server) if path.endswith((".tar", ".idx"))]
        assert sorted(again) == sorted(names)  # each shard is asked for its version, and for nothing more


def test_an_index_that_does_not_fit_is_not_believed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(folder, "energon", "dali") as server:
        server.put(f"/d/{energon_path(NAMES[0])}", (folder / energon_path(NAMES[1])).read_bytes())
        with caplog.at_level(logging.WARNING):
            dataset = open_dataset(server.url(f"/d/{NAMES[0]}"))
        assert dataset.counts.tolist() == [COUNTS[0]]
        assert "passed over" in caplog.text


def test_without_any_index_the_error_names_both_ways_out(folder: Path) -> None:
    with serve(folder) as server, pytest.raises(UsageError) as caught:
        open_dataset(server.url("/d/s-{0000..0003}.tar?key=hidden"))
    assert "`wds index URLS --out FOLDER`" in str(caught.value)  # of all shards: the first alone would be a part
    assert "StreamLoader" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert not [request for request in server.requests if request.path == "/d/s-0001.tar"]  # one shard tells


def test_a_store_that_says_403_of_what_is_not_there(folder: Path) -> None:
    with serve(folder, "energon") as server:
        for name in ("dataset.json", *map(dali_path, NAMES)):
            server.routes[f"/d/{name}"] = Behaviour(says(403))
        same(open_dataset(server.url("/d/s-{0000..0003}.tar")), open_dataset(folder))
        for name in map(energon_path, NAMES):
            server.routes[f"/d/{name}"] = Behaviour(says(403))
        with pytest.raises(UsageError, match="wds index"):
            open_dataset(server.url("/d/s-0000.tar?again"))


def test_a_shard_that_is_missing_is_named(folder: Path) -> None:
    with serve(folder) as server, pytest.raises(ShardMissingError, match=r"x\.tar"):
        open_dataset(server.url("/d/x.tar"))


@pytest.mark.parametrize("status", [403, 404])
def test_all_shards_that_are_missing_are_named_at_once(folder: Path, status: int) -> None:
    with serve(folder, "energon") as server:
        for number in (1, 3):
            server.routes[f"/d/s-{number:04d}.tar"] = Behaviour(says(status))
        kind = ShardMissingError if status == 404 else UnavailableError
        with pytest.raises(kind, match=r"2 of 4 shards are not there.*s-0001\.tar.*s-0003\.tar") as caught:
            open_dataset(server.url("/d/s-{0000..0003}.tar"))
        assert str(status) in str(caught.value)
        server.routes["/d/s-0000.tar"] = Behaviour(says(403))
        with pytest.raises(UnavailableError, match=r"403.*s-0000\.tar"):
            open_dataset(server.url("/d/s-{0000..0003}.tar"))
        asked = [request for request in server.requests if request.path == "/d/s-0002.tar"]
        assert len(asked) <= 3  # no access to the first is none to the others: they were asked for once, before


def test_a_listing_without_offsets_is_compared_with_what_the_indexes_say(folder: Path) -> None:
    with serve(folder, "json", "energon") as server:
        facts = json.loads((folder / "dataset.json").read_text())
        del facts["offsets"], facts["offsets_crc32"]
        server.put("/d/dataset.json", json.dumps(facts).encode())
        same(open_dataset(server.url("/d/dataset.json")), open_dataset(folder))
        facts["shardlist"][1]["nsamples"] += 1
        server.put("/d/dataset.json", json.dumps(facts).encode())
        with pytest.raises(StaleIndexError, match="the listing says"):
            open_dataset(server.url("/d/dataset.json"))


def test_listings_that_are_none_and_hosts_that_fail(folder: Path) -> None:
    with serve(folder) as server:
        server.put("/d/dataset.json", b"{")
        with pytest.raises(ListingError):
            open_dataset(server.url("/d/"))
        server.then = Behaviour(says(503))
        with pytest.raises(UnavailableError):
            open_dataset(server.url("/e/"), remote=HASTY)


def test_what_is_kept_opens_a_dataset_whose_host_is_gone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(folder, "json") as server:
        url = server.url("/d/")
        open_dataset(url)
        server.then = Behaviour(says(403))
        with pytest.raises(UnavailableError, match="403"):
            open_dataset(url, remote=HASTY)
    close_idle()
    same(open_dataset(url, remote=HASTY), open_dataset(folder))
    assert caplog.text.count("without asking whether it has changed") == 1  # for the listing, not for its offsets again

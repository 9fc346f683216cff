"""Troubles over http (B10 to B54): real sockets, servers that break off, limit, sign, replace and mislead."""

from __future__ import annotations

import gzip
import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import loaders
from loaders import Reading, Remote
from loaders.torch import ShardDataset
from tests.builders import write_labels
from tests.cases import inputs_http as inputs
from tests.loaders.remote_data import served
from tests.servers.faulty import (
    Behaviour,
    FaultyServer,
    Reply,
    Request,
    Stored,
    encoded,
    ignoring_range,
    names,
    page,
    resets,
    says,
    sends_on,
    shifted,
    well,
)
from wds_tools.dataset import open_dataset
from wds_tools.errors import (
    NoShardsError,
    NotATarError,
    ShardChangedError,
    ShardMissingError,
    ShardstreamError,
    UnavailableError,
)
from wds_tools.make_index import make_index
from wds_tools.sources.http import close_idle

PATIENT = Remote(attempts=8, give_up_s=60.0)
HASTY = Remote(attempts=3, give_up_s=60.0)
SHARD = inputs.content()


@pytest.fixture(autouse=True)
def _no_idle_connections() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> inputs.Rows:
    path = tmp_path_factory.mktemp("local") / "x.tar"
    path.write_bytes(SHARD)
    return inputs.raw(str(path))


# B10


@pytest.mark.parametrize("times", [2, pytest.param(5, marks=pytest.mark.long)])  # which waits for seconds between
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("place", inputs.places(SHARD))
def test_b10_a_transfer_that_breaks_goes_on_at_its_byte(
    expected: inputs.Rows, place: str, ranges: bool, times: int
) -> None:
    # https://github.com/webdataset/webdataset/issues/112
    plan = well if ranges else ignoring_range
    broken = [Behaviour(plan, resets(inputs.places(SHARD)[place]))] * times
    with FaultyServer({"/x.tar": SHARD}, broken, Behaviour(plan)) as server:
        assert inputs.raw(server.url("/x.tar"), PATIENT) == expected
        asked = server.ranges("/x.tar")
        assert len(asked) == times + 1
        if ranges:  # nothing is fetched anew that had come, and a replaced object would be noticed
            firsts = [0 if wanted is None else wanted[0] for wanted in asked]
            assert firsts == sorted(firsts)
            assert all("if-range" in request.headers for request in server.requests if (request.range or (0, 0))[0])


def test_b10_after_the_last_attempt_the_error_says_where_and_how_often() -> None:
    with FaultyServer({"/x.tar": SHARD}, then=Behaviour(well, resets(1000))) as server:
        with pytest.raises(UnavailableError) as caught:
            inputs.raw(server.url("/x.tar"), HASTY)
        assert caught.value.url == server.url("/x.tar")
        assert caught.value.offset is not None
        assert "given up after 3 attempts" in str(caught.value)
        # skipping what is bad does not skip what cannot be had
        with pytest.raises(UnavailableError), loaders.samples(server.url("/x.tar"), remote=HASTY, on_error="skip") as s:
            list(s)


# B16


def ranks(urls: str, world_size: int, read: Reading) -> list[int]:
    """All ranks of a job at once, each in a thread of its own; the labels that they saw."""

    def run(rank: int) -> list[int]:
        options = {"rank": rank, "world_size": world_size, "read": read, "tail": "exact", "lanes": 4}
        return [label for batch in inputs.batches(urls, **options) for label in batch]

    with ThreadPoolExecutor(world_size) as pool:
        return sorted(label for labels in pool.map(run, range(world_size)) for label in labels)


def test_b16_a_host_that_limits_is_obeyed_and_the_epoch_completes(tmp_path: Path) -> None:
    """Four ranks start at once on a host that grants 10 requests a second."""
    # https://github.com/huggingface/datasets/issues/7344
    folder = inputs.dataset(tmp_path, shards=16, samples=8)
    bucket = inputs.Bucket(10)
    with served(folder) as server:
        server.then = Behaviour(inputs.without_head(bucket))
        read = Reading(remote=Remote(give_up_s=120.0))
        assert ranks(server.url("/d/"), 4, read) == list(range(128))
        assert bucket.said[429] > 0
        assert {request.method for request in server.requests} == {"GET"}
        # A range for each block of 8 samples, of this epoch and of those that a thousand samples ahead reach into.
        needed = 3 * 16 + 2 * 4  # and the listing's two files
        assert bucket.said[200] + bucket.said[206] <= 2 * needed  # what is late is asked for once more
        assert len(server.requests) < 5 * needed


@pytest.mark.long
def test_b16_so_they_are_with_processes_and_many_shards(tmp_path: Path) -> None:
    """4 ranks of 2 workers over 64 shards, with the cache that worker processes need."""
    folder = inputs.dataset(tmp_path / "data", shards=64, samples=8)
    bucket = inputs.Bucket(10, wait_s=3)
    with served(folder) as server:
        server.then = Behaviour(bucket)
        context = multiprocessing.get_context("spawn")
        results = context.SimpleQueue()
        jobs = [
            context.Process(target=_rank, args=(server.url("/d/"), rank, str(tmp_path / "cache"), results))
            for rank in range(4)
        ]
        for job in jobs:
            job.start()
        seen = [label for _ in jobs for label in results.get()]
        for job in jobs:
            job.join()
        assert sorted(seen) == list(range(512))
        assert bucket.said[429] > 0
        results.close()


def _rank(urls: str, rank: int, cache: str, results: Any) -> None:
    read = Reading(cache_dir=cache, remote=Remote(give_up_s=280.0, attempts=60))
    options: dict[str, Any] = {"rank": rank, "world_size": 4, "read": read, "tail": "exact", "lanes": 8}
    dataset = ShardDataset(urls, batch_size=8, fields=("cls",), **options)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    results.put([label for batch in loader for label in batch.cls.tolist()])


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, UnavailableError), (403, UnavailableError), (404, ShardMissingError), (410, ShardMissingError)],
)
def test_b16_what_will_not_change_is_asked_for_once(status: int, kind: type[ShardstreamError]) -> None:
    with FaultyServer({"/x.tar": SHARD}, then=Behaviour(says(status))) as server:
        with pytest.raises(kind, match=str(status)):
            inputs.raw(server.url("/x.tar"), PATIENT)
        assert len(server.requests) == 1


# B29


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_b29_workers_read_what_their_parent_has_read_before(tmp_path: Path, method: str) -> None:
    """The parent asks for the length and has a sample, over connections that a worker must not use."""
    # https://github.com/fsspec/filesystem_spec/issues/835
    folder = inputs.dataset(tmp_path / "data", shards=4, samples=16)
    with served(folder) as server:
        read = Reading(cache_dir=tmp_path / "cache", remote=HASTY)
        seen: list[int] = []
        world_size = 2 if method == "fork" else 1  # a spawned worker takes seconds to import torch
        for rank in range(world_size):
            dataset = ShardDataset(
                server.url("/d/"), batch_size=4, fields=("cls",), read=read, rank=rank, world_size=world_size, lanes=4
            )
            assert len(dataset) == 16 // world_size
            next(iter(dataset))
            dataset.set_epoch(0)
            workers = DataLoader(
                dataset, batch_size=None, num_workers=world_size, multiprocessing_context=method, timeout=60
            )
            seen += [label for batch in workers for label in batch.cls.tolist()]
            dataset.close()
        assert sorted(seen) == list(range(64))


# B46


@pytest.mark.parametrize("status", [403, 404])
def test_b46_missing_shards_are_all_named_before_the_first_step_on_every_rank(tmp_path: Path, status: int) -> None:
    # https://github.com/rom1504/img2dataset/issues/174
    folder = inputs.dataset(tmp_path, shards=10, samples=4)
    make_index(folder, energon=True)
    (tmp_path / "dataset.json").unlink()
    with served(folder) as server:
        for number in (3, 7):
            server.routes[f"/d/s-{number:04d}.tar"] = Behaviour(says(status))
        said = set()
        for rank in range(2):
            with pytest.raises(UnavailableError) as caught:
                urls = server.url("/d/s-{0000..0009}.tar")
                inputs.batches(urls, read=Reading(remote=HASTY), rank=rank, world_size=2)
            said.add(str(caught.value))
        (message,) = said
        for words in ("2 of 10 shards", "s-0003.tar", "s-0007.tar", str(status)):
            assert words in message
        asked = Counter(request.path for request in server.requests)
        assert asked["/d/s-0003.tar"] == 2  # once a rank, and not again and again


def test_b46_of_local_shards_all_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = Path(write_labels(tmp_path, [4] * 10))
    for number in (3, 7):
        (folder / f"s-{number:04d}.tar").unlink()
    with pytest.raises(ShardMissingError) as caught:
        inputs.batches(str(folder / "s-{0000..0009}.tar"))
    for words in ("2 of 10", "s-0003.tar", "s-0007.tar"):
        assert words in str(caught.value)


@pytest.mark.parametrize("urls", ["*.tar", "nothing-{0..3}x*.tar", ""])
def test_b46_a_pattern_that_matches_nothing_is_an_error(
    tmp_path: Path, urls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (urls, tmp_path / "none", tmp_path):
        with pytest.raises((NoShardsError, ShardMissingError)):
            list(loaders.samples(attempt))


def test_b46_a_login_page_is_no_shard_and_shown() -> None:
    with FaultyServer({"/x.tar": SHARD}, then=Behaviour(page)) as server:
        with pytest.raises(NotATarError, match=r"DOCTYPE html.*log in|text/html") as caught:
            inputs.raw(server.url("/x.tar"), HASTY)
        assert caught.value.url == server.url("/x.tar")
        assert len(server.requests) == 1


def test_b46_a_listing_that_is_out_of_reach_is_an_error_and_not_one_shard(tmp_path: Path) -> None:
    folder = inputs.dataset(tmp_path, shards=3, samples=4)
    with served(folder) as server:
        server.routes["/d/dataset.json"] = Behaviour(says(503))
        with pytest.raises(UnavailableError, match="503"):
            open_dataset(server.url("/d/"), remote=HASTY)


# B48


class Signing:
    """A sends on to B with a signature that is good for so many requests; B says 403 after that."""

    def __init__(self, uses: int, *, status: int = 403) -> None:
        self.uses, self.status = uses, status
        self.given = 0
        self.refused = 0
        self._left: Counter[str] = Counter()
        self._lock = threading.Lock()

    def renewed(self, url: str) -> str:
        with self._lock:
            self.given += 1
            self._left[str(self.given)] = self.uses
            return f"{url.partition('?')[0]}?X-Amz-Credential=c&X-Amz-Signature={self.given}"

    def redirect(self, request: Request, stored: Stored) -> Reply:
        return sends_on(self.renewed(request.path.replace("/a/", "/b/")))(request, stored)

    def signed(self, request: Request, stored: Stored) -> Reply:
        signature = request.target.rpartition("=")[2]
        with self._lock:
            self._left[signature] -= 1
            good = self._left[signature] >= 0
            self.refused += not good
        return well(request, stored) if good else says(self.status)(request, stored)


@pytest.mark.parametrize("status", [400, 403])
def test_b48_an_expired_signature_behind_a_redirect_is_renewed_at_its_source(
    expected: inputs.Rows, status: int
) -> None:
    """Each signature is good for one request, and each transfer breaks in the middle."""
    # https://github.com/mem9-ai/drive9/issues/138
    signing = Signing(1, status=status)
    objects = {"/a/x.tar": SHARD, "/b/x.tar": SHARD}
    with FaultyServer(objects) as server:
        server.routes = {
            "/a/x.tar": Behaviour(signing.redirect),
            "/b/x.tar": Behaviour(signing.signed, resets(len(SHARD) // 2)),
        }
        assert inputs.raw(server.url("/a/x.tar"), PATIENT) == expected
        assert signing.given > 1


def test_b48_a_function_signs_anew_what_a_list_of_signed_urls_cannot(tmp_path: Path) -> None:
    folder = inputs.dataset(tmp_path / "data", shards=3, samples=8)
    signing = Signing(2)
    with served(folder) as server:
        for number in range(3):
            server.routes[f"/d/s-{number:04d}.tar"] = Behaviour(signing.signed)
        remote = Remote(sign=signing.renewed, attempts=4, give_up_s=20)
        read = Reading(remote=remote, cache_dir=tmp_path / "cache")
        first = inputs.batches(server.url("/d/"), read=read)
        assert sorted(label for batch in first for label in batch) == list(range(24))
        assert signing.given >= 3
        asked = len(server.requests)
        inputs.batches(server.url("/d/"), read=read)  # from the cache, whatever the signatures are by now
        assert [request.path for request in server.requests[asked:] if request.path.endswith(".tar")] == []


# B53


def without_part(request: Request, stored: Stored) -> Reply:
    return well(request, stored).but(Content_Range=None)


def multipart(request: Request, stored: Stored) -> Reply:
    reply = well(request, stored)
    if reply.status != 206:
        return reply
    body = b"--b\r\nContent-Range: x\r\n\r\n" + reply.body + b"\r\n--b--\r\n"
    return Reply(206, {"Content-Type": "multipart/byteranges; boundary=b", "Content-Length": str(len(body))}, body)


RANGES: dict[str, tuple[Callable[[Request, Stored], Reply], type[ShardstreamError] | None]] = {
    "the whole in place of the range": (ignoring_range, None),
    "an earlier range": (shifted(-512), None),
    "a later range": (shifted(512), UnavailableError),
    "no word on which range": (without_part, UnavailableError),
    "several parts": (multipart, UnavailableError),
}


@pytest.mark.parametrize("name", RANGES)
def test_b53_answers_to_a_range_are_looked_at(expected: inputs.Rows, name: str) -> None:
    """After a break in the middle; always, so that no later answer mends it."""
    # https://github.com/fsspec/filesystem_spec/issues/1140
    plan, _ = RANGES[name]
    half = Behaviour(well, resets(len(SHARD) // 2))
    with FaultyServer({"/x.tar": SHARD}, [half], Behaviour(plan)) as server:
        try:
            rows = inputs.raw(server.url("/x.tar"), HASTY)
        except UnavailableError as error:
            outcome: type[ShardstreamError] | None = type(error)
            assert error.url == server.url("/x.tar")  # noqa: PT017 - either is right, and both are looked at
        else:
            outcome = None
            assert rows == expected
        assert outcome in {None, RANGES[name][1]}


def larger(request: Request, stored: Stored) -> Reply:
    """The same version by its tag, of an object that has grown."""
    reply = well(request, stored)
    return reply.but(Content_Range=f"{reply.headers['Content-Range'].partition('/')[0]}/{len(stored.content) + 512}")


@pytest.mark.parametrize("changed", ["its size", "its version"])
def test_b53_another_object_in_the_middle_is_an_error(changed: str) -> None:
    half = Behaviour(well, resets(len(SHARD) // 2))
    with FaultyServer({"/x.tar": SHARD}, [half]) as server:
        if changed == "its size":
            server.then = Behaviour(larger)
        with loaders.samples(server.url("/x.tar"), remote=HASTY) as samples:
            next(samples)
            if changed == "its version":
                server.put("/x.tar", inputs.content(first=100))
            with pytest.raises(ShardChangedError) as caught:
                list(samples)
        assert caught.value.url == server.url("/x.tar")


@pytest.mark.parametrize("size", [0, 1024])
def test_b53_objects_of_no_bytes_or_no_samples(size: int) -> None:
    with FaultyServer({"/x.tar": bytes(size)}) as server:
        if size:
            assert inputs.raw(server.url("/x.tar"), HASTY) == []
        else:
            with pytest.raises(ShardstreamError, match=r"0 bytes|empty"):
                inputs.raw(server.url("/x.tar"), HASTY)


# B54


def test_b54_identity_is_asked_for_and_an_encoding_all_the_same_is_refused(expected: inputs.Rows) -> None:
    # https://github.com/fsspec/filesystem_spec/issues/1748
    def as_asked(request: Request, stored: Stored) -> Reply:
        accepted = request.headers.get("accept-encoding", "gzip")
        return encoded(request, stored) if "gzip" in accepted else well(request, stored)

    with FaultyServer({"/x.tar": SHARD}, then=Behaviour(as_asked)) as server:
        assert inputs.raw(server.url("/x.tar"), HASTY) == expected
        assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}
    with FaultyServer({"/x.tar": SHARD}, then=Behaviour(encoded)) as server:
        with pytest.raises(UnavailableError, match="gzip"):
            inputs.raw(server.url("/x.tar"), HASTY)


def test_b54_a_tar_gz_is_unpacked_once_whatever_its_server_calls_it(expected: inputs.Rows) -> None:
    """Marked as an encoding of a tar, or as a file that is packed: the bytes are the same, and so are the samples."""
    packed = gzip.compress(SHARD)
    for plan in (well, names(well, Content_Encoding="gzip"), names(well, Content_Type="application/gzip")):
        with FaultyServer({"/x.tar.gz": packed}, then=Behaviour(plan)) as server:
            assert inputs.raw(server.url("/x.tar.gz"), HASTY) == expected

"""Shards from nginx on the loopback: how much the network's way costs, with all else equal.

Everybody reads the same files from the same nginx, which shares the two cores with its clients. Raw samples are timed
in bytes a second, against curl, which throws them away, and webdataset over `pipe:curl`, as its documentation has it.

Batches are timed against the same loader over the files themselves: near, at a distance (a relay in a process of its
own that holds every byte for 20 ms each way), and in the second epoch through a cache on disk. Each shard has four
names there: 4,000 pictures are too few for blocks of the size that any dataset worth a server has. What the tiny
dataset itself gives comes beside that. Second epochs are timed: what is fetched ahead at the end of one serves the
next, and would else be paid for by an epoch that nobody reads.

Last, four ranks read 64 shards of 4 MiB through one cache from an nginx that answers ten requests a second and says 429
to all others; its log counts.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import loaders
from benchmarks.material import Material
from benchmarks.others import touch, webdataset_samples
from benchmarks.peers.peer import BATCH, PARALLEL
from benchmarks.relay import relaying
from benchmarks.table import OURS, Row, rows_of
from benchmarks.timing import Contestant, Watch, compare
from shardwriter import ShardWriter
from tests.servers.nginx import NGINX, serving
from wds_tools.make_index import make_index

__all__ = ["MISSING", "http"]

MISSING = [name for name, found in (("nginx", NGINX), ("curl", shutil.which("curl"))) if found is None]
LOCAL = "the same from files"
LATENCY_S = 0.02
NAMES = 4
WAIT = 0.10
LIMITED_SHARDS, LIMITED_RANKS, LIMITED_SAMPLES, LIMITED_BYTES = 64, 4, 16, (4 << 20) // 16 - 2048
LIMIT = "limit_req_zone $server_port zone=all:1m rate=10r/s;"  # not by name: an empty one is not limited
LIMITED = "limit_req zone=all burst=10 nodelay; limit_req_status 429;"

RANK = f"""
import sys
import loaders
urls, cache, rank = sys.argv[1:]
read = loaders.Reading(cache_dir=cache, remote=loaders.Remote(attempts=100, give_up_s=600))
with loaders.ShardLoader(
    urls, batch_size=16, fields=("bin", "cls"), rank=int(rank), world_size={LIMITED_RANKS}, read=read
) as loader:
    print(sum(len(batch.cls) for batch in loader))
"""


def http(material: Material, watch: Watch) -> list[Row]:
    """All of the above; nothing where nginx or curl is not installed."""
    if MISSING:
        sys.stderr.write(f"http is left out: {' and '.join(MISSING)} not installed\n")
        return []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="http-", dir=material.folder)))
        (scratch / "nginx").mkdir()
        tiny = Path(material.shards[0]).parent
        folder = _named_again(tiny, scratch / "shards", NAMES if watch.machine else 1)
        base = stack.enter_context(serving(folder, scratch / "nginx"))
        far = stack.enter_context(relaying(int(base.rpartition(":")[2]), latency_s=LATENCY_S))
        url, away = f"{base}/dataset.json", f"{far}/dataset.json"
        return [
            *_raw(material, f"{base}/tiny", watch),
            *_batches("batches over http", folder, url, 0.85, watch),
            *_batches("batches over http, tiny dataset", tiny, f"{base}/tiny/dataset.json", None, watch),
            *_batches("batches over http, 40 ms away", folder, away, 0.8, watch),
            _waiting(away),
            *_cached(folder, url, scratch, watch),
            *_limited(scratch, LIMITED_SHARDS if watch.machine else 8),
        ]


def _named_again(tiny: Path, folder: Path, times: int) -> Path:
    """A folder with these shards under so many names each, with its listing, and the folder itself as `tiny`."""
    folder.mkdir()
    shards = sorted(tiny.glob("*.tar"))
    for number, shard in enumerate(shards * times):
        (folder / f"again-{number:06d}.tar").symlink_to(shard)
    make_index(str(folder))
    listing = folder / "dataset.json"
    listing.write_text(json.dumps(json.loads(listing.read_text()) | {"shuffled": True}))  # as the tiny one's says
    (folder / "tiny").symlink_to(tiny)
    return folder


def _raw(material: Material, base: str, watch: Watch) -> list[Row]:
    urls = [f"{base}/{Path(shard).name}" for shard in material.shards]
    nbytes = sum(Path(shard).stat().st_size for shard in material.shards)
    contestants: dict[str, Contestant] = {
        OURS: partial(_in_bytes, partial(_samples, urls), nbytes),
        "curl": partial(_in_bytes, partial(_curl, urls), nbytes),
        "webdataset, pipe:curl": partial(
            _in_bytes, partial(webdataset_samples, [f"pipe:curl -s -L {url}" for url in urls]), nbytes
        ),
    }
    goals = {"curl": 0.9, "webdataset, pipe:curl": 5.0}
    return rows_of("raw samples over http", compare(contestants, watch), goals, unit="MiB/s")


def _in_bytes(contestant: Contestant, nbytes: int) -> Iterator[int]:
    """All of it as one piece of work, in MiB."""
    steps = iter(contestant())
    yield next(steps)
    for _ in steps:
        pass
    yield nbytes >> 20


def _samples(urls: Sequence[str]) -> Iterator[int]:
    yield 0
    for sample in loaders.samples(urls):
        for value in sample.values():
            if not isinstance(value, str):
                touch(value)
        yield 1


def _curl(urls: Sequence[str]) -> Iterator[int]:
    yield 0
    subprocess.run(["curl", "-sf", "--output", "/dev/null", *_each("--output", urls)], check=True)
    yield len(urls)


def _each(option: str, urls: Sequence[str]) -> list[str]:
    """One connection for all of them, each thrown away."""
    words = [urls[0]]
    for url in urls[1:]:
        words += [option, "/dev/null", url]
    return words


def _batches(work: str, folder: Path, url: str, goal: float | None, watch: Watch) -> list[Row]:
    contestants: dict[str, Contestant] = {OURS: partial(_second_epoch, url), LOCAL: partial(_second_epoch, str(folder))}
    return rows_of(work, compare(contestants, watch), {} if goal is None else {LOCAL: goal}, unit="pictures/s")


def _loader(urls: str, read: loaders.Reading) -> loaders.ShardLoader:
    crop = loaders.RandomResizedCrop(224)
    options = {"batch_size": BATCH, "fields": ("jpg", "cls"), "image": crop, "tail": "exact", "threads": PARALLEL}
    return loaders.ShardLoader(urls, read=read, **options)  # type: ignore[arg-type]


def _epoch(urls: str, read: loaders.Reading | None = None) -> Iterator[int]:
    with _loader(urls, read or loaders.Reading()) as loader:
        for pictures, _ in loader:
            yield len(pictures)


def _second_epoch(urls: str, read: loaders.Reading | None = None) -> Iterator[int]:
    """Timed from its first batch on; the first epoch comes before."""
    with _loader(urls, read or loaders.Reading()) as loader:
        for _ in loader:
            pass
        for pictures, _ in loader:
            yield len(pictures)


def _waiting(url: str) -> Row:
    """Of a second epoch too, as what is timed."""
    with _loader(url, loaders.Reading()) as loader:
        for _ in loader:
            pass
        first = loader.report()
        for _ in loader:
            pass
        share = loader.report().since(first).fetch_wait_share
    return Row(
        work="batches over http, 40 ms away",
        who=f"{OURS}, share of the threads' time spent waiting",
        value=100 * share,
        unit="%",
        ratio=share / WAIT,
        goal=1.0,
        at_most=True,
    )


def _cached(folder: Path, url: str, scratch: Path, watch: Watch) -> list[Row]:
    read = loaders.Reading(cache_dir=scratch / "cache")
    for _ in _epoch(url, read):
        pass
    before = _answered(scratch / "nginx")
    contestants: dict[str, Contestant] = {
        OURS: partial(_second_epoch, url, read),
        LOCAL: partial(_second_epoch, str(folder)),
    }
    work = "batches over http, second epoch, cached"
    rows = rows_of(work, compare(contestants, watch), {LOCAL: 0.95}, unit="pictures/s")
    asked = _answered(scratch / "nginx") - before
    who = f"{OURS}, requests for shards"
    return [*rows, Row(work=work, who=who, value=asked, unit="", ratio=asked, goal=0, at_most=True)]


def _limited(scratch: Path, shards: int) -> list[Row]:
    """Four ranks and a host that says 429. Nothing is timed, so the machine need not be quiet."""
    folder, work = scratch / "limited", scratch / "limited-nginx"
    work.mkdir()
    _write(folder, shards)
    with serving(folder, work, extra=LIMITED, extra_http=LIMIT) as base:
        command = [sys.executable, "-c", RANK, f"{base}/dataset.json", str(scratch / "limited-cache")]
        ranks = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(LIMITED_RANKS)
        ]
        counts = [int(rank.communicate()[0]) for rank in ranks]
    if sum(counts) != shards * LIMITED_SAMPLES // (16 * LIMITED_RANKS) * 16 * LIMITED_RANKS:
        raise RuntimeError(f"the ranks had {counts} samples")
    good, refused = _answered(work), _answered(work, status="429")
    name = f"{LIMITED_RANKS} ranks, {shards} shards of 4 MiB, 10 requests a second"
    return [
        Row(work=name, who=f"{OURS}, requests", value=good, unit="", ratio=good / shards, goal=1.0, at_most=True),
        Row(work=name, who="nginx, refused with 429 and asked again", value=refused, unit="", at_most=True),
    ]


def _write(folder: Path, shards: int) -> None:
    with ShardWriter(folder / "s-%06d.tar", max_samples=LIMITED_SAMPLES) as writer:
        for number in range(shards * LIMITED_SAMPLES):
            writer.write({"__key__": f"{number:06d}", "bin": bytes(LIMITED_BYTES), "cls": number})


def _answered(work: Path, *, status: str = "20[06]") -> int:
    """Requests for bytes of shards that nginx has answered so; those for a single byte ask for the version."""
    lines = (work / "access.log").read_text().splitlines()
    pattern = re.compile(rf'"GET \S+\.tar\S* HTTP/1\.[01]" {status} (\d+)')
    found = (pattern.search(line) for line in lines)
    return sum(1 for match in found if match is not None and match[1] != "1")

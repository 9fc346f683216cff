"""Every fault that a server can have, met by all who read shards over http: raw samples, the loader, and its cache.

Each gives what the same shard gives from a disk, or raises the named error; in bounded time, and nothing of it is left:
no thread, no descriptor. What the faults are, and what ranges and streams must make of them, says `servers.faults`;
`servers.chaos` has them one upon another, at any byte.
"""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import loaders
from loaders import Reading, ShardLoader
from tests.builders import settle, write_shard
from tests.servers.chaos import PATIENCE, ChaoticServer, bounded_by, seeds
from tests.servers.faults import FAULTS, MIDDLE, Fault
from wds_tools.errors import (
    MissingFieldError,
    RangesRefusedError,
    ShardChangedError,
    ShardstreamError,
    StaleIndexError,
    UnavailableError,
)
from wds_tools.index.listing import ShardRecord, write_listing
from wds_tools.shard import scan
from wds_tools.sources.http import close_idle
from wds_tools.sources.local import LocalFile

SAMPLES, SAMPLE_BYTES = 40, MIDDLE // 8  # five times what a transfer brings before it breaks
by_name = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
bounded = pytest.mark.timeout(60)  # who waits for ever fails; how long a fault takes is not asserted

Rows = list[tuple[str, bytes]]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(3)
    samples = [(f"{n:04d}", {"bin": draw.randbytes(SAMPLE_BYTES), "cls": b"%d" % n}) for n in range(SAMPLES)]
    return write_shard(tmp_path_factory.mktemp("shard") / "x.tar", samples)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    settle()
    close_idle()
    before = descriptors()
    yield
    while gc.collect():  # an error's traceback holds generators, whose ends let go of more
        pass
    close_idle()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("shardstream")]
    assert descriptors() == before


def descriptors() -> list[str]:
    """What is open, without numbers that differ from one to the next."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{entry}").partition(":[")[0])
        except FileNotFoundError:
            continue  # that of the listing itself
    return sorted(found)


def listing_of(folder: Path, shard: Path, url: str) -> Path:
    """A listing on this machine of the shard on that server, as `wds index --out` makes it."""
    with LocalFile(str(shard)) as source:
        found = scan(source)
    folder.mkdir()
    record = ShardRecord(url=url, samples=found.samples, bytes=found.size, offsets=found.offsets)
    write_listing(folder / "dataset.json", [record], name="faulty")
    return folder / "dataset.json"


def raw(urls: str | Path, read: Reading) -> Rows:
    with loaders.samples(str(urls), remote=read.remote) as samples:
        return [(sample["__key__"], bytes(sample["bin"])) for sample in samples]


def batches(urls: str | Path, read: Reading, **options: object) -> Rows:
    rows: Rows = []
    options = {"batch_size": 8, "fields": ("bin", "cls"), "threads": 2, "read": read, **options}
    with ShardLoader(urls, **options) as loader:  # type: ignore[arg-type]
        for batch in loader:
            rows += [(f"{label:04d}", data) for data, label in zip(batch.bin, batch.cls.tolist(), strict=True)]
    return rows


def in_order(urls: str | Path, read: Reading) -> Rows:
    return batches(urls, read, shuffle=False)


def shuffled(urls: str | Path, read: Reading) -> Rows:
    return batches(urls, read, lanes=2, seed=5)


Outcome = type[ShardstreamError] | None
OUTCOMES: tuple[Outcome, ...] = (None, UnavailableError)


def meets(read: Callable[[], Rows], expected: Rows, *outcomes: Outcome) -> None:
    """The samples as they are, where None is among the outcomes, or one of the named errors."""
    error: ShardstreamError | None = None
    rows: Rows = []
    try:
        rows = read()
    except ShardstreamError as caught:
        error = caught
    if error is None:
        assert rows == expected
        assert None in outcomes
    else:
        assert type(error) in outcomes, error
        assert error.url is not None


def by_ranges(fault: Fault) -> tuple[Outcome, ...]:
    """What the loader may make of a fault.

    A server without ranges sends the whole object, of which a range that begins at byte 0 can be had: whether that is
    all that is asked for depends on the order. One that has neither ranges nor versions cannot show that an object was
    replaced by another of the same length; what does not parse any more shows it. So it does where ranges are asked for
    at once, and the first answer that counts is of the new object.
    """
    if fault.ranges is ShardChangedError:
        return (ShardChangedError, StaleIndexError)
    if fault.ranges is not RangesRefusedError:
        return (fault.ranges,)
    undated = (StaleIndexError, MissingFieldError) if "version" in fault.name else ()
    return (RangesRefusedError, fault.stream, *undated)


@bounded
@by_name
def test_raw_samples(fault: Fault, shard: Path) -> None:
    with fault.server({"/x.tar": shard.read_bytes()}) as server:
        url, read = server.url("/x.tar"), Reading(remote=fault.patience(fault.stream))
        meets(lambda: raw(url, read), raw(shard, Reading()), fault.stream)


@bounded
@by_name
@pytest.mark.parametrize("order", [pytest.param(in_order, marks=pytest.mark.long), shuffled])
def test_the_loader(fault: Fault, order: Callable[[str | Path, Reading], Rows], shard: Path, tmp_path: Path) -> None:
    with fault.server({"/x.tar": shard.read_bytes()}) as server:
        urls = listing_of(tmp_path / "far", shard, server.url("/x.tar"))
        read = Reading(remote=fault.patience(*by_ranges(fault)))
        expected = order(listing_of(tmp_path / "near", shard, str(shard)), Reading())
        meets(lambda: order(urls, read), expected, *by_ranges(fault))


@bounded
@by_name
def test_the_cache(fault: Fault, shard: Path, tmp_path: Path) -> None:
    with fault.server({"/x.tar": shard.read_bytes()}) as server:
        urls = listing_of(tmp_path / "far", shard, server.url("/x.tar"))
        read = Reading(remote=fault.patience(*by_ranges(fault)), cache_dir=tmp_path / "cache")
        expected = shuffled(listing_of(tmp_path / "near", shard, str(shard)), Reading())
        meets(lambda: shuffled(urls, read), expected, *by_ranges(fault))
        if fault.ranges is None:
            asked = len(server.requests)
            assert shuffled(urls, read) == expected
            assert len(server.requests) == asked


@bounded_by(reads=SAMPLES)
@seeds(4, 25)
def test_any_way_to_read_from_a_server_that_errs_at_random(seed: int, shard: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    way, cache = draw.choice([raw, in_order, shuffled]), draw.choice([None, tmp_path / "cache"])
    with ChaoticServer({"/x.tar": shard.read_bytes()}, seed=seed, faults=draw.randrange(8)) as server:
        if way is raw:
            meets(lambda: raw(server.url("/x.tar"), Reading(remote=PATIENCE)), raw(shard, Reading()), *OUTCOMES)
            return
        urls = listing_of(tmp_path / "far", shard, server.url("/x.tar"))
        expected = way(listing_of(tmp_path / "near", shard, str(shard)), Reading())
        meets(lambda: way(urls, Reading(remote=PATIENCE, cache_dir=cache)), expected, *OUTCOMES)

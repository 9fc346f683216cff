"""Every fault that a server can have, met by ranges and by streams: the same bytes or the named error, in time.

First each by its name, at one place; then one upon another, at any byte of head and body, by chance (`servers.chaos`).
"""

import itertools
import random
import threading
from pathlib import Path

import pytest

from tests.servers.chaos import PATIENCE, ChaoticServer, bounded_by, seeds
from tests.servers.faults import FAULTS, MIDDLE, Fault
from tests.wds_tools.sources.cached import read
from wds_tools.errors import RangesRefusedError, ShardstreamError, UnavailableError
from wds_tools.sources.base import Source
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.http import HttpFile, HttpStream
from wds_tools.sources.options import Remote

CONTENT = random.Random(2).randbytes(4 * MIDDLE + 123)
MOST = 3 * 12  # requests of three attempts, each led on ten times at most
BOUNDS = (1000, MIDDLE * 2, MIDDLE * 2 + 1, MIDDLE * 3, len(CONTENT))

by_name = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
bounded = pytest.mark.timeout(60)  # a reader that waits for ever fails; how long a fault takes is not asserted


def read_ranges(url: str, remote: Remote) -> bytes:
    with HttpFile(url, remote=remote) as file:
        parts = []
        for begin, end in itertools.pairwise(BOUNDS):
            buffer = bytearray(end - begin)
            file.read_into(begin, memoryview(buffer))
            parts.append(buffer)
        return b"".join(parts)


def read_stream(stream: HttpStream) -> bytes:
    whole, buffer = bytearray(), bytearray(10_000)
    while count := stream.readinto(memoryview(buffer)):
        whole += buffer[:count]
    assert stream.readinto(memoryview(buffer)) == 0  # the end stays the end
    return bytes(whole)


@bounded
@by_name
def test_ranges(fault: Fault) -> None:
    with fault.server({"/x.tar": CONTENT}) as server:
        url = server.url("/x.tar")
        if fault.ranges is None:
            assert read_ranges(url, fault.patience(fault.ranges)) == CONTENT[BOUNDS[0] :]
            return
        with pytest.raises(ShardstreamError) as caught:
            read_ranges(url, fault.patience(fault.ranges))
        assert type(caught.value) is fault.ranges
        assert caught.value.url == url
        assert len(server.requests) <= MOST


@bounded
@by_name
def test_streams(fault: Fault) -> None:
    with fault.server({"/x.tar": CONTENT}) as server:
        url = server.url("/x.tar")
        with HttpStream(url, remote=fault.patience(fault.stream)) as stream:
            if fault.stream is None:
                assert read_stream(stream) == CONTENT
                assert stream.shows_cuts is fault.cuts
                return
            with pytest.raises(ShardstreamError) as caught:
                read_stream(stream)
            assert type(caught.value) is fault.stream
            assert caught.value.url == url
            assert len(server.requests) <= MOST


class Chance:
    """An object of any length, a server that errs at random, and reads that are drawn too; all the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.size = self.draw.choice([1 + self.draw.randrange(500), 1 + self.draw.randrange(300_000)])
        self.content = self.draw.randbytes(self.size)
        self.has_ranges = self.draw.random() < 0.8
        self.server = ChaoticServer(
            {"/x.tar": self.content}, seed=seed, faults=self.draw.randrange(8), has_ranges=self.has_ranges
        )

    def spans(self, count: int) -> list[tuple[int, int]]:
        """Beginnings and lengths."""
        begins = [self.draw.randrange(self.size) for _ in range(count)]
        return [(begin, 1 + self.draw.randrange(self.size - begin)) for begin in begins]

    def meets(self, source: Source, spans: list[tuple[int, int]]) -> None:
        """Each of these is right, or cannot be had."""
        for begin, length in spans:
            try:
                assert read(source, begin, length) == self.content[begin : begin + length]
            except UnavailableError:
                continue
            except RangesRefusedError:
                assert not self.has_ranges


@bounded_by(reads=9)
@seeds(4, 30)
def test_any_ranges_in_any_threads_of_a_server_that_errs_at_random(seed: int) -> None:
    chance = Chance(seed)
    plans = [chance.spans(3) for _ in range(chance.draw.choice([1, 3]))]
    failed: list[BaseException] = []

    def work(spans: list[tuple[int, int]]) -> None:
        try:
            chance.meets(file, spans)
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that pytest sees
            failed.append(error)

    with chance.server as server, HttpFile(server.url("/x.tar"), remote=PATIENCE) as file:
        threads = [threading.Thread(target=work, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


@bounded_by(reads=1)
@seeds(4, 30)
def test_any_pass_over_a_server_that_errs_at_random(seed: int) -> None:
    chance = Chance(seed)
    size = chance.draw.choice([None, chance.size])
    got, buffer = bytearray(), bytearray(1 + chance.draw.randrange(40_000))
    with chance.server as server, HttpStream(server.url("/x.tar"), remote=PATIENCE, size=size) as stream:
        try:
            while count := stream.readinto(memoryview(buffer)):
                got += buffer[:count]
            whole = stream.shows_cuts
        except UnavailableError:
            whole = False
    assert got == chance.content[: len(got)]
    assert len(got) == chance.size or not whole


@bounded_by(reads=7)
@seeds(4, 25)
def test_any_reads_of_a_cache_before_a_server_that_errs_at_random(seed: int, tmp_path: Path) -> None:
    chance = Chance(seed)
    with chance.server as server, DiskCache(tmp_path) as cache:
        url = server.url("/x.tar")
        for _ in range(2):
            inner = HttpFile(url, remote=PATIENCE)
            with cache.open(url, size=chance.size, version=None, inner=inner, dataset="d") as file:
                chance.meets(file, chance.spans(3))

"""Every fault that a server can have, met by ranges and by streams: the same bytes or the named error, in time."""

import itertools
import random
from collections.abc import Iterator

import pytest

from tests.servers.faults import FAULTS, MIDDLE, Fault
from wds_tools.errors import ShardstreamError
from wds_tools.sources.http import HttpFile, HttpStream, close_idle
from wds_tools.sources.options import Remote

CONTENT = random.Random(2).randbytes(4 * MIDDLE + 123)
BOUNDS = (1000, MIDDLE * 2, MIDDLE * 2 + 1, MIDDLE * 3, len(CONTENT))

by_name = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
bounded = pytest.mark.timeout(60)  # a reader that waits for ever fails; how long a fault takes is not asserted


@pytest.fixture(autouse=True)
def _no_idle_connections() -> Iterator[None]:
    yield
    close_idle()


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
            assert read_ranges(url, fault.patience) == CONTENT[BOUNDS[0] :]
            return
        with pytest.raises(ShardstreamError) as caught:
            read_ranges(url, fault.patience)
        assert type(caught.value) is fault.ranges
        assert caught.value.url == url
        assert len(server.requests) <= 12


@bounded
@by_name
def test_streams(fault: Fault) -> None:
    with fault.server({"/x.tar": CONTENT}) as server:
        url = server.url("/x.tar")
        with HttpStream(url, remote=fault.patience) as stream:
            if fault.stream is None:
                assert read_stream(stream) == CONTENT
                assert stream.shows_cuts is fault.cuts
                return
            with pytest.raises(ShardstreamError) as caught:
                read_stream(stream)
            assert type(caught.value) is fault.stream
            assert caught.value.url == url
            assert len(server.requests) <= 12

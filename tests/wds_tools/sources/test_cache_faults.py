"""Every fault of a server, read through the cache: the same bytes or the named error, and nothing wrong is kept."""

import random
from pathlib import Path

import pytest

from tests.servers.faults import FAULTS, MIDDLE, Fault
from tests.wds_tools.sources.cached import Fake, read
from wds_tools.errors import ShardstreamError
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.http import HttpFile
from wds_tools.sources.options import Remote

CONTENT = random.Random(2).randbytes(4 * MIDDLE + 123)
# A host that names no version is believed to keep its object, so that a replacement of the same size goes unseen.
SEEN = [fault for fault in FAULTS if fault.name != "replaced in the middle, without ranges or a version"]
BOUNDS = (1000, MIDDLE * 2, 0, MIDDLE * 3)


def read_all(cache: DiskCache, url: str, remote: Remote) -> bytes | type[ShardstreamError]:
    inner = HttpFile(url, remote=remote)
    with cache.open(url, size=len(CONTENT), version=None, inner=inner, dataset="d") as file:
        try:
            parts = [read(file, begin, 1000) for begin in BOUNDS]
            whole = read(file, 0, len(CONTENT))
        except ShardstreamError as error:
            return type(error)
    assert parts == [whole[begin : begin + 1000] for begin in BOUNDS]
    return whole


@pytest.mark.timeout(60)  # a reader that waits for ever fails; how long a fault takes is not asserted
@pytest.mark.parametrize("fault", SEEN, ids=lambda fault: fault.name)
def test_the_same_bytes_or_the_named_error_and_nothing_wrong_is_kept(fault: Fault, tmp_path: Path) -> None:
    # The object is one extent, which a host without ranges sends whole: outcomes are those of ranges or of one pass.
    with fault.server({"/x.tar": CONTENT}) as server, DiskCache(tmp_path) as cache:
        outcomes = {fault.ranges, fault.stream}
        patience = fault.patience(*outcomes)
        got = read_all(cache, server.url("/x.tar"), patience)
        right = {CONTENT} if None in outcomes else set()
        assert got in outcomes | right
        requests = len(server.requests)
        if isinstance(got, bytes):
            assert read_all(cache, server.url("/x.tar"), patience) == got
            assert len(server.requests) == requests  # it is all here
        else:
            assert cache.info().bytes == 0
            with cache.open(
                server.url("/x.tar"), size=len(CONTENT), version=None, inner=Fake(CONTENT), dataset="d"
            ) as file:
                assert read(file, 0, len(CONTENT)) == CONTENT

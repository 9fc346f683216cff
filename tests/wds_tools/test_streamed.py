"""A shard read in one pass over http is the shard that lies on a disk, and a pass asks once."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import write_shard
from tests.servers.faulty import Behaviour, FaultyServer, chunked, ends, ignoring_range, until_closed
from wds_tools.contents import contents
from wds_tools.errors import RangesRefusedError, TruncatedShardError
from wds_tools.shard import iter_samples, scan
from wds_tools.sources.base import Source
from wds_tools.sources.http import close_idle
from wds_tools.sources.local import LocalFile
from wds_tools.sources.resolve import open_stream
from wds_tools.streamed import ForwardSource, Incoming, iter_streamed, open_pass

CONTENT = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def _idle_connections_end() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With members that a scan jumps over, and small ones."""
    samples = [(f"{n:03d}", {"bin": bytes([n]) * (300_000 if n % 7 == 0 else 90), "cls": b"%d" % n}) for n in range(40)]
    return write_shard(tmp_path_factory.mktemp("shard") / "x.tar", samples)


class Pieces:
    """A stream of bytes that come in pieces of any size."""

    url, shows_cuts = "http://h/x", True

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = io.BytesIO(data), sizes
        self.closed = False

    def readinto(self, buffer: memoryview, /) -> int:
        size = self._sizes.pop() if self._sizes else len(buffer)
        return self._data.readinto(buffer[: max(1, size)])

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def read(source: Source, offset: int, size: int) -> bytes:
    buffer = bytearray(size)
    source.read_into(offset, memoryview(buffer))
    return bytes(buffer)


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=12),
    st.lists(st.integers(1, 700), max_size=30),
    st.integers(0, 9),
)
def test_reads_that_go_forward_give_the_bytes_there(steps: list[tuple[int, int]], sizes: list[int], looks: int) -> None:
    source = ForwardSource(Pieces(CONTENT, sizes), len(CONTENT))
    for _ in range(looks):
        assert read(source, 0, 10) == CONTENT[:10]
    position = 0
    for gap, size in steps:
        begin = position + gap
        if begin + size > len(CONTENT):
            break
        assert read(source, begin, size) == CONTENT[begin : begin + size]
        position = begin + size


def test_a_stream_that_ends_early_is_no_end() -> None:
    source = ForwardSource(Pieces(CONTENT[:5000], []), len(CONTENT))
    with pytest.raises(TruncatedShardError, match="ended before"):
        read(source, 4500, 1000)
    with pytest.raises(TruncatedShardError, match="expected"):
        read(source, len(CONTENT) - 5, 10)


@given(st.integers(0, 20), st.lists(st.integers(1, 7), max_size=9), st.integers(1, 30))
def test_the_head_is_seen_and_read_all_the_same(looked_at: int, sizes: list[int], step: int) -> None:
    incoming = Incoming(Pieces(CONTENT[:100], sizes))
    assert incoming.head(looked_at) == CONTENT[:looked_at]
    whole, buffer = b"", bytearray(step)
    while count := incoming.readinto(memoryview(buffer)):
        whole += buffer[:count]
        assert incoming.tell() == len(whole)
    assert whole == CONTENT[:100]


def test_a_pass_over_a_remote_shard_is_one_request(shard: Path) -> None:
    with FaultyServer({"/x.tar": shard.read_bytes()}) as server, LocalFile(str(shard)) as local:
        url = server.url("/x.tar")
        with open_pass(url) as source:
            found, expected = scan(source), scan(local)
        assert np.array_equal(found.offsets, expected.offsets)
        assert (found.size, found.fields) == (expected.size, expected.fields)
        with open_pass(url) as source:
            assert [entry._replace(url="") for entry in contents(source)] == [
                entry._replace(url="") for entry in contents(local)
            ]
        assert [request.range for request in server.requests] == [None, None]


@pytest.mark.parametrize("plan", [ignoring_range, chunked(), until_closed()], ids=["no ranges", "chunks", "no end"])
def test_any_server_will_do(shard: Path, plan: object) -> None:
    with FaultyServer({"/x.tar": shard.read_bytes()}, then=Behaviour(plan)) as server:  # type: ignore[arg-type]
        with open_pass(server.url("/x.tar")) as source, LocalFile(str(shard)) as local:
            assert np.array_equal(scan(source).offsets, scan(local).offsets)
        with open_stream(server.url("/x.tar")) as stream, LocalFile(str(shard)) as local:
            near = [{**sample, "__url__": ""} for sample in iter_samples(local)]
            assert [{**sample, "__url__": ""} for sample in iter_streamed(stream)] == near


def test_a_body_without_length_that_breaks_at_a_members_end_is_a_cut(shard: Path) -> None:
    with LocalFile(str(shard)) as local:
        cut = int(scan(local).offsets[20])
    with FaultyServer({"/x.tar": shard.read_bytes()}, then=Behaviour(until_closed(), ends(cut))) as server:
        with pytest.raises(TruncatedShardError):
            open_pass(server.url("/x.tar"))
        with open_stream(server.url("/x.tar")) as stream, pytest.raises(TruncatedShardError):
            list(iter_streamed(stream))


def test_compressed_shards_stream(shard: Path) -> None:
    packed = gzip.compress(shard.read_bytes())
    with FaultyServer({"/x.tar.gz": packed, "/y.tar.gz": packed[:-30]}) as server, LocalFile(str(shard)) as local:
        with open_stream(server.url("/x.tar.gz")) as stream:
            assert [s["__key__"] for s in iter_streamed(stream)] == [s["__key__"] for s in iter_samples(local)]
        with open_stream(server.url("/y.tar.gz")) as stream, pytest.raises(TruncatedShardError):
            list(iter_streamed(stream))


def test_links_lead_where_they_lead(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, content in (("a.txt", b"one"), ("b.bin", b"x" * 9000)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("c.txt")
        link.type, link.linkname = tarfile.LNKTYPE, "a.txt"
        archive.addfile(link)
    with FaultyServer({"/x.tar": (tmp_path / "x.tar").read_bytes()}) as server:
        with open_stream(server.url("/x.tar")) as stream:
            assert [bytes(sample.get("txt", b"")) for sample in iter_streamed(stream)] == [b"one", b"", b"one"]
        server.then = Behaviour(ignoring_range)
        with open_stream(server.url("/x.tar")) as stream:
            with pytest.raises(RangesRefusedError):  # what lies behind cannot be had
                list(iter_streamed(stream))

"""Stores that hang: silence, trickles and heads without end are given up in time, and `close` waits for none."""

from __future__ import annotations

import contextlib
import random
import threading
from dataclasses import replace

import pytest

from tests.servers.faulty import Behaviour, Conversation, Deliver, FaultyServer, Reply, stalls, trickles
from wds_tools.errors import UnavailableError
from wds_tools.sources.ahead import AheadStream
from wds_tools.sources.fsspec import FsspecFile
from wds_tools.sources.options import Remote

DATA = random.Random(8).randbytes(100_000)
URL, PATH = "s3://bucket/x.tar", "/bucket/x.tar"
TIMES = Remote(attempts=2, give_up_s=0.5, connect_s=0.2, stall_s=0.3, minimum_rate=2000)
bounded = pytest.mark.timeout(60)  # who waits for ever fails; how long it takes is not asserted


def remote_of(server: FaultyServer, times: Remote) -> Remote:
    s3 = {"endpoint_url": server.url(""), "key": "a", "secret": "b", "client_kwargs": {"region_name": "us-east-1"}}
    return replace(times, storage={"s3": s3})


def trickling_head(conversation: Conversation, reply: Reply) -> None:
    with contextlib.suppress(OSError):  # until the client has gone
        conversation.write(b"HTTP/1.1 200 Said\r\nMore: ")
        while not conversation.server.closing.wait(0.02):
            conversation.write(b"-")


@bounded
@pytest.mark.parametrize(
    "deliver",
    [stalls(None), stalls(70_000), trickles(70_000), trickling_head],
    ids=["silence before the answer", "silence in the middle", "trickle", "a head that trickles"],
)
def test_a_store_that_hangs_is_given_up(deliver: Deliver) -> None:
    with FaultyServer({PATH: DATA}, then=Behaviour(deliver=deliver)) as server:
        with FsspecFile(URL, remote=remote_of(server, TIMES)) as file, pytest.raises(UnavailableError):
            file.read_into(0, memoryview(bytearray(len(DATA))))


@bounded
@pytest.mark.parametrize("ahead", [False, True])
def test_closing_ends_a_request_that_hangs(ahead: bool) -> None:
    asked = threading.Event()

    def stall(conversation: Conversation, reply: Reply) -> None:
        asked.set()
        conversation.await_end()

    with FaultyServer({PATH: DATA}, then=Behaviour(deliver=stall)) as server:
        file = FsspecFile(URL, remote=remote_of(server, Remote(stall_s=600, give_up_s=6000)), size=len(DATA))
        stream = AheadStream(file)
        found: list[BaseException] = []

        def work() -> None:
            try:
                (stream.readinto if ahead else lambda buffer: file.read_into(0, buffer))(memoryview(bytearray(100)))
            except UnavailableError as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert asked.wait(30)
        stream.close()
        thread.join()
        assert "not open" in str(found[0]) or "closed" in str(found[0])


@bounded
def test_a_client_does_not_have_the_times_of_the_one_before() -> None:
    with FaultyServer({PATH: DATA}, [Behaviour(), Behaviour(deliver=stalls(None))]) as server:
        for times in (Remote(stall_s=600), replace(TIMES, attempts=8, give_up_s=60, minimum_rate=1)):
            with FsspecFile(URL, remote=remote_of(server, times)) as file:
                file.read_into(0, memoryview(bytearray(10)))
        assert len(server.requests) >= 3, "the silence was given up, as may be what a busy machine answered late"

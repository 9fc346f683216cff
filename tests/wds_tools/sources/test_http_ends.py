"""Where a stream ends, and whose bytes it gives: parts that say little, bodies that are too long, versions left out."""

import random

import pytest

from tests.servers.faulty import (
    Behaviour,
    FaultyServer,
    Plan,
    Reply,
    Request,
    Stored,
    bare,
    chunked,
    clipped,
    ends,
    ignoring_range,
    names,
    resets,
    until_closed,
    well,
)
from tests.wds_tools.sources.streams import rest_of
from wds_tools.errors import ShardChangedError, UnavailableError
from wds_tools.sources.http import HttpFile, HttpStream
from wds_tools.sources.options import Remote

CONTENT = random.Random(6).randbytes(300_001)
QUICK = Remote(attempts=3, give_up_s=10, connect_s=5, stall_s=5)


def without_total(plan: Plan = well) -> Plan:
    def changed(request: Request, stored: Stored) -> Reply:
        reply = plan(request, stored)
        named = reply.headers.get("Content-Range")
        return reply if named is None or reply.status != 206 else reply.but(Content_Range=f"{named.split('/')[0]}/*")

    return changed


def longer(request: Request, stored: Stored) -> Reply:
    """In chunks, and more of them than there should be."""
    reply = well(request, stored)
    return chunked(lambda *_: Reply(reply.status, reply.headers, reply.body + b"more" * 5000))(request, stored)


def test_the_end_of_a_part_is_not_that_of_an_object_of_unknown_length() -> None:
    clip = Behaviour(without_total(clipped(50_000)))
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(chunked(), ends(90_000))], clip) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


def test_where_the_end_was_to_be_proven_a_later_answer_has_to_prove_it() -> None:
    script = [Behaviour(chunked(), ends(70_000)), Behaviour(until_closed(), ends(150_000)), Behaviour(chunked())]
    with FaultyServer({"/x.tar": CONTENT}, script) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT
            assert stream.shows_cuts


def test_of_a_part_no_more_counts_than_it_says_that_it_is() -> None:
    def part(request: Request, stored: Stored) -> Reply:
        return longer(request, stored) if request.range else well(request, stored)

    script = [Behaviour(deliver=resets(100_000)), Behaviour(part)]
    with FaultyServer({"/x.tar": CONTENT}, script) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


def test_more_bytes_than_were_stated_are_another_object() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(chunked())) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK, size=123_456) as stream:
            with pytest.raises(ShardChangedError, match="more than its 123,456 bytes"):
                rest_of(stream)


def test_all_of_it_anew_counts_only_where_it_is_of_a_known_version() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(bare(ignoring_range))) as server:
        server.script = [Behaviour(ignoring_range, resets(100_000))]
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert stream.version is not None
            server.put("/x.tar", CONTENT[::-1])
            with pytest.raises(UnavailableError, match="no longer says of which version"):
                rest_of(stream)


def test_where_if_range_is_not_known_a_part_counts_only_with_its_version() -> None:
    def never_true(request: Request, stored: Stored) -> Reply:
        return ignoring_range(request, stored) if "if-range" in request.headers else well(request, stored)

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(never_true)) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file:
            buffer = memoryview(bytearray(1000))
            for begin in (5, 5000):
                file.read_into(begin, buffer)
                assert buffer == CONTENT[begin : begin + 1000]
            server.put("/x.tar", CONTENT[::-1])
            server.then = Behaviour(names(bare(never_true)))
            with pytest.raises(UnavailableError, match="no longer says of which version"):
                file.read_into(5000, buffer)


@pytest.mark.timeout(60)  # what has no bound fails; how long it takes is not asserted
@pytest.mark.parametrize(
    "turns",
    [
        [Behaviour(bare(clipped(60_000))), Behaviour(bare(well), resets(10_000))],
        [Behaviour(ignoring_range, resets(20_000)), Behaviour(ignoring_range, resets(90_000))],
    ],
    ids=["without a version", "without ranges"],
)
def test_what_is_begun_anew_each_time_and_never_ends_is_given_up(turns: list[Behaviour]) -> None:
    with FaultyServer({"/x.tar": CONTENT}, turns * 50, turns[0]) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file, pytest.raises(UnavailableError):
            file.read_into(0, memoryview(bytearray(len(CONTENT))))
        assert len(server.requests) < 20

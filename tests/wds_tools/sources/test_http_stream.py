"""Streams over http: one request for the whole, what is known of its end, resumption at the byte, an end by others."""

import contextlib
import io
import pickle
import random
import tarfile
import threading

import pytest

from tests.servers.faulty import (
    Behaviour,
    Conversation,
    FaultyServer,
    Plan,
    Reply,
    Stored,
    bare,
    chunked,
    ends,
    ignoring_range,
    names,
    resets,
    says,
    until_closed,
    well,
)
from tests.wds_tools.sources.streams import rest_of
from wds_tools.errors import ShardChangedError, ShardMissingError, TruncatedShardError, UnavailableError
from wds_tools.shard import iter_stream
from wds_tools.sources import resolve
from wds_tools.sources.http import HttpStream, close_idle, connections, retry
from wds_tools.sources.http import stream as module
from wds_tools.sources.options import Remote

CONTENT = random.Random(3).randbytes(300_001)
QUICK = Remote(attempts=3, give_up_s=10, connect_s=5, stall_s=5)
CUT = Behaviour(deliver=resets(100_000))


def test_a_stream_is_one_plain_request() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with resolve.open_stream(server.url("/x.tar")) as stream:
            assert server.requests == []
            assert isinstance(stream, HttpStream)
            assert rest_of(stream) == CONTENT
            assert stream.readinto(memoryview(bytearray(5))) == 0
        assert server.ranges("/x.tar") == [None]
        assert server.requests[0].headers["accept-encoding"] == "identity"


def test_what_is_known_before_the_first_byte_takes_no_further_request() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpStream(server.url("/x.tar")) as stream:
        assert (stream.length, stream.version, stream.shows_cuts) == (len(CONTENT), Stored(CONTENT).etag, True)
        assert rest_of(stream) == CONTENT
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("behaviour", "length", "shows_cuts"),
    [
        (Behaviour(), len(CONTENT), True),
        (Behaviour(chunked()), None, True),
        (Behaviour(until_closed()), None, False),
    ],
    ids=["length", "chunks", "bare end"],
)
def test_ends_that_are_proven_and_one_that_is_not(behaviour: Behaviour, length: int | None, shows_cuts: bool) -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=behaviour) as server, HttpStream(server.url("/x.tar")) as stream:
        assert (stream.length, stream.shows_cuts) == (length, shows_cuts)
        assert rest_of(stream) == CONTENT


def test_an_empty_object_ends_at_once() -> None:
    for behaviour in (Behaviour(), Behaviour(chunked()), Behaviour(until_closed())):
        with FaultyServer({"/x": b""}, then=behaviour) as server, HttpStream(server.url("/x")) as stream:
            assert rest_of(stream) == b""


def test_what_breaks_is_taken_up_at_the_byte_by_the_version() -> None:
    with FaultyServer({"/x.tar": CONTENT}, [CUT, CUT]) as server:
        with HttpStream(server.url("/x.tar")) as stream:
            assert rest_of(stream) == CONTENT
        first, second, third = server.requests
        assert first.range is None
        for request in (second, third):
            assert request.headers["if-range"] == Stored(CONTENT).etag
            assert request.range is not None
        assert (0, None) < second.range < third.range  # type: ignore[operator]


def test_without_an_etag_the_date_is_what_is_asked_by() -> None:
    only_date = names(ETag=None)
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(only_date, resets(100_000))], Behaviour(only_date)) as server:
        with HttpStream(server.url("/x.tar")) as stream:
            assert rest_of(stream) == CONTENT
            assert stream.version == Stored(CONTENT).modified
        assert server.requests[1].headers["if-range"] == Stored(CONTENT).modified


def test_without_a_version_no_range_is_trusted_and_what_was_delivered_is_compared() -> None:
    plan = bare(ignoring_range)
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(plan, resets(100_000))], Behaviour(plan)) as server:
        with HttpStream(server.url("/x.tar")) as stream:
            assert rest_of(stream) == CONTENT
        assert server.ranges("/x.tar") == [None, None]
        with HttpStream(server.url("/y.tar"), remote=QUICK) as stream:
            server.put("/y.tar", CONTENT)
            begin = bytearray(50_000)
            assert stream.readinto(memoryview(begin)) > 0
            server.put("/y.tar", bytes([CONTENT[0] ^ 1]) + CONTENT[1:])
            with pytest.raises(ShardChangedError, match="not what they were"):
                rest_of(stream)


def test_chunks_that_lack_only_their_end_mark_are_complete_when_the_server_says_so() -> None:
    coded = len(chunked()(None, Stored(CONTENT)).body)  # type: ignore[arg-type]
    unmarked = Behaviour(chunked(), ends(coded - len(b"0\r\n\r\n")))
    with FaultyServer({"/x.tar": CONTENT}, [unmarked]) as server, HttpStream(server.url("/x.tar")) as stream:
        assert rest_of(stream) == CONTENT
        assert server.ranges("/x.tar") == [None, (len(CONTENT), None)]  # 416, whose total is what was read


def test_an_object_that_shrank_below_what_was_read_is_cut() -> None:
    lost = names(chunked(), ETag='"same"', Last_Modified=None)
    shrunk = Behaviour(names(says(416, Content_Range="bytes */5"), ETag='"same"'))
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(lost, ends(100_000))], shrunk) as server:
        with (
            HttpStream(server.url("/x.tar"), remote=QUICK) as stream,
            pytest.raises(TruncatedShardError, match="5 bytes"),
        ):
            rest_of(stream)


def test_expectations_are_held_against_the_first_answer() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpStream(server.url("/x.tar"), size=5) as stream, pytest.raises(ShardChangedError):
            rest_of(stream)
        with HttpStream(server.url("/x.tar"), version='"other"') as stream, pytest.raises(ShardChangedError):
            rest_of(stream)
        with HttpStream(server.url("/x.tar"), size=len(CONTENT), version=Stored(CONTENT).etag) as stream:
            assert rest_of(stream) == CONTENT


def test_a_failed_stream_holds_no_connection_and_says_the_same_again() -> None:
    with FaultyServer({}) as server, HttpStream(server.url("/none.tar")) as stream:
        for _ in range(2):
            with pytest.raises(ShardMissingError):
                stream.readinto(memoryview(bytearray(5)))
        with pytest.raises(ShardMissingError):
            _ = stream.shows_cuts


def test_more_streams_than_places_can_be_open_at_once() -> None:
    remote = Remote(in_flight=2)
    with FaultyServer({"/x.tar": CONTENT}) as server:
        streams = [HttpStream(server.url("/x.tar"), remote=remote) for _ in range(6)]
        pieces = bytearray(10)
        for _ in range(3):
            for stream in streams:
                assert stream.readinto(memoryview(pieces)) > 0
        for stream in streams:
            stream.close()
            stream.close()


@pytest.mark.parametrize(
    ("plan", "sent"),
    [(well, 900), (chunked(), len(b"1388\r\n") + 900), (until_closed(), 900)],
    ids=["length", "chunks", "bare end"],
)
def test_a_transfer_that_was_cut_off_here_is_no_end_of_the_object(plan: Plan, sent: int) -> None:
    def stall(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=sent)
        conversation.await_end()

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(plan, stall)) as server:
        with HttpStream(server.url("/x.tar")) as stream:
            left = 900
            while left:
                left -= stream.readinto(memoryview(bytearray(left)))
            stream._subject.close()  # what `close` does first, while another thread waits for the next byte
            with pytest.raises(UnavailableError, match="closed"):
                stream.readinto(memoryview(bytearray(10)))


def test_closing_wakes_the_reader() -> None:
    silent = threading.Event()

    def stall(conversation: Conversation, reply: Reply) -> None:
        conversation.send(reply, upto=1000)
        silent.set()
        conversation.await_end()

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=stall)) as server:
        stream = HttpStream(server.url("/x.tar"), remote=Remote(stall_s=200))
        errors: list[BaseException] = []

        def read() -> None:
            try:
                rest_of(stream)
            except UnavailableError as error:
                errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        assert silent.wait(30)
        stream.close()
        thread.join()
        assert "closed" in str(errors[0])
        with pytest.raises(UnavailableError, match="closed"):
            stream.readinto(memoryview(bytearray(5)))


def test_the_callers_own_time_is_not_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0}

    class Time:
        monotonic = staticmethod(lambda: clock["now"])

    monkeypatch.setattr(retry, "time", Time)
    monkeypatch.setattr(module, "time", Time)
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(deliver=resets(1000))]) as server:
        with HttpStream(server.url("/x.tar"), remote=Remote(give_up_s=5, minimum_rate=2000)) as stream:
            assert stream.readinto(memoryview(bytearray(500))) == 500
            clock["now"] += 3600
            assert rest_of(stream) == CONTENT[500:]


def test_streams_travel_before_they_begin() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with pickle.loads(pickle.dumps(HttpStream(server.url("/x.tar"), remote=QUICK))) as stream:
            assert rest_of(stream) == CONTENT


def test_an_archive_shows_the_cut_that_an_unproven_end_does_not() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(20):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 5000
            tar.addfile(member, io.BytesIO(bytes(5000)))
    whole = archive.getvalue()
    for content in (whole, whole[:50_000]):
        with FaultyServer({"/x.tar": content}, then=Behaviour(until_closed())) as server:
            with HttpStream(server.url("/x.tar")) as stream:
                samples = iter_stream(stream, url=stream.url, whole=stream.shows_cuts)
                if content == whole:
                    assert len(list(samples)) == 20
                    continue
                with pytest.raises(TruncatedShardError):
                    list(samples)


def test_local_files_are_streams_too(tmp_path: object) -> None:
    path = f"{tmp_path}/x.tar"
    with open(path, "wb") as file:
        file.write(CONTENT)
    with resolve.open_stream(path) as stream:
        assert stream.shows_cuts
        assert rest_of(stream) == CONTENT


def replied(status: int, headers: dict[str, str], body: bytes) -> Behaviour:
    return Behaviour(lambda _request, _stored: Reply(status, headers, body))


def test_a_chunk_of_a_negative_size_breaks_the_transfer_and_nothing_else() -> None:
    wrong = replied(200, {"Transfer-Encoding": "chunked"}, b"-5\r\n" + CONTENT[:20_000])
    with FaultyServer({"/x.tar": CONTENT}, [wrong], then=Behaviour(chunked())) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


@pytest.mark.parametrize("length", ["-5", "many", ""])
def test_a_length_that_is_none_proves_no_end(length: str) -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(names(ignoring_range, Content_Length=length))) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert not stream.shows_cuts
            assert stream.length is None


def test_a_head_that_trickles_is_given_up() -> None:
    def trickling(conversation: Conversation, reply: Reply) -> None:
        with contextlib.suppress(OSError):  # until the client has gone
            for byte in reply.head():
                conversation.write(bytes([byte]))
                conversation.server.closing.wait(0.02)  # 200 bytes and more: 4 s

    impatient = Remote(attempts=1, give_up_s=10, connect_s=5, stall_s=0.3)
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(deliver=trickling)]) as server:
        with (
            HttpStream(server.url("/x.tar"), remote=impatient) as stream,
            pytest.raises(UnavailableError, match="time"),
        ):
            rest_of(stream)


def test_interim_answers_without_end_are_given_up() -> None:
    def interim(conversation: Conversation, reply: Reply) -> None:
        with contextlib.suppress(OSError):  # until the client has gone
            while True:
                conversation.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(deliver=interim)]) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


def test_no_connection_outlives_close_idle_in_an_error_that_somebody_keeps() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(says(404))) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream, pytest.raises(ShardMissingError) as caught:
            rest_of(stream)
        close_idle()
        assert [each for each in connections._sockets if each.fileno() >= 0] == []
        assert caught.value.url == server.url("/x.tar")

"""Ranges over http from a server that behaves: right bytes, few requests, one object."""

import os
import pickle
import random
import threading

import pytest

from tests.servers.faulty import (
    Behaviour,
    Conversation,
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
    says,
    well,
)
from wds_tools.errors import (
    RangesRefusedError,
    ShardChangedError,
    ShardMissingError,
    TruncatedShardError,
    UnavailableError,
    UsageError,
)
from wds_tools.sources import resolve
from wds_tools.sources.http import HttpFile
from wds_tools.sources.options import Remote

CONTENT = random.Random(1).randbytes(1_000_003)
QUICK = Remote(attempts=3, give_up_s=60, connect_s=20, stall_s=20)


def read(file: HttpFile, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def test_opening_asks_nothing_and_a_range_is_one_request() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with resolve.open_source(server.url("/x.tar")) as source:
            assert server.requests == []
            buffer = bytearray(5000)
            source.read_into(70_000, memoryview(buffer))
        assert buffer == CONTENT[70_000:75_000]
        assert server.ranges("/x.tar") == [(70_000, 74_999)]
        assert server.requests[0].headers["accept-encoding"] == "identity"
        assert server.requests[0].headers["user-agent"].startswith("shardstream/")


def test_one_connection_serves_read_after_read() -> None:
    with FaultyServer({"/x.tar": CONTENT, "/y.tar": CONTENT}) as server:
        for path in ("/x.tar", "/y.tar"):
            with HttpFile(server.url(path)) as file:
                for offset in range(0, 900_000, 100_000):
                    assert read(file, offset, 100_000) == CONTENT[offset : offset + 100_000]
        assert server.connections == 1


def test_the_first_answer_tells_size_and_version_and_later_ones_are_asked_for_by_it() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        assert (file.version, file.ranges) == (None, None)
        assert read(file, 0, 10) == CONTENT[:10]
        etag = Stored(CONTENT).etag
        assert (file.version, file.ranges, file.size()) == (etag, True, len(CONTENT))
        read(file, 10, 10)
        assert [request.headers.get("if-range") for request in server.requests] == [None, etag]


def test_the_size_takes_one_request_for_one_byte() -> None:
    with FaultyServer({"/x.tar": CONTENT, "/empty": b""}) as server:
        with HttpFile(server.url("/x.tar")) as file:
            assert file.size() == file.size() == len(CONTENT)
        assert server.ranges("/x.tar") == [(0, 0)]
        with HttpFile(server.url("/empty")) as file:  # where every range lies behind the end: 416
            assert file.size() == 0
            file.read_into(0, memoryview(b""))


def test_a_stated_size_is_believed_until_an_answer_contradicts() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpFile(server.url("/x.tar"), size=len(CONTENT)) as file:
            assert file.size() == len(CONTENT)
            assert server.requests == []
        with HttpFile(server.url("/x.tar")).expect(size=len(CONTENT) + 1) as file:
            with pytest.raises(ShardChangedError, match=r"1,000,004 bytes and has 1,000,003 now.*wds index"):
                read(file, 0, 10)
        with HttpFile(server.url("/x.tar"), version=Stored(b"other").etag) as file:
            with pytest.raises(ShardChangedError, match="ETag"):
                read(file, 0, 10)
        with HttpFile(server.url("/x.tar"), version=Stored(CONTENT).modified) as file:
            assert read(file, 0, 10) == CONTENT[:10]


def test_reads_from_many_threads_share_one_file() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        wrong: list[int] = []

        def some(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(20):
                offset = chance.randrange(len(CONTENT) - 3000)
                if read(file, offset, 3000) != CONTENT[offset : offset + 3000]:
                    wrong.append(offset)

        threads = [threading.Thread(target=some, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(server.requests) == 160
        assert server.connections <= 8


def test_no_more_ranges_are_asked_for_at_once_than_allowed() -> None:
    most, now, lock, all_in = 0, 0, threading.Lock(), threading.Barrier(3)

    def counted(conversation: Conversation, reply: Reply) -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        all_in.wait(30)  # three are served at once: fewer would wait for ever
        with lock:
            now -= 1
        conversation.send(reply)

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=counted)) as server:
        with HttpFile(server.url("/x.tar"), remote=Remote(in_flight=3)) as file:
            threads = [threading.Thread(target=read, args=(file, at * 100, 100)) for at in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert most == 3


def test_ranges_behind_the_end_are_truncation_whether_the_end_is_known_or_not() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        for offset, length in ((len(CONTENT) - 10, 11), (len(CONTENT), 1), (len(CONTENT) + 50, 10)):
            with HttpFile(server.url("/x.tar")) as file:
                with pytest.raises(TruncatedShardError, match="1,000,003 bytes"):
                    read(file, offset, length)
                asked = len(server.requests)
                with pytest.raises(TruncatedShardError):  # the end is known now: nobody is asked
                    read(file, offset, length)
                assert len(server.requests) == asked


def test_a_part_that_ends_early_is_continued_and_one_that_begins_early_is_used_from_where_it_matters() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(clipped(3000))) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file:
            assert read(file, 500, 10_000) == CONTENT[500:10_500]
        assert server.ranges("/x.tar") == [(begin, 10_499) for begin in (500, 3500, 6500, 9500)]


@pytest.mark.parametrize("first", [ignoring_range, chunked(), well], ids=["whole", "chunked", "part"])
def test_without_a_version_what_breaks_is_begun_anew_and_not_mixed_with_another_object(first: Plan) -> None:
    """Of one length, so that nothing else tells the two apart."""
    other = CONTENT[::-1]

    def replaced(request: Request, stored: Stored) -> Reply:
        return bare(well)(request, Stored(other))

    script = [Behaviour(bare(first), ends(400_000))]
    with FaultyServer({"/x.tar": CONTENT}, script, then=Behaviour(replaced)) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file:
            assert read(file, 0, len(CONTENT)) == other
        assert server.ranges("/x.tar") == [(0, len(CONTENT) - 1)] * 2


def test_without_a_version_what_breaks_each_time_is_given_up() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(bare(well), ends(400_000))) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file, pytest.raises(UnavailableError, match="3 attempts"):
            read(file, 0, len(CONTENT))
        assert server.ranges("/x.tar") == [(0, len(CONTENT) - 1)] * 3


@pytest.mark.parametrize("plan", [ignoring_range, bare(ignoring_range), chunked()], ids=["plain", "bare", "chunked"])
def test_a_server_without_ranges_serves_beginnings_and_the_whole_and_says_to_stream_the_rest(plan: Plan) -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(plan)) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file:
            assert read(file, 0, 100) == CONTENT[:100]
            assert file.ranges is False
            assert read(file, 0, len(CONTENT)) == CONTENT
            asked = len(server.requests)
            with pytest.raises(RangesRefusedError, match="streamed"):
                read(file, 100, 100)
            assert len(server.requests) == asked
            with pytest.raises(TruncatedShardError):
                read(file, 0, len(CONTENT) + 1)
        with HttpFile(server.url("/x.tar"), remote=QUICK) as file, pytest.raises(RangesRefusedError):
            read(file, 100, 100)


def test_without_a_length_there_is_no_size() -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(chunked())) as server, HttpFile(server.url("/x.tar")) as file:
        with pytest.raises(UnavailableError, match="how long"):
            file.size()


def test_an_encoded_body_is_refused_but_for_files_that_are_stored_so() -> None:
    gzipped = Behaviour(names(Content_Encoding="gzip"))
    with FaultyServer({"/x.tar": CONTENT, "/x.tar.gz": CONTENT}, then=gzipped) as server:
        with HttpFile(server.url("/x.tar")) as file, pytest.raises(UnavailableError, match=r"'gzip'.*gzip_types"):
            read(file, 0, 10)
        with HttpFile(server.url("/x.tar.gz")) as file:
            assert read(file, 0, 10) == CONTENT[:10]


def test_a_missing_object_and_a_refused_one_are_not_asked_for_twice() -> None:
    routes = {f"/{status}": Behaviour(says(status)) for status in (400, 401, 403, 404, 410, 451, 501)}
    with FaultyServer({}, routes=routes) as server:
        for status in (400, 401, 403, 404, 410, 451, 501):
            kind = ShardMissingError if status in {404, 410} else UnavailableError
            with HttpFile(server.url(f"/{status}")) as file, pytest.raises(kind, match=str(status)) as caught:
                read(file, 0, 10)
            assert isinstance(caught.value, ShardMissingError) == (status in {404, 410})
        assert len(server.requests) == 7


@pytest.mark.parametrize("url", ["http://", "http:///x.tar", "http://host:port/x.tar", "http://[::1/x", "http://h:0/x"])
def test_what_is_no_address_says_so_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="http url"):
        resolve.open_source(url)


def test_a_host_that_nobody_knows_is_not_looked_up_again_and_again() -> None:
    with HttpFile("http://no-such-host.invalid/x.tar", remote=Remote(attempts=2, give_up_s=5)) as file:
        with pytest.raises(UnavailableError, match="no-such-host"):
            read(file, 0, 10)


def test_closed_files_read_nothing_and_wake_their_readers() -> None:
    silent = threading.Event()

    def never(conversation: Conversation, reply: Reply) -> None:
        silent.set()
        conversation.await_end()

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=never)) as server:
        file = HttpFile(server.url("/x.tar"), remote=Remote(stall_s=60))
        errors: list[BaseException] = []

        def reader() -> None:
            try:
                read(file, 0, 100)
            except UnavailableError as error:
                errors.append(error)

        thread = threading.Thread(target=reader)
        thread.start()
        assert silent.wait(30)
        file.close()
        file.close()
        thread.join()
        assert "closed" in str(errors[0])
        with pytest.raises(UnavailableError, match="closed"):
            read(file, 0, 100)


def test_files_travel_to_other_processes() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpFile(server.url("/x.tar"), remote=QUICK, size=len(CONTENT)) as file:
            read(file, 0, 10)
            copy = pickle.loads(pickle.dumps(file))
        with copy:
            assert (copy.url, copy.size()) == (file.url, len(CONTENT))
            assert read(copy, 5, 10) == CONTENT[5:15]


def test_a_forked_child_makes_connections_of_its_own_and_leaves_its_parents_alone() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        assert read(file, 0, 10) == CONTENT[:10]
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if read(file, 20, 10) == CONTENT[20:30] else 2
                file.close()
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert read(file, 40, 10) == CONTENT[40:50]
        assert server.connections == 2  # the parent's first one is still good


def test_a_port_where_nobody_listens_is_not_called_slow() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        url = server.url("/x.tar")
    with HttpFile(url, remote=QUICK) as file, pytest.raises(UnavailableError, match="Connection refused"):
        file.size()

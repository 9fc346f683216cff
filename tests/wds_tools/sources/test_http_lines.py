"""What an answer says by lines (heads, sizes of chunks, trailers): cut off, in a trickle, without end, unheard of."""

import contextlib
import itertools
import random
import threading

import pytest

from tests.servers.faulty import Behaviour, Conversation, Deliver, FaultyServer, Reply, Stored, chunked, names, whole
from tests.servers.replies import Request, ignoring_range
from tests.wds_tools.sources.streams import rest_of
from wds_tools.errors import UnavailableError
from wds_tools.sources.http import HttpFile, HttpStream
from wds_tools.sources.options import Remote

CONTENT = random.Random(4).randbytes(200_001)
QUICK = Remote(attempts=3, give_up_s=10, connect_s=5, stall_s=5)
IMPATIENT = Remote(attempts=1, give_up_s=10, connect_s=0.3, stall_s=0.3)
bounded = pytest.mark.timeout(30)  # who waits for ever fails; how long it takes is not asserted


def cut(behind: bytes) -> Deliver:
    """The answer up to these bytes, and then the end of the connection."""

    def deliver(conversation: Conversation, reply: Reply) -> None:
        wire = reply.head() + reply.body
        conversation.write(wire[: wire.index(behind) + len(behind)])
        conversation.end()

    return deliver


def without_end(begin: bytes, again: bytes, *, every_s: float = 0.0) -> Deliver:
    """These bytes, and then the others over and over, until the client goes away."""

    def deliver(conversation: Conversation, _reply: Reply) -> None:
        with contextlib.suppress(OSError):
            conversation.write(begin)
            for piece in itertools.repeat(again):
                conversation.write(piece)
                if conversation.server.closing.wait(every_s):
                    return

    return deliver


def padded(request: Request, stored: Stored) -> Reply:
    """In chunks whose sizes begin with zeros."""
    reply = ignoring_range(request, stored).but(Content_Length=None, Transfer_Encoding="chunked")
    pieces = [reply.body[at : at + 5000] for at in range(0, len(reply.body), 5000)]
    coded = b"".join(b"%08x\r\n%b\r\n" % (len(each), each) for each in [*pieces, b""])
    return Reply(reply.status, reply.headers, coded)


@pytest.mark.parametrize("behind", [b"HTTP/1.1 20", b'ETag: "', b"Content-Length: 2", b"200001\r\n"])
def test_a_head_that_ends_with_the_connection_is_none(behind: bytes) -> None:
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(deliver=cut(behind))]) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


@pytest.mark.parametrize("size", [b"", b"0", b"000"])
def test_the_size_of_a_chunk_that_breaks_off_is_no_end(size: bytes) -> None:
    broken = Behaviour(padded, cut(CONTENT[4990:5000] + b"\r\n" + size))
    with FaultyServer({"/x.tar": CONTENT}, [broken], Behaviour(padded)) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT


HEAD = b"HTTP/1.1 200 Said\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@bounded
@pytest.mark.parametrize(
    "deliver",
    [
        without_end(CHUNKED + b"5;", b"-", every_s=0.02),
        without_end(CHUNKED + b"5\r\nhello\r\n0\r\n", b"Waited: a little\r\n", every_s=0.02),
        without_end(CHUNKED + b"5\r\nhello\r\n0\r\n", b"More: of it\r\n" * 1000),
    ],
    ids=["a size that trickles", "trailers that trickle", "trailers without end"],
)
def test_nobody_waits_for_the_end_of_what_is_said_of_chunks(deliver: Deliver) -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=deliver)) as server:
        with HttpStream(server.url("/x.tar"), remote=IMPATIENT) as stream, pytest.raises(UnavailableError):
            rest_of(stream)


@bounded
@pytest.mark.parametrize(
    "deliver",
    [without_end(HEAD, b"-", every_s=0.02), without_end(HEAD, b"More: of it\r\n" * 1000)],
    ids=["trickles", "has no end"],
)
def test_nobody_waits_for_a_proxy_whose_answer(deliver: Deliver, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()

    def told(conversation: Conversation, reply: Reply) -> None:
        heard.set()
        deliver(conversation, reply)

    with FaultyServer(routes={"443": Behaviour(deliver=told)}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url(""))
        monkeypatch.delenv("NO_PROXY", raising=False)
        with HttpFile("https://shards.example/x.tar", remote=IMPATIENT) as file, pytest.raises(UnavailableError):
            file.size()
        assert heard.wait(60)  # on a busy machine that may be after it was given up
        assert [request.method for request in proxy.requests] == ["CONNECT"]


@pytest.mark.parametrize("status", [100, 102, 103])
def test_what_comes_before_the_answer_is_not_taken_for_it(status: int) -> None:
    def early(conversation: Conversation, reply: Reply) -> None:
        conversation.write(b"HTTP/1.1 %d Wait\r\nLink: </x>\r\n\r\n" % status)
        whole(conversation, reply)

    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=early)) as server:
        with HttpStream(server.url("/x.tar"), remote=QUICK) as stream:
            assert rest_of(stream) == CONTENT
        assert len(server.requests) == 1


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip"])
def test_what_is_encoded_in_transfer_is_not_taken_for_the_object(coding: str) -> None:
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(names(chunked(), Transfer_Encoding=coding))) as server:
        with (
            HttpStream(server.url("/x.tar"), remote=QUICK) as stream,
            pytest.raises(UnavailableError, match="encoding"),
        ):
            rest_of(stream)

"""TLS with a private authority, proxies, hedged requests, and what a relay stands for: distance and loss."""

import base64
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.servers.faulty import (
    Behaviour,
    Conversation,
    Deliver,
    FaultyServer,
    Reply,
    drops,
    ends,
    sends_on,
    stalls,
    trickles,
    whole,
)
from tests.servers.proxy import Proxy
from tests.servers.relay import Relay
from wds_tools.errors import UnavailableError, UsageError
from wds_tools.sources.http import HttpFile, HttpStream, close_idle, hosts, pools
from wds_tools.sources.options import Remote

CONTENT = bytes(range(256)) * 4000
QUICK = Remote(attempts=2, give_up_s=10, connect_s=5, stall_s=5)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (*proxies, "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    close_idle()
    yield
    close_idle()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


def read(file: HttpFile, offset: int = 0, length: int = 100) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_https_by_a_private_authority(
    tls: ssl.SSLContext, trusted: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, trusted)
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(deliver=ends(70_000))], tls=tls, name="localhost") as server:
        with HttpFile(server.url("/x.tar")) as file:
            assert read(file, 1000, 200_000) == CONTENT[1000:201_000]
            assert read(file, 5, 10) == CONTENT[5:15]
        assert server.connections == 2
        with HttpStream(server.url("/x.tar")) as stream:
            whole_of_it = bytearray(len(CONTENT))
            done = 0
            while count := stream.readinto(memoryview(whole_of_it)[done:]):
                done += count
            assert whole_of_it == CONTENT


def test_a_certificate_of_nobody_known_is_an_error_at_once(tls: ssl.SSLContext) -> None:
    with FaultyServer({"/x.tar": CONTENT}, tls=tls, name="localhost") as server:
        with HttpFile(server.url("/x.tar")) as file, pytest.raises(UnavailableError, match="SSL_CERT_FILE"):
            read(file)
        assert server.connections == 1


def test_a_certificate_for_another_name_is_an_error(
    authority: trustme.CA, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    with FaultyServer({"/x.tar": CONTENT}, tls=context, name="localhost") as server:
        with HttpFile(server.url("/x.tar")) as file, pytest.raises(UnavailableError, match="not trusted"):
            read(file)


def test_a_bundle_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with HttpFile("https://127.0.0.1:9/x.tar") as file, pytest.raises(UsageError, match=r"none\.pem"):
        read(file)


def test_from_https_nobody_is_led_to_plain_http(
    tls: ssl.SSLContext, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    with FaultyServer({"/x.tar": CONTENT}) as plain:
        routes = {"/x.tar": Behaviour(sends_on(plain.url("/x.tar")))}
        with FaultyServer({}, routes=routes, tls=tls, name="localhost") as server:
            with HttpFile(server.url("/x.tar")) as file, pytest.raises(UnavailableError, match="plain http"):
                read(file)
        assert plain.requests == []


def test_plain_requests_pass_a_proxy_unless_the_host_is_excepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "localhost")
        with HttpFile(f"http://me:pw@127.0.0.1:{server.port}/x.tar?v=1#f") as file:
            assert read(file, 10) == CONTENT[10:110]
        assert [head.split("\r\n")[0] for head in proxy.heads] == [
            f"GET http://127.0.0.1:{server.port}/x.tar?v=1 HTTP/1.1"
        ]
        with HttpFile(f"http://localhost:{server.port}/x.tar") as file:
            read(file)
        assert len(proxy.heads) == 1
        assert len(server.requests) == 2


def test_https_passes_a_proxy_in_a_tunnel_with_its_own_password(
    tls: ssl.SSLContext, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    credentials = "Basic " + base64.b64encode(b"us er:p/w").decode()
    with FaultyServer({"/x.tar": CONTENT}, tls=tls, name="localhost") as server, Proxy(credentials) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://us%20er:p%2Fw@127.0.0.1:{proxy.port}")
        with HttpFile(server.url("/x.tar"), remote=Remote(headers={"Authorization": "Bearer mine"})) as file:
            assert read(file, 10) == CONTENT[10:110]
        assert proxy.heads[0].startswith(f"CONNECT localhost:{server.port} ")
        assert "mine" not in "".join(proxy.heads)
        assert "proxy-authorization" not in server.requests[0].headers


def test_https_passes_a_proxy_that_is_itself_spoken_to_by_https(
    tls: ssl.SSLContext, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    with FaultyServer({"/x.tar": CONTENT}, tls=tls, name="localhost") as server, Proxy(tls=tls) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with HttpFile(server.url("/x.tar")) as file:
            for at in range(10):  # after eight of them lateness is known, and cannot be seen from outside of the tunnel
                assert read(file, at * 100_000, 100_000) == CONTENT[at * 100_000 : at * 100_000 + 100_000]
        assert len(server.requests) == 10
        assert [head.split(" ")[0] for head in proxy.heads] == ["CONNECT"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_names_the_setting(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy("Basic never") as proxy:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://me:s3cr3t@127.0.0.1:{proxy.port}")
        with HttpFile(f"{scheme}://nowhere.example/x.tar", remote=QUICK) as file:
            with pytest.raises(UnavailableError, match="HTTPS_PROXY") as caught:
                read(file)
    assert "s3cr3t" not in str(caught.value)


def test_proxies_that_speak_no_http_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with HttpFile("http://nowhere.example/x.tar", remote=QUICK) as file, pytest.raises(UsageError, match="socks5"):
        read(file)


class OnLines:
    """Delivers well, but for the eleventh request by the first connection, and the first one by another.

    By connections, since which of the two requests for the same is heard first is up to the server's threads.
    """

    def __init__(self, eleventh: Deliver, second: Deliver = whole) -> None:
        self._eleventh, self._second = eleventh, second
        self._heard: list[Conversation] = []

    def __call__(self, conversation: Conversation, reply: Reply) -> None:
        self._heard.append(conversation)
        deliver: Deliver = whole
        if self._heard.count(conversation) == 11:
            deliver = self._eleventh
        elif conversation is not self._heard[0] and self._heard.count(conversation) == 1:
            deliver = self._second
        deliver(conversation, reply)


def read_twelve(file: HttpFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve ranges, of which only the eleventh counts as late when it is: a busy machine hedges no other."""
    monkeypatch.setattr(hosts, "_LATE_TIMES", 0.0)
    for at in range(12):
        monkeypatch.setattr(hosts, "_LATE_S", 0.02 if at == 10 else 1000.0)
        assert read(file, at * 100) == CONTENT[at * 100 : at * 100 + 100]


PATIENT = Remote(stall_s=200)  # what is held back is not given up by itself


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_late_answer_is_asked_for_once_more_and_the_first_one_wins(
    secure: bool, tls: ssl.SSLContext, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    gone = threading.Event()

    def hold(conversation: Conversation, reply: Reply) -> None:
        conversation.await_end()
        gone.set()

    context = tls if secure else None
    deliver = OnLines(hold)
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=deliver), tls=context, name="localhost") as server:
        with HttpFile(server.url("/x.tar"), remote=PATIENT) as file:
            read_twelve(file, monkeypatch)
        assert gone.wait(30)  # the one that came second was closed
        assert server.ranges("/x.tar").count((1000, 1099)) == 2
        assert len(server.requests) == 13
        assert server.connections == 2


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_where_the_first_is_faster_after_all_the_second_is_closed(
    secure: bool, tls: ssl.SSLContext, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    second_came, second_gone = threading.Event(), threading.Event()

    def first(conversation: Conversation, reply: Reply) -> None:
        assert second_came.wait(30)
        conversation.send(reply)

    def second(conversation: Conversation, reply: Reply) -> None:
        second_came.set()
        conversation.await_end()
        second_gone.set()

    context = tls if secure else None
    deliver = OnLines(first, second)
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=deliver), tls=context, name="localhost") as server:
        with HttpFile(server.url("/x.tar"), remote=PATIENT) as file:
            read_twelve(file, monkeypatch)
            assert second_gone.wait(30)
        assert len(server.requests) == 13


@pytest.mark.parametrize("refusal", [None, 503, 404])
def test_a_second_request_that_fails_leaves_the_first_alone(
    refusal: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_failed = threading.Event()

    def first(conversation: Conversation, reply: Reply) -> None:
        assert second_failed.wait(30)
        conversation.send(reply)

    def second(conversation: Conversation, reply: Reply) -> None:
        if refusal is None:
            drops(conversation, reply)
        else:
            conversation.send(Reply(refusal, {"Content-Length": "0"}))
        second_failed.set()

    deliver = OnLines(first, second)
    with FaultyServer({"/x.tar": CONTENT}, then=Behaviour(deliver=deliver)) as server:
        with HttpFile(server.url("/x.tar"), remote=PATIENT) as file:
            read_twelve(file, monkeypatch)
        assert len(server.requests) == 13


def test_connections_that_were_idle_for_too_long_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        for idle_s, connections in ((30.0, 1), (30.0, 1), (0.0, 2), (0.0, 3)):
            monkeypatch.setattr(pools, "_IDLE_S", idle_s)
            read(file)
            assert server.connections == connections


def test_over_a_relay_that_cuts_all_arrives_and_no_byte_twice_in_place() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, Relay(server.port, latency_s=0.001, cut_after=200_000) as relay:
        url = f"http://127.0.0.1:{relay.port}/x.tar"
        with HttpFile(url) as file:
            assert read(file, 0, len(CONTENT)) == CONTENT
        with HttpStream(url) as stream:
            buffer = bytearray(len(CONTENT) + 1)
            done = 0
            while count := stream.readinto(memoryview(buffer)[done:]):
                done += count
            assert bytes(buffer[:done]) == CONTENT
        assert relay.connections >= 2 * (len(CONTENT) // 200_000)


def test_a_relay_with_a_cap_hands_on_the_same_bytes() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server, Relay(server.port, bytes_per_s=5e6) as relay:
        with HttpFile(f"http://127.0.0.1:{relay.port}/x.tar") as file:
            assert read(file, 1, 400_000) == CONTENT[1:400_001]


@pytest.mark.timeout(60)  # the rest, byte by byte, would take five minutes
def test_nobody_waits_for_the_rest_of_a_transfer_that_was_given_up_for_its_pace() -> None:
    slow = Behaviour(deliver=trickles(70_000))
    impatient = Remote(attempts=4, give_up_s=20, connect_s=5, minimum_rate=2000, stall_s=0.5)
    with FaultyServer({"/x.tar": CONTENT}, [slow]) as server:
        with HttpFile(server.url("/x.tar"), remote=impatient) as file:
            assert read(file, 0, 86_000) == CONTENT[:86_000]
        assert server.connections >= 2


@pytest.mark.timeout(60)  # `stall_s` is ten minutes
@pytest.mark.parametrize("slow", [stalls(10), trickles(10, every_s=0.1)], ids=["silent", "trickling"])
def test_nobody_waits_for_a_page_that_nobody_reads(slow: Deliver) -> None:
    patient = Remote(attempts=2, give_up_s=600, connect_s=5, stall_s=600)
    page = Reply(503, {"Content-Length": "9000", "Retry-After": "0"}, bytes(9000))
    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(lambda _request, _stored: page, slow)]) as server:
        with HttpFile(server.url("/x.tar"), remote=patient) as file:
            assert read(file, 5, 100) == CONTENT[5:105]
        assert server.connections == 2

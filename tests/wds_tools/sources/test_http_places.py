"""Other places: redirects and what is remembered of them, signatures, credentials, and who must never see them."""

import base64
import logging
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.servers.faulty import Behaviour, FaultyServer, drops, encoded, names, page, resets, says, sends_on, well
from wds_tools.errors import ShardstreamError, UnavailableError, UsageError
from wds_tools.sources.http import HttpFile, HttpStream, close_idle
from wds_tools.sources.options import Remote

CONTENT = bytes(range(256)) * 1000
SECRET = "s3cr3t-0f-m1ne"
TOKEN = {"Authorization": f"Bearer {SECRET}", "Cookie": "id=7", "X-Api-Key": SECRET}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    yield
    close_idle()


def read(file: HttpFile, offset: int = 0, length: int = 100) -> bytes:
    buffer = bytearray(length)
    file.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def authorizations(server: FaultyServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


def test_where_a_redirect_leads_is_remembered() -> None:
    with FaultyServer({"/signed": CONTENT}) as store:
        with FaultyServer({}, routes={"/x.tar": Behaviour(sends_on(store.url("/signed?s=1")))}) as hub:
            with HttpFile(hub.url("/x.tar")) as file:
                for offset in (0, 500, 1000):
                    assert read(file, offset) == CONTENT[offset : offset + 100]
            assert len(hub.requests) == 1
            assert [request.target for request in store.requests] == ["/signed?s=1"] * 3


def test_what_is_remembered_serves_the_next_source_with_the_same_headers_only() -> None:
    def token() -> Remote:
        return Remote(headers=dict(TOKEN))

    mine, other = token(), token()
    with FaultyServer({"/signed": CONTENT}) as store:
        with FaultyServer({}, routes={"/x.tar": Behaviour(sends_on(store.url("/signed")))}) as hub:
            for remote, asked in ((mine, 1), (mine, 1), (other, 2), (None, 3), (mine, 3)):
                with HttpFile(hub.url("/x.tar"), remote=remote) as file:
                    assert read(file) == CONTENT[:100]
                assert len(hub.requests) == asked


def test_a_signing_function_is_asked_once_and_again_when_its_url_expires() -> None:
    signed: list[str] = []

    with FaultyServer({}) as store:

        def sign(url: str) -> str:
            signed.append(url)
            store.put(f"/{len(signed)}", CONTENT)
            return store.url(f"/{len(signed)}")

        remote = Remote(sign=sign, headers=TOKEN)
        with HttpFile("http://bucket.example/x.tar", remote=remote) as file:
            assert read(file) == read(file) == CONTENT[:100]
            store.routes["/1"] = Behaviour(says(403))
            assert read(file, 100) == CONTENT[100:200]
            store.routes["/2"] = Behaviour(says(403))
            store.routes["/3"] = Behaviour(says(403))
            with pytest.raises(UnavailableError, match="403") as caught:
                read(file)
        assert signed == ["http://bucket.example/x.tar"] * 3
        assert caught.value.url == "http://bucket.example/x.tar"
        assert authorizations(store) == [None] * 6


def test_relative_redirects_and_chains_are_followed_ten_times_at_most() -> None:
    steps = {f"/{at}": Behaviour(sends_on(f"{at + 1}")) for at in range(12)}
    with FaultyServer({"/12": CONTENT}, routes=steps) as server:
        with HttpFile(server.url("/2")) as file:
            assert read(file) == CONTENT[:100]
        with HttpFile(server.url("/1")) as file, pytest.raises(UnavailableError, match="10 redirects"):
            read(file)


def test_a_signature_that_expires_in_mid_run_is_renewed_at_its_origin() -> None:
    number = iter(range(100))
    with FaultyServer({}) as store:
        routes = {"/x.tar": Behaviour(sends_on(lambda _: store.url(f"/signed/{next(number)}")))}
        with FaultyServer({}, routes=routes) as hub, HttpFile(hub.url("/x.tar")) as file:
            for status, at in ((403, 0), (400, 1), (410, 2), (401, 3), (404, 4)):
                store.put(f"/signed/{at}", CONTENT)
                assert read(file, at * 10) == CONTENT[at * 10 : at * 10 + 100]
                store.routes[f"/signed/{at}"] = Behaviour(says(status))
            with pytest.raises(UnavailableError, match="404"):  # a new one is as bad: the answer counts
                read(file)
            assert len(hub.requests) == 6


def test_an_expired_signature_in_the_middle_of_a_stream_is_renewed_at_the_byte() -> None:
    with FaultyServer({"/1": CONTENT, "/2": CONTENT}, [Behaviour(deliver=resets(70_000))]) as store:
        locations = iter([store.url("/1"), store.url("/2")])
        with FaultyServer({}, routes={"/x.tar": Behaviour(sends_on(lambda _: next(locations)))}) as hub:
            with HttpStream(hub.url("/x.tar")) as stream:
                buffer = bytearray(len(CONTENT))
                done = stream.readinto(memoryview(buffer)[:1000])
                store.routes["/1"] = Behaviour(says(403))
                while count := stream.readinto(memoryview(buffer)[done:]):
                    done += count
            assert buffer == CONTENT
            assert len(hub.requests) == 2


def test_headers_go_to_the_host_that_was_named_and_to_no_other() -> None:
    with FaultyServer({"/signed": CONTENT}) as store:
        hub_routes = {
            "/a/x.tar": Behaviour(sends_on("/b/x.tar")),
            "/b/x.tar": Behaviour(sends_on(store.url("/signed"))),
        }
        with FaultyServer({}, routes=hub_routes) as hub:
            with HttpFile(hub.url("/a/x.tar"), remote=Remote(headers=TOKEN)) as file:
                read(file)
                read(file, 100)
        for request in hub.requests:  # the second step is on the same host
            assert {name.lower(): value for name, value in TOKEN.items()}.items() <= request.headers.items()
        for request in store.requests:
            assert not {"authorization", "cookie", "x-api-key"} & request.headers.keys()


def test_another_port_and_another_name_are_other_hosts() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        elsewhere = f"http://localhost:{server.port}/x.tar"
        server.routes["/y.tar"] = Behaviour(sends_on(elsewhere))
        with HttpFile(server.url("/y.tar"), remote=Remote(headers=TOKEN)) as file:
            read(file)
        assert authorizations(server) == [TOKEN["Authorization"], None]


def test_a_function_is_asked_for_headers_before_each_request() -> None:
    asked: list[str] = []

    def provide(url: str) -> Mapping[str, str]:
        asked.append(url)
        return {"Authorization": f"Bearer {len(asked)}"}

    with FaultyServer({"/x.tar": CONTENT}, [Behaviour(says(500))]) as server:
        with HttpFile(server.url("/x.tar"), remote=Remote(headers=provide)) as file:
            read(file)
        assert authorizations(server) == ["Bearer 1", "Bearer 2"]
        assert asked == [server.url("/x.tar")] * 2


def test_the_user_in_a_url_becomes_a_header() -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        url = f"http://me%40home:p%3Aw@127.0.0.1:{server.port}/x.tar#part"
        with HttpFile(url) as file:
            read(file)
            assert file.url == url
        assert authorizations(server) == [basic("me@home", "p:w")]
        assert server.requests[0].target == "/x.tar"
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


def test_netrc_is_asked_where_no_headers_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with FaultyServer({"/x.tar": CONTENT}) as server:
        for remote in (None, Remote(headers={"X-Mine": "1"})):
            with HttpFile(server.url("/x.tar"), remote=remote) as file:
                read(file)
        with HttpFile(f"http://you:there@127.0.0.1:{server.port}/x.tar") as file:
            read(file)
        with HttpFile(f"http://localhost:{server.port}/x.tar") as file:
            read(file)
        assert authorizations(server) == [basic("me", SECRET), None, basic("you", "there"), None]


def test_the_netrc_of_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETRC")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password pw\n")
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        read(file)
        assert authorizations(server) == [basic("me", "pw")]


def test_a_netrc_that_does_not_parse_is_left_out_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "netrc").write_text(f"machine h login me\npasswort {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with FaultyServer({"/x.tar": CONTENT}) as server, HttpFile(server.url("/x.tar")) as file:
        read(file)
        read(file)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("headers", "match"),
    [
        ({"Authorization": f"Bearer {SECRET}\n"}, "value for Authorization"),
        ({"Authorization": f"Bearer {SECRET}\r\nX: y"}, "value for Authorization"),
        ({"Authorization": f"{SECRET}\u2028"}, "value for Authorization"),
        ({"X Y": SECRET}, "'X Y'"),
        ({"range": "bytes=0-1"}, "every request sets"),
    ],
)
def test_headers_that_cannot_be_are_refused_without_showing_them(headers: dict[str, str], match: str) -> None:
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpFile(server.url("/x.tar"), remote=Remote(headers=headers)) as file:
            with pytest.raises(UsageError, match=match) as caught:
                read(file)
        assert server.requests == []
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(says(403)),
        Behaviour(says(404)),
        Behaviour(says(503)),
        Behaviour(deliver=resets(0)),
        Behaviour(deliver=drops),
        Behaviour(page),
        Behaviour(encoded),
        Behaviour(sends_on(lambda request: request.target)),
        Behaviour(sends_on(f"ftp://me:{SECRET}@elsewhere/x?sig={SECRET}")),
    ],
    ids=["403", "404", "503", "reset", "drop", "page", "encoded", "loop", "ftp"],
)
def test_no_secret_is_in_any_message_log_or_repr(behaviour: Behaviour, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    remote = Remote(headers=TOKEN, attempts=2, stall_s=5, give_up_s=10)
    with FaultyServer({"/x.tar": CONTENT}, then=behaviour) as server:
        url = f"http://me:{SECRET}@127.0.0.1:{server.port}/x.tar?X-Signature={SECRET}#{SECRET}"
        for source in (HttpFile(url, remote=remote), HttpStream(url, remote=remote)):
            with source, pytest.raises(ShardstreamError) as caught:
                if isinstance(source, HttpFile):
                    read(source, 10)
                else:
                    source.readinto(memoryview(bytearray(100)))
            shown = [
                *traceback.format_exception(caught.value),
                repr(source),
                repr(remote),
                str(caught.value),
                caplog.text,
            ]
            assert SECRET not in "".join(shown)
            assert f"http://127.0.0.1:{server.port}/x.tar?X-Signature=..." in str(caught.value)
            assert caught.value.url == url  # which programs may go on with


def test_headers_that_do_not_parse_bring_no_url_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    odd = Behaviour(names(well, **{"X: 1\r\nthis is no header\r\nY": "2"}))
    with FaultyServer({"/x.tar": CONTENT}, then=odd) as server:
        with HttpFile(server.url(f"/x.tar?signature={SECRET}")) as file:
            assert read(file) == CONTENT[:100]
    assert SECRET not in caplog.text


def test_a_hub_that_limits_counts_as_much_as_the_store_that_it_leads_to() -> None:
    with FaultyServer({"/signed": CONTENT}) as store:
        location = Behaviour(sends_on(store.url("/signed")))
        with (
            FaultyServer({"/x.tar": b""}, [Behaviour(says(429))], location) as hub,
            HttpFile(hub.url("/x.tar")) as file,
        ):
            assert not file.limited
            assert read(file) == CONTENT[:100]
            assert file.limited


def test_others_may_go_on_logging_with_urllib3(caplog: pytest.LogCaptureFixture) -> None:
    import urllib3

    caplog.set_level(logging.DEBUG)
    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpFile(server.url("/x.tar")) as file:
            read(file)
        assert "x.tar" not in caplog.text
        with urllib3.PoolManager() as pool:
            pool.request("GET", server.url("/x.tar"))
        assert "x.tar" in caplog.text


def test_a_header_function_that_fails_is_heard_and_blocks_nobody() -> None:
    def provide(url: str) -> Mapping[str, str]:
        raise RuntimeError("no token today")

    with FaultyServer({"/x.tar": CONTENT}) as server:
        with HttpFile(server.url("/x.tar"), remote=Remote(headers=provide, in_flight=1)) as file:
            for _ in range(2):  # the place in the queue was given back
                with pytest.raises(RuntimeError, match="no token today"):
                    read(file)

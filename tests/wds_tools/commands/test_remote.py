"""`--headers`, `--storage` and `--in-flight`: of every command that takes urls, and what they come to."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.builders import write_pictures
from tests.servers.faulty import Behaviour, FaultyServer, Reply, Request, Stored, says, well
from wds_tools.cli import COMMANDS, root
from wds_tools.commands.remote import remote_options
from wds_tools.errors import UsageError
from wds_tools.sources.http import close_idle
from wds_tools.sources.options import HeaderFile, Remote

TOKEN = "Bearer not-to-be-shown"


def wds(*arguments: object) -> Result:
    return CliRunner().invoke(root, [*map(str, arguments)])


def with_token(request: Request, stored: Stored) -> Reply:
    """What lies there, for those who have the token."""
    return (well if request.headers.get("authorization") == TOKEN else says(401))(request, stored)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FaultyServer]:
    folder = Path(write_pictures(tmp_path / "d", [6, 6]))
    assert wds("index", folder).exit_code == 0
    files: dict[str, bytes | Stored] = {f"/d/{path.name}": path.read_bytes() for path in folder.iterdir()}
    with FaultyServer(files, then=Behaviour(with_token)) as server:
        yield server
        close_idle()


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    (tmp_path / "headers").write_text(f"Authorization: {TOKEN}\nX-Other:  1 \n")
    return tmp_path / "headers"


COMMAND_LINES = [
    ["info", "URL/"],
    ["ls", "URL/"],
    ["cat", "URL/", "#0"],
    ["verify", "URL/"],
    ["index", "URL/s-{0000..0001}.tar", "--out", "OUT"],
    ["index", "--merge", "URL/dataset.json", "--out", "OUT"],
    ["cache", "warm", "URL/dataset.json", "--cache-dir", "OUT"],
    ["cache", "clear", "URL/dataset.json", "--cache-dir", "OUT"],
    ["plan", "URL/", "--tail", "exact", "--labels", "cls"],
    ["bench", "URL/", "--batch-size", "4", "--image", "24", "--seconds", "0.1", "--warmup", "0"],
    ["tune", "URL/", "--batch-size", "4", "--image", "24", "--budget", "0.2s", "--no-workers"],
    ["view", "URL/", "--out", "OUT.png", "--count", "2"],
    ["reshard", "URL/", "OUT"],
    ["pack", "URL/dataset.json", "OUT"],
]


@pytest.mark.parametrize("line", COMMAND_LINES, ids=lambda line: " ".join(line[:2]))
def test_headers_from_a_file_reach_the_host(line: list[str], site: FaultyServer, headers: Path, tmp_path: Path) -> None:
    words = [word.replace("URL", site.url("/d")).replace("OUT", str(tmp_path / "out")) for word in line]
    refused = wds(*words)
    assert refused.exit_code == 1, refused.output
    site.requests.clear()
    done = wds(*words, "--headers", headers, "--in-flight", 2)
    assert done.exit_code == 0, done.output
    assert {request.headers.get("authorization") for request in site.requests} == {TOKEN}
    assert {request.headers.get("x-other") for request in site.requests} == {"1"}
    assert TOKEN not in done.output
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path != headers]
    assert not [path for path in left if TOKEN.encode() in path.read_bytes()]


def test_all_commands_that_take_urls_have_them() -> None:
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        taken = {param.name for param in command.params}
        if taken & {"urls", "out"} and name != "demo":
            assert taken >= {"headers", "storage", "in_flight"}, name


def asked(*arguments: str) -> Remote | None:
    """What the options come to."""
    found: list[Remote | None] = []

    @click.command()
    @remote_options
    def command(remote: Remote | None) -> None:
        found.append(remote)

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_nothing_said_leaves_the_defaults() -> None:
    assert asked() is None
    assert asked("--in-flight", "3") == Remote(in_flight=3)


def test_options_of_stores_have_types_and_may_lie_in_each_other() -> None:
    remote = asked(
        *(
            "--storage",
            "s3.endpoint_url=http://10.0.0.1:9000",
            "--storage",
            "s3.anon=true",
            "--storage",
            "gs.token=anon",
        ),
        *("--storage", "s3.client_kwargs.region_name=eu-west-1", "--storage", "s3.max_concurrency=4"),
    )
    assert remote is not None
    assert remote.storage == {
        "s3": {
            "endpoint_url": "http://10.0.0.1:9000",
            "anon": True,
            "client_kwargs": {"region_name": "eu-west-1"},
            "max_concurrency": 4,
        },
        "gs": {"token": "anon"},
    }


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("s3.endpoint_url", "is no option of a store; write s3.endpoint_url="),
        ("endpoint_url=x", "is no option of a store"),
        ("s3.secret=hunter2", "s3.secret is a secret, which a command line shows"),
        ("s3.key=hunter2", "s3.key is a secret"),
        ("az.account_key=hunter2", "az.account_key is a secret"),
        ("gs.token=hunter2", "gs.token is a secret"),
    ],
)
def test_what_is_no_option_and_what_is_a_secret_is_refused(option: str, said: str) -> None:
    done = wds("info", "s3://bucket/d", "--storage", option)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert "hunter2" not in done.output


def test_a_file_of_headers_is_read_anew_for_each_request(tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_text("Authorization: Bearer one\r\n\r\nX-Empty:\r\n")
    file = pickle.loads(pickle.dumps(HeaderFile(str(path))))
    assert file("https://h/x") == {"Authorization": "Bearer one", "X-Empty": ""}
    path.write_text("Authorization: Bearer two\n")
    assert file("https://h/x") == {"Authorization": "Bearer two"}


def test_tune_prints_code_with_the_file_of_headers_by_public_names(site: FaultyServer, headers: Path) -> None:
    words = ["--batch-size", 4, "--image", 24, "--budget", "0.1s", "--no-workers", "--headers", headers]
    done = wds("tune", site.url("/d/"), *words)
    assert done.exit_code == 0, done.output
    code = done.stdout[done.stdout.index("from loaders import") :]
    assert f'remote=Remote(headers=HeaderFile("{headers}"))' in code
    assert re.findall(r"^from (\S+) import", code, re.MULTILINE) == ["loaders", "loaders.torch"]
    made: dict[str, object] = {}
    exec(code, made)
    assert len(next(iter(made["loader"])).cls) == 4  # type: ignore[call-overload]
    made["loader"].close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", ["hunter2", "Authorization hunter2", "A: 1\nhunter2 x: y", "a\x00b: hunter2"])
def test_what_is_no_header_is_refused_and_not_shown(content: str, tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"line \d of the file of headers is no header") as caught:
        HeaderFile(str(path))("https://h/x")
    assert "hunter2" not in str(caught.value)
    done = wds("info", "https://h/x.tar", "--headers", path)
    assert (done.exit_code, "hunter2" in done.output) == (2, False)


def test_a_store_elsewhere_is_packed_into_and_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto")
    from tests import s3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.SECRET)
    write_pictures(tmp_path / "d", [3, 2])
    with s3.running() as store:
        out = f"{store.bucket('commands')}/train"
        storage = (
            "--storage",
            f"s3.endpoint_url={store.endpoint}",
            "--storage",
            "s3.client_kwargs.region_name=eu-west-1",
        )
        for line in (["reshard", tmp_path / "d", out], ["info", f"{out}/"], ["verify", f"{out}/"]):
            done = wds(*line, *storage)
            assert done.exit_code == 0, done.output
        assert "5 samples" in done.output
        assert "the folder with a slash at its end" in wds("info", out, *storage).output
        listing = store.get(f"{out}/dataset.json").decode()
    assert '"command": "wds reshard URLS OUT"' in listing
    assert store.endpoint not in listing

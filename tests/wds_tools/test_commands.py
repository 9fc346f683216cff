"""What all commands have in common: names, units, help, JSON, statuses; held over the registry, so for new ones too."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.builders import picture, write_labels, write_pictures
from wds_tools.cli import COMMANDS, root
from wds_tools.serve import serve

NO_JSON = {
    "serve": "prints its url, and serves",
    "completion": "prints a shell's own text",
    "demo": "runs other commands and shows what they print",
    "demo-pictures": "makes files",
    "demo-train": "shows a training as it goes",
    "cache": "a group: its commands have it",
}
"""Commands without --json, and why."""

SHARED = {
    "--batch-size": "integer range",
    "--block-bytes": "size",
    "--cache-dir": "directory",
    "--count": "integer range",
    "--headers": "file",
    "--host": "text",
    "--in-flight": "integer range",
    "--jobs": "integer range",
    "--json": "boolean",
    "--lanes": "integer range",
    "--max-bytes": "size",
    "--no-shuffle": "boolean",
    "--plot": "file",
    "--port": "integer range",
    "--resize": "integer range",
    "--seed": "integer range",
    "--side": "integer range",
    "--storage": "scheme.name=value",
    "--threads": "integer range",
    "--to": "choice",
    "--world-size": "integer range",
}
"""What an option of this name takes, whichever command has it."""

OTHER_WORDS = {"--batch": "--batch-size", "--world": "--world-size", "--number": "--count", "--cache": "--cache-dir",
               "--output": "--out", "--workers": "--jobs", "--num-samples": "--count"}  # fmt: skip
"""Names that would say the same as one that others have."""


def every() -> Iterator[tuple[str, click.Command]]:
    """All commands with their whole names, those of groups too."""
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", command.commands[inner]) for inner in command.commands)


ALL = dict(every())


def run(*args: str) -> Result:
    return CliRunner().invoke(root, list(args), prog_name="wds")


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {name: each for each in command.params if isinstance(each, click.Option) for name in each.opts}


def kind(option: click.Option) -> str:
    if isinstance(option.type, click.Path):
        return "directory" if not option.type.file_okay else "file"
    return option.type.name


@pytest.mark.parametrize("name", ALL)
def test_help_has_examples_of_this_command_that_it_would_take(name: str) -> None:
    command = ALL[name]
    examples = re.findall(rf"^  (?:\w+=\S+ )*wds {name}\b(.*)$", command.epilog or "", re.MULTILINE)
    assert "Examples:" in (command.epilog or "")
    assert examples
    for line in examples:
        words = shlex.split(line.partition("  ")[0].partition(" | ")[0].partition(" > ")[0].partition(" || ")[0])
        known = set(options_of(command)) | {"--help"}
        if isinstance(command, click.Group):
            known |= {option for inner in command.commands.values() for option in options_of(inner)}
        unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
        assert not unknown, line


@pytest.mark.parametrize("name", ALL)
def test_help_says_the_exit_statuses(name: str) -> None:
    done = run(*name.split(), "--help")
    assert done.exit_code == 0
    said = " ".join(done.output.split())
    assert re.search(r"Exit status: 0 \w.*, 2 used wrongly", said), said[-200:]


@pytest.mark.parametrize("name", ALL)
def test_every_option_says_what_it_is_for(name: str) -> None:
    for option in ALL[name].params:
        if isinstance(option, click.Option):
            assert option.help, option
            text = re.sub(r"\s*\[default: .*\]$", "", option.help.strip(), flags=re.DOTALL)
            assert text.endswith((".", ")", "'")), option.help
            assert text[0].isupper() or text[0] in "'`{", option.help


@pytest.mark.parametrize("name", ALL)
def test_facts_come_as_json_too(name: str) -> None:
    has = "--json" in options_of(ALL[name])
    assert has is not (name in NO_JSON), f"{name}: give it --json, or say in NO_JSON why it has none"


@pytest.mark.parametrize(
    "args",
    [
        ("pack", "source", "OUT"), ("reshard", "urls", "OUT"), ("index", "urls", "--out"),
        ("cache info", "--cache-dir"), ("cache clear", "--cache-dir"), ("cache warm", "urls", "--cache-dir"),
        ("serve", "DIR"), ("demo", "--keep"), ("demo-pictures", "FOLDER"),
        ("plan", "urls", "--plot"), ("bench", "urls", "--plot"), ("bench", "urls", "--trace"),
        ("bench", "urls", "--cache-dir"), ("view", "urls", "--out"), ("view", "urls", "--html"),
    ],
)  # fmt: skip
def test_an_empty_place_to_write_to_is_not_the_current_folder(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *words, place = args
    done = run(*name.split(), *words, *([place] if place.startswith("--") else []), "")
    assert done.exit_code == 2
    assert f"{place}': It is empty" in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ALL)
def test_the_same_name_takes_the_same_kind_everywhere(name: str) -> None:
    for option, each in options_of(ALL[name]).items():
        assert option not in OTHER_WORDS, f"{option} is called {OTHER_WORDS.get(option)} elsewhere"
        if option in SHARED:
            assert kind(each) == SHARED[option], option
        assert re.fullmatch(r"-[a-zA-Z]|--[a-z]+(-[a-z]+)*", option), option


@pytest.mark.parametrize(("option", "default"), [("--batch-size", 64), ("--seed", 0)])
def test_the_same_name_means_the_same_where_nothing_is_said(option: str, default: object) -> None:
    found = {
        name: options_of(command)[option].default for name, command in ALL.items() if option in options_of(command)
    }
    assert len(found) > 2
    assert set(found.values()) == {default}, found


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["ls", "x", "--jsn"], "--json"),
        (["pack", ".", "out", "--to", "jgp"], "'jpg'"),
        (["pack", ".", "out", "--input", "foldr"], "'folders'"),
        (["plan", "x", "--tail", "pda"], "'pad'"),
        (["completion", "bsh"], "'bash'"),
        (["reshard", "x", "y", "--keys", "hashes"], "'hash'"),
        (["cache", "inof"], "'info'"),
        (["bench", "codec", "pictures"], "'bench codecs'"),
        (["verfy"], "'verify'"),
    ],
)
def test_what_is_mistyped_is_told_the_nearest(args: list[str], near: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert near in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bench", "x", "--image", "centre:224"], "write 224, center:224"),
        (["pack", ".", "out", "--max-bytes", "1 gigabyte"], "write 500MB, 1GB, 512MiB or a number of bytes"),
        (["bench", "x", "--seconds", "soon"], "write 50ms, 10s, 2min or a number of seconds"),
        (["plan", "x", "--block-bytes", "0"], "at least 1 byte"),
    ],
)
def test_units_that_are_mistyped_are_told_how_they_are_written(args: list[str], words: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_folder_of_the_name_is_no_mistyped_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_labels(tmp_path / "codec", [3])
    monkeypatch.chdir(tmp_path)
    assert "There is no command" not in run("bench", "codec", "--batches", "1").stderr


def on_a_terminal(folder: Path, **environment: str) -> bytes:
    """What `wds doctor` writes to a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-c", "from wds_tools.cli import main; main()", "doctor"]
    settings = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    settings |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", "XDG_CACHE_HOME": str(folder)}
    with subprocess.Popen(command, stdout=its, stderr=its, stdin=its, env=settings | environment) as process:
        os.close(its)
        written = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            written += piece
    os.close(ours)
    assert process.returncode == 0
    return written


def test_colours_are_for_terminals_and_for_those_who_want_them(tmp_path: Path) -> None:
    assert b"\x1b[" in on_a_terminal(tmp_path)
    assert b"\x1b[" not in on_a_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[" not in run("doctor").output


LONG = {
    "pack": "packing: 12 samples in ",
    "reshard": "packing: 12 samples in ",
    "index": "indexing: 2 shards in ",
    "verify": "verifying: 12 samples in ",
    "cache warm": "warming: ",
    "view": "looking: 12 samples in ",
    "bench": "measuring: 2 batches in ",
    "plan": "reading labels: 12 samples in ",
    "bench codecs": "measuring: 12 pictures in ",
}
"""Commands that may take long, and what their progress ends with."""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for number in range(12):
        file = tmp_path / "pictures" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number))
    return tmp_path / "pictures"


@pytest.mark.parametrize("name", LONG)
def test_long_work_shows_itself_on_stderr_and_leaves_stdout_to_the_answer(
    pictures: Path, tmp_path: Path, name: str
) -> None:
    shards, out, cache = write_pictures(tmp_path / "shards", [6, 6]), str(tmp_path / "out"), str(tmp_path / "cache")
    if name == "cache warm":
        run("index", shards)
        with serve(shards) as server:
            done = run("cache", "warm", f"{server.url}/dataset.json", "--cache-dir", cache, "--bytes", "1GB", "--json")
    else:
        rest = {
            "pack": [str(pictures), out],
            "reshard": [shards, out],
            "index": [shards],
            "verify": [shards],
            "plan": [shards, "--labels", "cls", "--batch-size", "4"],
            "view": [shards, "--out", f"{out}.png"],
            "bench": [shards, "--batch-size", "4", "--batches", "1", "--warmup", "0s", "--image", "16"],
            "bench codecs": [str(pictures), "--to", "jpg", "--rounds", "1"],
        }[name]
        done = run(*name.split(), *rest, "--json")
    assert done.exit_code == 0, done.output
    assert LONG[name] in done.stderr
    json.loads(done.stdout)  # the answer alone

"""What urls of streams mean, and what is refused before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaders.stream.spelling import argv_of, fingerprint, spell
from tests.builders import write_labels
from wds_tools.errors import NoShardsError, UsageError


def test_commands_files_and_standard_input_in_one_list(tmp_path: Path) -> None:
    folder = write_labels(tmp_path, [1, 1])
    found = spell([folder, "pipe:cat x-{0..2}.tar", "-"], allow_pipe=True)
    assert found == (
        f"{folder}/s-0000.tar",
        f"{folder}/s-0001.tar",
        "pipe:cat x-0.tar",
        "pipe:cat x-1.tar",
        "pipe:cat x-2.tar",
        "-",
    )
    assert spell(Path(folder), allow_pipe=False) == found[:2]


def test_commands_run_only_where_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="allow_pipe=True"):
        spell(f"pipe:touch {tmp_path}/ran", allow_pipe=False)
    assert not os.listdir(tmp_path)


def test_words_are_split_as_a_shell_would() -> None:
    assert argv_of("pipe:curl -H 'Accept: x y' \"a b\"") == ["curl", "-H", "Accept: x y", "a b"]


@pytest.mark.parametrize("command", ["cat a | gzip -d", "cat < a", "cat a > b", "cat a && true", "cat a ; true"])
def test_what_needs_a_shell_is_refused_with_the_cure(command: str) -> None:
    with pytest.raises(UsageError, match=r"only a shell understands.*script"):
        spell(f"pipe:{command}", allow_pipe=True)


@pytest.mark.parametrize(("command", "problem"), [("", "without a command"), ("cat 'a", "quotation")])
def test_commands_that_are_none(command: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        spell(f"pipe:{command}", allow_pipe=True)


def test_a_stream_listed_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        spell(["pipe:cat a.tar", "pipe:cat a.tar"], allow_pipe=True)
    with pytest.raises(UsageError, match="twice"):
        spell(["-", "-"], allow_pipe=True)


def test_nothing_is_an_error() -> None:
    with pytest.raises(NoShardsError):
        spell([], allow_pipe=True)


def test_the_fingerprint_is_of_names_and_order() -> None:
    a, b = "https://h/a.tar?sig=1", "https://h/b.tar?sig=1"
    assert fingerprint([a, b]) == fingerprint(["https://h/a.tar?sig=2", "https://other/b.tar"])
    assert fingerprint([a, b]) == fingerprint(["/data/a.tar", "/data/b.tar"])
    assert fingerprint([a, b]) != fingerprint([b, a])
    assert fingerprint([f"pipe:curl -s {a}"]) == fingerprint(["pipe:curl -s https://h/a.tar?sig=2"])
    assert fingerprint([f"pipe:curl -s {a}"]) != fingerprint([f"pipe:curl -s {b}"])

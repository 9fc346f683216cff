"""`wds completion`, asked by a real bash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wds_tools.cli import COMMANDS, root

WDS = Path(sys.executable).with_name("wds")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_own_text(shell: str) -> None:
    answer = CliRunner().invoke(root, ["completion", shell])
    assert answer.exit_code == 0
    assert f"_WDS_COMPLETE={shell}_complete" in answer.output


def test_bash_completes_commands_and_options() -> None:
    script = f"""
        eval "$({WDS} completion bash)"
        COMP_WORDS=(wds pa); COMP_CWORD=1; _wds_completion wds; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(wds pack --max-s); COMP_CWORD=2; COMPREPLY=(); _wds_completion wds; echo "${{COMPREPLY[@]}}"
    """
    path = f"{WDS.parent}:{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}
    )
    commands, options = answer.stdout.splitlines()
    assert commands == "pack"
    assert options == "--max-samples"


def completed(*words: str) -> tuple[list[str], list[str]]:
    """What bash is told for a line whose last word is begun: values, and the kinds of files."""
    environment = os.environ | {"_WDS_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}
    answer = subprocess.run(
        [WDS], capture_output=True, text=True, check=True, env=environment | {"COMP_CWORD": str(len(words) - 1)}
    )
    items = [line.split(",", 1) for line in answer.stdout.splitlines()]
    return [value for kind, value in items if kind == "plain"], [kind for kind, _ in items if kind != "plain"]


def test_a_command_of_two_words_is_completed_word_by_word() -> None:
    assert completed("wds", "ben") == (["bench"], [])
    assert completed("wds", "bench", "co") == (["codecs"], [])
    assert completed("wds", "bench", "codecs", "--res") == (["--resize"], [])
    assert completed("wds", "bench", "--simul") == (["--simulate-step"], [])


def test_urls_are_completed_as_files() -> None:
    for command in ("ls", "bench", "view"):
        assert completed("wds", command, "data/tr") == ([], ["file"])


def test_all_commands_that_are_shown_are_offered() -> None:
    names = {name.partition(" ")[0] for name, entry in COMMANDS.items() if not entry.hidden}
    assert set(completed("wds", "")[0]) == names


def test_completing_a_command_imports_none() -> None:
    code = (
        "import sys, click; from wds_tools.cli import root; root.shell_complete(click.Context(root), '');"
        "heavy = {'numpy', 'torch', 'loaders', 'shardwriter', 'wds_tools.commands'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

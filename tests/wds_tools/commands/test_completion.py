"""`wds completion`, asked by a real bash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wds_tools.cli import root

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

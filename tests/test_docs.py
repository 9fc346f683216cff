"""The code of the README and of the docs, run as written in a folder with some pictures."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.builders import picture
from wds_tools.cli import root
from wds_tools.dataset import open_dataset

ROOT = Path(__file__).parent.parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `pictures/`, packed into `shards/` by the README's own command."""
    for number in range(60):
        file = tmp_path / "pictures" / ("cat", "dog", "owl")[number % 3] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number, width=160, height=120))
    shell = blocks(ROOT / "README.md", "sh")
    (pack,) = [line for block in shell for line in block.splitlines() if line.startswith("wds pack")]
    wds = Path(sys.executable).parent / "wds"
    subprocess.run([wds, *pack.split()[1:]], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.parametrize(("page", "least"), [("README.md", 3), ("docs/order.md", 3), ("docs/remote.md", 2)])
def test_the_code_runs_as_written(folder: Path, page: str, least: int) -> None:
    code = blocks(ROOT / page, "python")
    assert len(code) >= least
    for block in code:  # in turn, since the later ones go on from the earlier ones' files
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], cwd=folder, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr


def test_the_commands_of_the_inputs_run_as_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, since the commands go on from what the code before them has made."""
    from tests.shardwriter.inputs import test_recordio, test_tfrecord

    test_tfrecord.write(folder / "train-0.tfrecord", *map(test_tfrecord.imagenet, range(3)))
    test_recordio.write(folder / "train.rec", test_recordio.image(1, [1.0, 2.0]))
    monkeypatch.chdir(folder)
    commands = 0
    for language, block in re.findall(
        r"^```(python|sh)\n(.*?)^```$", (ROOT / "docs/inputs.md").read_text(), re.MULTILINE | re.DOTALL
    ):
        if language == "python":
            exec(compile(block, "docs/inputs.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            result = CliRunner().invoke(root, words[1:])
            assert (words[0], result.exit_code) == ("wds", 0), f"{line}\n{result.output}"
            commands += 1
    assert commands >= 8


def test_packing_runs_as_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and code in the order of the page, since the later ones look at what the earlier ones have made."""
    monkeypatch.chdir(folder)
    page = (ROOT / "docs/packing.md").read_text()
    languages = []
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        languages.append(language)
        if language == "python":
            exec(compile(block, "docs/packing.md", "exec"), {"__name__": "__main__"})
            continue
        for line in block.splitlines():
            result = CliRunner().invoke(root, shlex.split(line)[1:])
            assert (line[:4], result.exit_code) == ("wds ", 0), f"{line}\n{result.output}"
    assert languages.count("python") >= 3
    assert languages.count("sh") >= 3
    assert len(open_dataset(folder / "parts")) == 60

"""The code of the README and of the docs, run as written in a folder with some pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import picture

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


@pytest.mark.parametrize("page", ["README.md", "docs/order.md", "docs/inputs.md"])
def test_the_code_runs_as_written(folder: Path, page: str) -> None:
    code = blocks(ROOT / page, "python")
    assert len(code) >= 3
    for block in code:  # in turn, since the later ones go on from the earlier ones' files
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], cwd=folder, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr

"""The README's code, run as written in a folder with some pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.builders import picture

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_the_code_runs_as_written(tmp_path: Path) -> None:
    for number in range(60):
        file = tmp_path / "pictures" / ("cat", "dog", "owl")[number % 3] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number, width=160, height=120))
    (pack,) = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("wds pack")]
    wds = Path(sys.executable).parent / "wds"
    subprocess.run([wds, *pack.split()[1:]], cwd=tmp_path, check=True, capture_output=True)
    code = blocks("python")
    assert len(code) >= 4
    for block in code:  # in turn, since the later ones go on from the earlier ones' files
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr

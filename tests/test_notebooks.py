"""The notebooks: what they show is kept in them, and still what their code does.

`make test` runs each notebook's code in plain Python, cell after cell in one process (this file is that process's
script), and holds what the cells print against the kept outputs. The long test does the same in a real kernel.

A cell tagged `varies` prints numbers that depend on the clock or on the version of an encoder: there the words are
compared and the numbers are not. One tagged `machine` says what it found out about the machine, in words too: there
only whether it prints is compared. Of figures only the number in each cell is compared.

After a change, run the notebooks again with their outputs kept, and look at them:

    .venv/bin/python notebooks/execute.py
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parent / "notebooks").glob("*.ipynb"))
MARK = "# <- your own data: change this line"
MOST_BYTES = 600_000
"""Of a notebook with its outputs, so that a clone stays small and a web page of it loads at once."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def printed(outputs: list[dict[str, Any]]) -> str:
    """What a cell printed, and the value of its last line where that was shown."""
    pieces = []
    for output in outputs:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            pieces.append("".join(output["text"]))
        elif output["output_type"] == "execute_result":
            pieces.append("".join(output["data"]["text/plain"]) + "\n")
    return "".join(pieces)


def figures(outputs: list[dict[str, Any]]) -> int:
    return sum(any(kind.startswith("image/") for kind in output.get("data", ())) for output in outputs)


def without_numbers(text: str) -> str:
    """What a cell that varies prints: its words, whatever this machine could build and however fast it is."""
    words = re.sub(r"\b(kernel|simplejpeg)\+pillow\b", "BACKEND", text)
    words = re.sub(r"\d[\d.,]* m?s\b", "TIME", words)
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*", "#", words))


def assert_shows(path: Path, results: list[tuple[str, int]]) -> None:
    """Hold (printed, figures) of each code cell against what is kept."""
    cells = code_cells(json.loads(path.read_text()))
    assert len(results) == len(cells)
    for cell, (text, count) in zip(cells, results, strict=True):
        tags = cell["metadata"].get("tags", ())
        compared = bool if "machine" in tags else without_numbers if "varies" in tags else str
        kept = compared(printed(cell["outputs"]))
        assert compared(text) == kept, f"{path.name} prints another thing than is kept, in the cell\n\n{source(cell)}"
        assert count == figures(cell["outputs"]), f"{path.name} draws other figures, in the cell\n\n{source(cell)}"


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder)}


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 4


@every_notebook
def test_outputs_are_kept_whole_and_small(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    cells = code_cells(json.loads(path.read_text()))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "not run in order, as a whole"
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any(output["output_type"] == "stream" for output in outputs)
    assert figures(outputs)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"], "a warning or a log line is kept"


@every_notebook
def test_outputs_name_no_place_of_the_machine_that_made_them(path: Path) -> None:
    notebook = path.read_text()
    shown = "".join(printed(cell["outputs"]) for cell in code_cells(json.loads(notebook)))
    assert not re.search(r"(?<![\w.])/(tmp|home|root|work|usr|var|Users)\b", shown)
    assert tempfile.gettempdir() not in shown
    assert str(HERE.parent) not in notebook
    assert "iopub" not in notebook, "times of execution are kept: clear the cells' metadata"


@every_notebook
def test_shows_what_it_does(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the notebooks draw; pip install 'shardstream[notebooks]'")
    (tmp_path / "files").mkdir()
    results = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", __file__, path, results],  # -P, or `loaders` would be tests/loaders
        cwd=tmp_path / "files",
        env=environment(tmp_path / "files"),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert_shows(path, [(text, count) for text, count in json.loads(results.read_text())])
    left = [each.name for each in (tmp_path / "files").iterdir()]
    assert not [name for name in left if not name.startswith("torchinductor_")], "the notebook leaves files behind"


@pytest.mark.long
@every_notebook
def test_runs_on_other_data_when_one_line_is_changed(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the notebooks draw; pip install 'shardstream[notebooks]'")
    from tests.builders import picture, write_shard

    pictures = {f"{'ab'[number % 2]}/deep/{number:03d}": picture(number, form="PNG") for number in range(60)}
    for key, data in pictures.items():
        file = tmp_path / "pictures" / f"{key}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    write_shard(tmp_path / "shards" / "s.tar", [(key, {"png": data, "cls": b"1"}) for key, data in pictures.items()])
    (line,) = [line for cell in code_cells(json.loads(path.read_text())) for line in marked(cell)]
    own = tmp_path / line.split(" = ")[0]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", __file__, path, tmp_path / "results.json", own],
        env=environment(tmp_path),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def marked(cell: dict[str, Any]) -> list[str]:
    """The lines that a user changes."""
    return [line for line in source(cell).splitlines() if line.endswith(MARK)]


@pytest.mark.long
@every_notebook
def test_shows_the_same_in_a_kernel(path: Path, tmp_path: Path) -> None:
    reason = "a kernel is needed; pip install 'shardstream[notebooks]'"
    pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    notebooks, files, made = tmp_path / "notebooks", tmp_path / "files", tmp_path / "made"
    for folder in (notebooks, files, made):
        folder.mkdir()
    shutil.copy(path, notebooks)
    done = subprocess.run(
        [sys.executable, HERE.parent / "notebooks" / "execute.py", notebooks / path.name, "--to", made],
        env=environment(files),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    outputs = [cell["outputs"] for cell in code_cells(json.loads((made / path.name).read_text()))]
    assert_shows(path, [(printed(each), figures(each)) for each in outputs])
    assert [each.name for each in notebooks.iterdir()] == [path.name], "the notebook leaves files behind"


def run_plainly(path: Path, own: str | None = None) -> list[tuple[str, int]]:
    """Run a notebook's code in this process, on the user's `own` data if given.

    Returns what each cell printed and how many figures it left.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    results = []
    for number, cell in enumerate(code_cells(json.loads(path.read_text())), start=1):
        lines = ["" if line.startswith("%") else line for line in source(cell).splitlines()]  # magics are for kernels
        if own is not None:
            lines = [f"{line.split(' = ')[0]} = Path({own!r})" if line.endswith(MARK) else line for line in lines]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            run_cell("\n".join(lines), f"<cell {number} of {path.name}>", names)
        results.append((out.getvalue(), len(plt.get_fignums())))
        plt.close("all")
    return results


def run_cell(code: str, name: str, names: dict[str, Any]) -> None:
    """Run the statements, and show the value of the last one as a notebook does."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None:
            sys.stdout.write(f"{value!r}\n")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run_plainly(Path(sys.argv[1]), *sys.argv[3:])))

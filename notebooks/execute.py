"""Run notebooks in a fresh kernel and keep their outputs, so that two runs of the same code give the same file.

    .venv/bin/python notebooks/execute.py                     all of them, in place: after a change of code
    .venv/bin/python notebooks/execute.py --to FOLDER         beside, as the long test does

Left out of the files: times of execution, the version of Python, and the kernel's state from before. A cell that
raises ends the run, and that notebook stays as it was.
"""

from __future__ import annotations

from pathlib import Path

import click
import nbclient
import nbformat

HERE = Path(__file__).parent


@click.command()
@click.argument("notebooks", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Write there.")
def main(notebooks: tuple[Path, ...], folder: Path | None) -> None:
    """Run NOTEBOOKS, all of this folder by default, and keep their outputs."""
    for path in notebooks or sorted(HERE.glob("*.ipynb")):
        notebook = execute(path)
        target = path if folder is None else folder / path.name
        nbformat.write(notebook, target)
        click.echo(f"{target.name}: {target.stat().st_size / 1000:,.0f} KB")


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in the folder that it lies in.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised.
    """
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=300,  # seconds a cell, on a machine that has other things to do too
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    main()

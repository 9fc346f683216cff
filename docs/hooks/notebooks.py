"""The notebooks as pages of the site, from the outputs that are kept in them: text as it is, code, prints, figures."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
FIGURES = {"image/jpeg": "jpg", "image/png": "png"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, and its figures beside."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for name, content in pages(path):
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def pages(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """The page of a notebook and its figures, as (name, content)."""
    pieces: list[str] = []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            pieces.append(source)
            continue
        pieces.append(_fenced(source, "python"))
        for place, output in enumerate(cell["outputs"]):
            figure = _figure(output, f"{path.stem}-{number}-{place}")
            if figure is None:
                pieces.append(_fenced(_printed(output), "text"))
            else:
                pieces.append(f"![What the code above draws]({figure[0]})")
                yield figure
    yield f"{path.stem}.md", "\n\n".join([*pieces, f"*This page is `notebooks/{path.name}`, as it was run.*", ""])


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````" if text.strip() else ""


def _printed(output: dict[str, Any]) -> str:
    text = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
    return "".join(text)


def _figure(output: dict[str, Any], stem: str) -> tuple[str, bytes] | None:
    for kind, suffix in FIGURES.items():
        if kind in output.get("data", ()):
            return f"{stem}.{suffix}", base64.b64decode("".join(output["data"][kind]))
    return None

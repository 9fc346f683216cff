"""The pages of the API hold all that is published: what packages export, and what pages and notebooks import."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PUBLISHED = [
    "loaders", "loaders.interop", "loaders.lightning", "loaders.torch", "shardwriter", "shardwriter.inputs",
    "wds_tools.errors",
]  # fmt: skip
"""The packages whose `__all__` is what users import from."""

_DIRECTIVE = re.compile(r"^::: (?P<path>\S+)\n(?P<options>(?:    .*\n)?)", re.MULTILINE)
_IMPORT = re.compile(r"^from ((?:wds_tools|loaders|shardwriter)[\w.]*) import ([\w, ]+)", re.MULTILINE)


def value_of(path: str) -> object:
    """What a dotted path names: of a function and a module of one name the function, as an import gives it."""
    head, _, name = path.rpartition(".")
    if not head:
        return importlib.import_module(path)
    for owner in (value_of(head), sys.modules.get(head)):
        if hasattr(owner, name):
            return getattr(owner, name)
    return importlib.import_module(path)


@pytest.fixture(scope="module")
def shown() -> set[int]:
    """What the pages show, by identity."""
    found: set[int] = set()
    for page in (ROOT / "docs/api").glob("*.md"):
        for directive in _DIRECTIVE.finditer(page.read_text()):
            value = value_of(directive["path"])
            if not isinstance(value, ModuleType):
                found.add(id(value))
            elif "members: false" not in directive["options"]:
                found |= {id(getattr(value, name)) for name in value.__all__}
    return found


def imports() -> Iterator[tuple[str, str]]:
    texts = [page.read_text() for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        texts += ["".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"]]
    for text in texts:
        for module, names in _IMPORT.findall(text):
            yield from ((module, name.strip()) for name in names.split(","))


@pytest.mark.parametrize("package", PUBLISHED)
def test_what_a_package_exports_is_shown(package: str, shown: set[int]) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if id(getattr(module, name)) not in shown] == []


def test_what_pages_and_notebooks_import_is_shown(shown: set[int]) -> None:
    named = sorted(set(imports()))
    assert len(named) > 30
    assert [(module, name) for module, name in named if id(value_of(f"{module}.{name}")) not in shown] == []

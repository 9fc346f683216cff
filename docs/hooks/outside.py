"""Links that lead out of the docs, which are for readers of the repository: what the site makes of them.

Notebooks are pages of the site (`notebooks.py`); code and tests are not there, and become names of files.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.pages import Page

_NOTEBOOK = re.compile(r"\.\./notebooks/([^/]+)\.ipynb")
_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace them."""
    folder = posixpath.dirname(page.file.src_uri)

    def named(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(folder, link[2]))
        if notebook := _NOTEBOOK.fullmatch(place):
            return f"[{link[1]}]({posixpath.relpath(f'notebooks/{notebook[1]}.md', folder or '.')})"
        return f"{link[1]} (`{place.removeprefix('../')}`)" if place.startswith("../") else link[0]

    return _LINK.sub(named, markdown)

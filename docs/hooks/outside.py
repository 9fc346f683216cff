"""Links that lead out of the docs, to code and tests: on the site, where these are not, they become names of files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replace them."""
    folder = posixpath.dirname(page.file.src_uri)

    def named(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(folder, link[2]))
        return f"{link[1]} (`{place.removeprefix('../')}`)" if place.startswith("../") else link[0]

    return _LINK.sub(named, markdown)

"""Urls as webdataset writes them in one string: several, joined by "::"."""

from __future__ import annotations

from wds_tools.errors import UsageError

__all__ = ["urls_of"]


def urls_of(text: str) -> str | list[str]:
    """The urls of a string: itself, or the list of what `::` joins. Braces are left for `wds_tools.urls`.

    >>> urls_of("a-{000..009}.tar::http://host/b.tar")
    ['a-{000..009}.tar', 'http://host/b.tar']

    Raises:
        UsageError: nothing stands on one side of a "::".
    """
    parts = text.split("::")
    if len(parts) == 1:
        return text
    if not all(parts):
        raise UsageError(f"urls is {text!r}, which has an empty url beside a `::`")
    return parts

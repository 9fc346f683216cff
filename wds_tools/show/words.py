"""Figures and texts in a few words."""

from __future__ import annotations

import math

from wds_tools.errors import counted

__all__ = ["one_line", "size"]

_UNITS = ("KB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes for people: 107.5 MB counts in thousands, as disks do."""
    if count < 1000:
        return counted(round(count), "byte")
    power = min(int(math.log10(count)) // 3, len(_UNITS))
    return f"{count / 1000**power:,.1f} {_UNITS[power - 1]}"


def one_line(text: str, most: int = 120) -> str:
    """The text on one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]} ..."

"""Kinds of options that the commands of shardwriter share."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["ByteSize"]

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class ByteSize(click.ParamType[int]):
    """A number of bytes: 500MB and 1GB count in thousands, 512MiB in 1,024, a plain number is bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", str(value).strip().lower())
        if match is None or (match[3] and not match[2]):
            self.fail(f"{value!r} is no size; write 500MB, 1GB, 512MiB or a number of bytes.", param, ctx)
        base = 1024 if match[3] else 1000
        return round(float(match[1]) * int(base ** _UNITS[match[2]]))

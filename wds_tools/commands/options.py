"""Arguments and options that several commands share, so that they look and read the same."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from wds_tools.errors import counted

__all__ = ["as_json", "counted", "echo_json", "size", "urls"]

_UNITS = ("KB", "MB", "GB", "TB")

urls = click.argument("urls", nargs=-1, required=True, metavar="URLS...")
"""Shards, patterns, folders or listings; the command gets a tuple of str."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")


def echo_json(facts: Any) -> None:
    """Facts on stdout, one object."""
    click.echo(json.dumps(facts, indent=1))


def size(count: float) -> str:
    """Bytes for people: 107.5 MB counts in thousands, as disks do."""
    if count < 1000:
        return counted(round(count), "byte")
    power = min(int(math.log10(count)) // 3, len(_UNITS))
    return f"{count / 1000**power:,.1f} {_UNITS[power - 1]}"

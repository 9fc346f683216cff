"""Arguments and options that several commands share, so that they look and read the same."""

from __future__ import annotations

import json
from typing import Any

import click

__all__ = ["as_json", "echo_json", "size", "urls"]

urls = click.argument("urls", nargs=-1, required=True, metavar="URLS...")
"""Shards, patterns, folders or listings; the command gets a tuple of str."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")


def echo_json(facts: Any) -> None:
    """Facts on stdout, one object."""
    click.echo(json.dumps(facts, indent=1))


def size(count: float) -> str:
    """Bytes for people: 107.5 MB counts in thousands, as disks do."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"

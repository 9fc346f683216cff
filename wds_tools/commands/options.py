"""Arguments and options that several commands share, so that they look and read the same."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from wds_tools.cli import second_words
from wds_tools.errors import counted
from wds_tools.show.words import size

__all__ = [
    "SEED",
    "ByteSize",
    "Duration",
    "Target",
    "as_json",
    "complete_urls",
    "counted",
    "echo_json",
    "notes_are_shown",
    "size",
    "urls",
]

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def complete_urls(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files; and, where this command's name begins another of two words, that second word once it is begun."""
    del param
    words = second_words(ctx.info_name or "") if incomplete else []
    found = [CompletionItem(word) for word in words if word.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


urls = click.argument("urls", nargs=-1, required=True, metavar="URLS...", shell_complete=complete_urls)
"""Shards, patterns, folders or listings; the command gets a tuple of str."""

SEED = click.IntRange(0, (1 << 64) - 1)
"""What a --seed may be: as `ShardLoader` and `pack` take them."""

as_json = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")


class Target(click.Path):
    """A path that is written to. Empty it is refused: it would mean the current folder (`addresses.given`)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("It is empty; the current folder is '.'.", param, ctx)
        return super().convert(value, param, ctx)


class ByteSize(click.ParamType[int]):
    """A number of bytes: 500MB and 1GB count in thousands, 512MiB in 1,024, a plain number is bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", str(value).strip().lower())
        if match is None or (match[3] and not match[2]):
            self.fail(f"{value!r} is no size; write 500MB, 1GB, 512MiB or a number of bytes.", param, ctx)
        base = 1024 if match[3] else 1000
        return round(float(match[1]) * int(base ** _POWERS[match[2]]))


class Duration(click.ParamType[float]):
    """A time: 50ms, 10s or 2min; a plain number is seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|)", str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is no time; write 50ms, 10s, 2min or a number of seconds.", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


def echo_json(facts: Any) -> None:
    """Facts on stdout, one object."""
    click.echo(json.dumps(facts, indent=1))


@contextlib.contextmanager
def notes_are_shown() -> Iterator[None]:
    """For a command that shows the notes of shards itself: `wds_tools.shard` does not log them too."""
    log = logging.getLogger("wds_tools.shard")  # by name, since the module would bring numpy
    log.addFilter(_is_no_note)
    try:
        yield
    finally:
        log.removeFilter(_is_no_note)


def _is_no_note(record: logging.LogRecord) -> bool:
    return record.levelno != logging.WARNING

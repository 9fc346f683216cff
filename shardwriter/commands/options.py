"""Kinds of options that the commands of shardwriter share, help in groups, and the line that a listing keeps."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from wds_tools.commands.options import ByteSize

if TYPE_CHECKING:
    from shardwriter.pack import PackSummary

__all__ = ["ByteSize", "PartOf", "Sectioned", "Share", "command_line", "summary_json"]


class Share(click.ParamType[tuple[str, float]]):
    """NAME=FRACTION."""

    name = "name=share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        name, _, share = str(value).partition("=")
        try:
            return name, float(share)
        except ValueError:
            self.fail(f"{value!r} is no share; write it as val=0.05.", param, ctx)


class PartOf(click.ParamType[tuple[int, int]]):
    """i/n, i from 0 to n - 1."""

    name = "i/n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        number, _, parts = str(value).partition("/")
        if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
            self.fail(f"{value!r} is no part; write 0/16 to 15/16.", param, ctx)
        return int(number), int(parts)


class Sectioned(click.Command):
    """A command whose many options are shown in sections.

    Args:
        sections: title to names of parameters; what is in none comes last, under "Other options".
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: record for option in options if (record := option.get_help_record(ctx))}
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([records.pop(name) for name in names if name in records])
        with formatter.section("Other options"):
            formatter.write_dl(list(records.values()))


def command_line(ctx: click.Context, *, places: Sequence[str], without: Sequence[str]) -> str:
    """The command as a listing keeps it: what was said that decides the bytes, and nobody's folders.

    Args:
        ctx: of the command.
        places: arguments that are shown by their names only.
        without: options that decide nothing.
    """
    words = ["wds", ctx.info_name or "", *places]
    for param in ctx.command.params:
        said = param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        if isinstance(param, click.Option) and said and param.name not in without:
            words += _words(param, ctx.params[str(param.name)])
    return shlex.join(words)


def _words(option: click.Option, value: Any) -> Iterator[str]:
    flag = max(option.opts, key=len)
    for each in value if option.multiple else (value,):
        yield flag
        if not option.is_flag:
            yield _shown(each)


def _shown(value: Any) -> str:
    if isinstance(value, Path):
        return value.name
    if isinstance(value, tuple):
        return ("=" if isinstance(value[0], str) else ",").join(map(str, value))
    return str(value)


def summary_json(summary: PackSummary) -> str:
    """A summary for programs."""
    return json.dumps(dataclasses.asdict(summary), indent=1, default=str)

"""`wds doctor`: what this installation and this machine can do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from wds_tools.commands import options
from wds_tools.doctor import Finding, examine

__all__ = ["doctor"]

_MARKS = {"fine": ("ok", "green"), "advice": ("note", "yellow"), "wrong": ("wrong", "red")}

EPILOG = """\b
Examples:
  wds doctor
  wds doctor /data/shards

Exit status: 0 everything works, 1 something will fail, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@options.as_json
def doctor(folder: Path | None, *, as_json: bool) -> None:
    """Say what this machine can do, and what is in the way.

    Versions, the decode kernel and why it is missing, cores, memory, limits, the cache; how fast one core decodes; with
    FOLDER also how fast its disk reads. Takes about a second.
    """
    found = list(examine(folder))
    if as_json:
        options.echo_json([dataclasses.asdict(finding) for finding in found])
    else:
        for finding in found:
            _show(finding)
    if any(finding.state == "wrong" for finding in found):
        raise SystemExit(1)


def _show(finding: Finding) -> None:
    mark, colour = _MARKS[finding.state]
    click.echo(f"{click.style(f'{mark:<5}', fg=colour)}  {finding.name:<13}  {finding.value}")
    if finding.advice:
        click.echo(f"{'':<22}{finding.advice}")

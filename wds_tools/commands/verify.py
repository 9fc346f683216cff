"""`wds verify`: everything read, and all that is wrong in a line each."""

from __future__ import annotations

import dataclasses
from collections import Counter

import click

from wds_tools import progress
from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import printable
from wds_tools.sources.options import Remote
from wds_tools.verify import Problem, Verification, verify

__all__ = ["verify_command"]

SHOWN = 10
"""Problems of each kind that are shown."""
UNDECODED = " (headers and index only; --decode reads the pictures and other fields too)"

EPILOG = """\b
Examples:
  wds verify shardstream-demo/shards/train
  wds verify --decode 'data/train-*.tar' || mail -s 'bad shards' me
  wds verify --json data/dataset.json | jq '.problems[].key'

Exit status: 0 all sound, 1 something is wrong, 2 used wrongly.
"""


@click.command("verify", epilog=EPILOG)
@options.urls
@click.option("--decode", is_flag=True, help="Decode every field of every sample too, pictures wholly.")
@click.option("--jobs", type=click.IntRange(min=1), help="Shards read at a time.  [default: all usable cores]")
@remote_options
@options.as_json
@click.pass_context
@options.notes_are_shown()
def verify_command(
    ctx: click.Context,
    /,
    urls: tuple[str, ...],
    *,
    decode: bool,
    jobs: int | None,
    remote: Remote | None,
    as_json: bool,
) -> None:
    """Read everything and list all that is wrong.

    Every shard is read from end to end and held against its listing (sizes, checksums, counts, fields, labels), offsets
    and sidecars. Each problem is a line with
    shard, offset, key and field as far as there are, and what to do; of many of one kind the first ten are shown.
    """
    seen: Counter[str] = Counter()

    def show(problem: Problem) -> None:
        seen[problem.kind] += 1
        if not as_json and seen[problem.kind] <= SHOWN:
            click.echo(str(problem))

    with progress.bar("verifying", unit="samples") as bar:
        result = verify(urls, decode=decode, jobs=jobs, remote=remote, advance=bar.advance, found=show)
    if as_json:
        options.echo_json(dataclasses.asdict(result))
    else:
        _say_what_was_cut(seen)
        _summarise(result, decode=decode)
    ctx.exit(1 if result.problems else 0)


def _say_what_was_cut(seen: Counter[str]) -> None:
    for kind, number in seen.items():
        if number > SHOWN:
            click.echo(f"{kind}: ... and {number - SHOWN:,} more of this kind; --json lists all")


def _summarise(result: Verification, *, decode: bool) -> None:
    for shard, notes in result.notes.items():
        click.echo(f"note: {printable(shard)}: {'; '.join(notes)}")
    verdict = options.counted(len(result.problems), "problem") if result.problems else "all sound"
    shards, samples = options.counted(result.shards, "shard"), options.counted(result.samples, "sample")
    click.echo(f"{shards}, {samples}, {options.size(result.bytes)} read: {verdict}{'' if decode else UNDECODED}")

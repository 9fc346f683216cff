"""`wds ls`: the samples of shards, one line each, as they are found."""

from __future__ import annotations

import itertools
import json
import posixpath
from collections.abc import Iterator

import click

from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import Entry, contents, printable
from wds_tools.errors import public
from wds_tools.sources.options import Remote
from wds_tools.streamed import open_pass
from wds_tools.urls import expand

__all__ = ["ls"]

EPILOG = """\b
Examples:
  wds ls shardstream-demo/shards/train
  wds ls --long 'data/train-{000000..000007}.tar' | sort -n
  wds ls --json data/ | jq -r 'select(.fields.jpg > 1000000) | .key'

Exit status: 0 all listed, 1 a shard is damaged or cannot be read, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@options.urls
@click.option("-n", "--count", type=click.IntRange(min=0), metavar="N", help="Stop after N samples.")
@click.option("-l", "--long", is_flag=True, help="With the shard, the offset in it, and the bytes of all fields.")
@remote_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def ls(urls: tuple[str, ...], *, count: int | None, long: bool, remote: Remote | None, as_json: bool) -> None:
    """List the samples of shards.

    One line a sample: its key, then each field with its bytes. Only headers are read, and a damaged shard is listed up
    to the damage. URLS are shards, patterns with braces or *, folders, or a dataset.json.
    """
    for entry in itertools.islice(_entries(expand(urls, remote=remote), remote), count):
        click.echo(_json(entry) if as_json else _line(entry, long=long))


def _entries(shards: list[str], remote: Remote | None) -> Iterator[Entry]:
    for shard in shards:
        with open_pass(shard, remote=remote) as source:
            yield from contents(source)


def _line(entry: Entry, *, long: bool) -> str:
    fields = " ".join(f"{printable(name)}:{'link' if size is None else size}" for name, size in entry.fields.items())
    line = f"{printable(entry.key)}\t{fields}"
    if not long:
        return line
    return f"{entry.offset:>12}\t{entry.bytes:>10}\t{printable(posixpath.basename(public(entry.url)))}\t{line}"


def _json(entry: Entry) -> str:
    return json.dumps({"url": public(entry.url), "key": entry.key, "offset": entry.offset, "fields": entry.fields})

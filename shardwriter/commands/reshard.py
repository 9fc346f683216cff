"""`wds reshard`: existing shards into new ones."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

from shardwriter.commands.inputs import Pair
from shardwriter.commands.options import Sectioned
from shardwriter.commands.packing import HOSTS, SECTIONS, Packing, packing_options
from shardwriter.inputs.opening import nearest_folder
from wds_tools import progress
from wds_tools.commands.options import Target
from wds_tools.commands.remote import remote_options
from wds_tools.sources.options import Remote

__all__ = ["reshard"]

EPILOG = """\b
Examples:
  wds reshard 'old/train-{000000..000099}.tar' new                      merge, shuffle, cut anew
  wds reshard old new --where 'cls == 3 and json.width >= 256'          some samples
  wds reshard old new --no-shuffle --max-bytes 256MB                    smaller shards in the same order
  wds reshard old.tar.gz new --no-shuffle                               decompress, so that it can be indexed
  wds reshard a b new --keys hash --drop json --rename png=seg.png      two datasets, other fields
  wds reshard old new --to webp --resize 256                            other pictures

\b
CONDITION is written as in Python: and or not == != < <= > >= in + - * / // % ( ) [ ], and the names of fields:
  cls == 3              json.width >= 256        'cat' in txt.lower()     len(txt) > 10
  jpg.width >= 256      image.height < 4000      key.startswith('n01')    matches(key, '^a/[0-9]+$')
  txt != None           field('seg.png') != None  'jpg' in fields         shard == 'train-000007.tar'
What a sample lacks is None.

Exit status: 0 all taken over, 1 some samples were not (see failures.jsonl), 2 used wrongly.
"""


_SECTIONS = {"What is taken over": ("where", "keep", "drop", "rename", "keys", "temporary"), **SECTIONS, **HOSTS}


@click.command(epilog=EPILOG, cls=Sectioned, sections=_SECTIONS)
@click.argument("urls", nargs=-1, required=True, metavar="URLS...")
@click.argument("out", type=Target())
@click.option("--where", metavar="CONDITION", help="Only samples that fulfil it; see below.")
@click.option("--keep", multiple=True, metavar="FIELD", help="Take over this field, again for each.  [default: all]")
@click.option("--drop", multiple=True, metavar="FIELD", help="Leave this field out, again for each.")
@click.option("--rename", type=Pair(), multiple=True, metavar="OLD=NEW", help="Name a field anew, again for each.")
@click.option(
    "--keys",
    type=click.Choice(["path", "number", "hash"]),
    default="path",
    show_default=True,
    help="Keep the keys, or give numbers or hashes: for shards that each begin at key 0.",
)
@click.option(
    "--temporary",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder on whose disk compressed shards are unpacked.  [default: that of OUT]",
)
@packing_options
@remote_options
@click.pass_context
def reshard(
    ctx: click.Context,
    /,
    urls: tuple[str, ...],
    out: str,
    *,
    where: str | None,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    rename: tuple[tuple[str, str], ...],
    keys: Any,
    temporary: Path | None,
    packing: Packing,
    remote: Remote | None,
) -> None:
    """Make new shards in OUT of the samples of URLS.

    Split, merge, shuffle as a whole, choose samples by a condition, drop and rename fields, transcode pictures,
    decompress. Bytes of fields are unchanged unless asked for. Shards of any origin are read, compressed ones too
    (.tar.gz, .tar.zst), and datasets by their listing or folder; a run that was stopped goes on when called again.
    """
    from shardwriter.inputs.iterable import Sequenced
    from shardwriter.inputs.shards import open_shards

    packing.check_target(
        Sequenced([]), out, remote=remote
    )  # no folder that OUT could lie in: below the old shards is a fine place
    with progress.bar("looking at samples", unit="samples") if where else contextlib.nullcontext() as look:
        samples = open_shards(
            urls,
            where=where,
            keep=keep,
            drop=drop,
            rename=dict(rename),
            keys=keys,
            temporary=temporary or nearest_folder(out),
            remote=remote,
            progress=look.advance if look else None,
        )
    with samples:
        packing.run(ctx, samples, out, places=("URLS", "OUT"), remote=remote)

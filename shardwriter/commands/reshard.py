"""`wds reshard`: existing shards into new ones."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardwriter.commands.inputs import Pair
from shardwriter.commands.options import ByteSize
from shardwriter.commands.transcode import transcode_options
from wds_tools import progress

if TYPE_CHECKING:
    from shardwriter.pack import PackSummary

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


@click.command(epilog=EPILOG)
@click.argument("urls", nargs=-1, required=True, metavar="URLS...")
@click.argument("out")
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
@click.option("--name", default="train", show_default=True, help="What the shards' names begin with.")
@click.option(
    "--max-samples", type=click.IntRange(min=1), default=10_000, show_default=True, help="The most samples of a shard."
)
@click.option(
    "--max-bytes", type=ByteSize(), default="1GB", show_default=True, help="The most bytes of a shard's file."
)
@click.option(
    "--seed", type=click.IntRange(min=0, max=(1 << 64) - 1), default=0, show_default=True, help="Of the order."
)
@click.option("--no-shuffle", is_flag=True, help="Keep the order, of the shards and in them.")
@click.option(
    "--check",
    type=click.Choice(["header", "decode"]),
    default="header",
    show_default=True,
    help="How far pictures are checked: their header and end, or by decoding them.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Threads that prepare samples.  [default: all usable cores]")
@click.option("--max-failures", type=click.IntRange(min=0), help="End with an error when more samples fail.")
@click.option(
    "--temporary",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder on whose disk compressed shards are unpacked.  [default: that of OUT]",
)
@transcode_options
@click.option("--overwrite", is_flag=True, help="Replace the dataset of this name in OUT.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def reshard(
    urls: tuple[str, ...],
    out: str,
    *,
    where: str | None,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    rename: tuple[tuple[str, str], ...],
    keys: Any,
    no_shuffle: bool,
    temporary: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Make new shards in OUT of the samples of URLS.

    Split, merge, shuffle as a whole, choose samples by a condition, drop and rename fields, transcode pictures,
    decompress. Bytes of fields are unchanged unless asked for. Shards of any origin are read, compressed ones too
    (.tar.gz, .tar.zst), and datasets by their listing or folder; a run that was stopped goes on when called again.
    """
    from shardwriter.commands.inputs import nearest_folder
    from shardwriter.inputs.iterable import Sequenced
    from shardwriter.inputs.shards import open_shards
    from shardwriter.pack import check_target, pack

    # A taken target is found out now, not after a look at all samples; the shards may well lie above OUT.
    check_target(Sequenced([]), out, name=settings["name"], overwrite=settings["overwrite"])
    with progress.bar("looking at samples", unit="samples") if where else contextlib.nullcontext() as look:
        samples = open_shards(
            urls,
            where=where,
            keep=keep,
            drop=drop,
            rename=dict(rename),
            keys=keys,
            temporary=temporary or nearest_folder(out),
            progress=look.advance if look else None,
        )
    with samples, progress.bar("packing", total=len(samples), unit="samples") as bar:
        summary = pack(samples, out, shuffle=not no_shuffle, progress=bar.advance, **settings)
    click.echo(json.dumps(_facts(summary), indent=1) if as_json else str(summary))
    if summary.failed:
        raise SystemExit(1)


def _facts(summary: PackSummary) -> dict[str, object]:
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in dataclasses.asdict(summary).items()
    }

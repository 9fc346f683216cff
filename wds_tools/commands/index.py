"""`wds index`: the listing and the offsets of shards that were made elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from wds_tools import progress
from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import printable
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.listing import CLASSES_NAME
from wds_tools.make_index import IndexedFolder, make_index
from wds_tools.merge_listings import merge_listings
from wds_tools.sources.options import Remote
from wds_tools.urls import places

__all__ = ["index"]

EPILOG = """\b
Examples:
  wds index /data/imagenet-shards
  wds index 'data/train-*.tar' --dali
  wds index --force /data/imagenet-shards/dataset.json
  wds index 'https://host/d/train-{000000..000099}.tar' --out imagenet-index
  wds index --merge out/train-*-of-64.json
  wds index --merge 's3://bucket/train/train-*-of-64.json'

Exit status: 0 made or there already, 1 a shard cannot be indexed, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@options.urls
@click.option("--dali", is_flag=True, help="Write DALI's NAME.idx beside each shard too, as wds2idx does.")
@click.option("--energon", is_flag=True, help="Write Energon's NAME.tar.idx beside each shard too.")
@click.option("--force", is_flag=True, help="Scan again, and replace a listing that is there.")
@click.option("--merge", is_flag=True, help="Join the listings URLS, such as those of `wds pack --part`, into one.")
@click.option(
    "--out",
    type=options.Target(),
    metavar="FOLDER",
    help="Write the listing of remote shards, or the joined one, into this folder; the joined one into a store, too.",
)
@remote_options
@options.as_json
@options.notes_are_shown()
def index(
    urls: tuple[str, ...],
    *,
    dali: bool,
    energon: bool,
    force: bool,
    merge: bool,
    out: str | None,
    remote: Remote | None,
    as_json: bool,
) -> None:
    """Make the listing and offsets of shards made elsewhere.

    Every shard is scanned, headers only. dataset.json and dataset.offsets.npy then lie in the shards' folder, and
    whoever opens the shards or the folder finds them: nothing has to be scanned again, and training starts at once.
    Shards that `wds pack` made have them already.

    Remote shards are read through once, several at a time. Their listing goes into the folder --out, which is then what
    is opened in their place; in a store that can be written to it may lie beside them, without --out.

    With --merge no shard is opened: listings become one, those of parts in the order of the parts, all of which must be
    there. Listings and --out may be in a store then.
    """
    if out is not None and Path(out).is_file():
        raise click.BadParameter(f"{out} is a file, a folder is needed.", param_hint="--out")
    if merge:
        if dali or energon:
            raise click.UsageError("--merge opens no shard, so it writes no index files of --dali or --energon.")
        _merge(urls, out=out, force=force, remote=remote, as_json=as_json)
        return
    with progress.bar("indexing", total=None if force else _shards(urls, remote), unit="shards") as bar:
        folder = None if out is None else Path(out)
        made = make_index(urls, force=force, dali=dali, energon=energon, out=folder, remote=remote, advance=bar.advance)
    if as_json:
        options.echo_json([_facts(each) for each in made])
        return
    for each in made:
        for shard, notes in each.notes.items():
            click.echo(f"note: {printable(shard)}: {'; '.join(notes)}", err=True)
        samples, shards = options.counted(each.samples, "sample"), options.counted(each.shards, "shard")
        what = f"{samples} in {shards}, {options.size(each.bytes)}"
        if each.classes is not None:
            what += f", {options.counted(each.classes, 'class', 'classes')} from {CLASSES_NAME}"
        click.echo(f"{printable(str(each.listing))}: {what}{'' if each.made else ' (was there and fits)'}")


def _merge(urls: tuple[str, ...], *, out: str | None, force: bool, remote: Remote | None, as_json: bool) -> None:
    made = merge_listings(urls, out=out, force=force, remote=remote)
    if as_json:
        options.echo_json(dataclasses.asdict(made) | {"listing": str(made.listing)})
        return
    samples, shards = options.counted(made.samples, "sample"), options.counted(made.shards, "shard")
    parts = options.counted(made.parts, "listing")
    click.echo(f"{printable(str(made.listing))}: {samples} in {shards}, {options.size(made.bytes)}, from {parts}")


def _shards(urls: tuple[str, ...], remote: Remote | None) -> int:
    """How many are named; unlike `expand` without a word on those beside, which `make_index` refuses."""
    files = Files(IndexCache(None), remote)
    found = places(urls, remote=remote)
    return sum(len(files.listing(place.url).urls) if place.listing else 1 for place in found)


def _facts(made: IndexedFolder) -> dict[str, object]:
    return {
        "listing": str(made.listing),
        "made": made.made,
        "shards": made.shards,
        "samples": made.samples,
        "bytes": made.bytes,
        "classes": made.classes,
        "notes": dict(made.notes),
    }

"""`wds pack`: the command over shardwriter.pack."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardwriter.commands.inputs import InputOptions, input_options, make_input
from shardwriter.commands.options import Sectioned
from shardwriter.commands.packing import HOSTS, SECTIONS, Packing, packing_options
from wds_tools import progress
from wds_tools.commands.options import Target
from wds_tools.commands.remote import remote_options
from wds_tools.sources.options import Remote

if TYPE_CHECKING:
    from shardwriter.inputs.base import BaseInput

__all__ = ["pack"]

EPILOG = """\b
Examples:
  wds pack pictures/train out/train
  wds pack pictures/val out/val --name val --classes out/train/classes.txt
  wds pack pictures out --split val=0.05 --dedup             out/train and out/val, no picture in both
  wds pack pictures out --to jpg --resize 256                smaller pictures
  wds pack table.csv out --image-column file --label-column species
  wds pack pictures out --part "$SLURM_ARRAY_TASK_ID/64"     then: wds index --merge out/train-*-of-64.json
  wds pack pictures s3://bucket/train --engine ray --address auto --parts 64

A run that was stopped, killed even, goes on when the same command is given again.

Exit status: 0 all packed, 1 some pictures were not (see failures.jsonl), 2 used wrongly.
"""

_SECTIONS = {
    "What is packed": (
        "kind", "keys", "classes", "fields", "patterns", "columns", "image", "label", "key", "labels", "root",
        "delimiter", "encoding", "label_array", "array_field", "layout", "label_field", "id_field", "where",
    ),
    **SECTIONS,
    **HOSTS,
}  # fmt: skip


@click.command(epilog=EPILOG, cls=Sectioned, sections=_SECTIONS)
@click.argument("source")
@click.argument("out", type=Target())
@input_options
@packing_options
@remote_options
@click.pass_context
def pack(
    ctx: click.Context,
    /,
    source: str,
    out: str,
    *,
    chosen: InputOptions,
    packing: Packing,
    remote: Remote | None,
) -> None:
    """Pack SOURCE into shards in OUT.

    SOURCE is a folder of class folders, or what --input says. Classes are numbered in the order of their names; the
    order is shuffled by the seed; bytes are unchanged unless a format or a size is asked for. Broken pictures are not
    packed but listed in failures.jsonl beside the shards. A sample's key is its path without the extension, dots in its
    base name become _: cat/a.b.1.png is cat/a_b_1.
    """
    from shardwriter.inputs.folders import check_folder
    from shardwriter.inputs.kinds import kind_of_source

    # A wrong source or a taken target is found out now, not after minutes of reading folders.
    if chosen.kind is None and "patterns" not in chosen.said:
        chosen = dataclasses.replace(chosen, kind=kind_of_source(source))
    if chosen.kind == "folders":
        check_folder(source)
    packing.check_target(Path(source), out, remote=remote)
    chosen = dataclasses.replace(chosen, remote=remote)
    unit = "files" if "patterns" in chosen.said else "samples"  # of a pattern each, which samples have several of
    with progress.bar("reading the source", unit=unit) as bar:
        samples = make_input(source, chosen, temporary=out, progress=bar.advance)
    with samples:
        _say_that_there_are_no_labels(samples, chosen)
        packing.run(ctx, samples, out, places=("SOURCE", "OUT"), remote=remote)


def _say_that_there_are_no_labels(samples: BaseInput, chosen: InputOptions) -> None:
    """Of pictures alone, before they are packed; who names the fields knows."""
    from shardwriter.inputs.flat import FlatFolder
    from wds_tools.codec import kind_of

    if not isinstance(samples, FlatFolder) or "fields" in chosen.said:
        return
    fields = sorted(samples.fields)
    if fields and all(kind_of(field) == "picture" for field in fields):
        click.echo(
            f"note: these are pictures without labels, which a loader reads with fields=({';'.join(fields)!r},). Labels"
            " are taken from a folder for each class, from files beside the pictures (1.cls, 1.txt, 1.json), or from a"
            " table: `wds pack table.csv OUT --image-column NAME --label-column NAME`.",
            err=True,
        )

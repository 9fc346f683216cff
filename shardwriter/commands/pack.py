"""`wds pack`: the command over shardwriter.pack."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardwriter.commands.inputs import InputOptions, input_options, make_input
from shardwriter.commands.options import ByteSize, PartOf, Sectioned, Share, command_line, summary_json
from shardwriter.commands.transcode import transcode_options
from wds_tools import progress

if TYPE_CHECKING:
    from shardwriter.transcoder import Transcoder

__all__ = ["pack"]

EPILOG = """\b
Examples:
  wds pack pictures/train out/train
  wds pack pictures/val out/val --name val --classes out/train/classes.txt
  wds pack pictures out --split val=0.05 --dedup             out/train and out/val, no picture in both
  wds pack pictures out --to jpg --resize 256                smaller pictures
  wds pack table.csv out --image-column file --label-column species
  wds pack pictures out --part "$SLURM_ARRAY_TASK_ID/64"     then: wds index --merge out/train-*-of-64.json

A run that was stopped, killed even, goes on when the same command is given again.

Exit status: 0 all packed, 1 some pictures were not (see failures.jsonl), 2 used wrongly.
"""

_SECTIONS = {
    "What is packed": (
        "kind", "keys", "classes", "fields", "patterns", "columns", "image", "label", "key", "labels", "root",
        "delimiter", "encoding", "label_array", "array_field", "layout", "label_field", "id_field", "where",
    ),
    "Order and shards": ("name", "max_samples", "max_bytes", "seed", "no_shuffle", "split", "part", "checksum"),
    "What pictures become (unchanged by default)": (
        "to", "resize", "enlarge", "quality", "metadata", "baseline", "background", "icc", "transcode_fields",
        "mask_fields",
    ),
    "What is left out": ("check", "max_pixels", "dedup", "max_failures"),
    "The run": ("jobs", "overwrite", "as_json"),
}  # fmt: skip
_DECIDES_NOTHING = ("part", "max_failures", "jobs", "overwrite", "as_json")
"""Beside the bytes of a shard, or of the parts joined."""


@click.command(epilog=EPILOG, cls=Sectioned, sections=_SECTIONS)
@click.argument("source")
@click.argument("out")
@input_options
@click.option("--name", default="train", show_default=True, help="What the shards' names begin with.")
@click.option(
    "--max-samples", type=click.IntRange(min=1), default=10_000, show_default=True, help="The most samples of a shard."
)
@click.option(
    "--max-bytes",
    type=ByteSize(),
    default="1GB",
    show_default=True,
    help="The most bytes of a shard's file: 500MB, 1GiB.",
)
@click.option(
    "--seed", type=click.IntRange(min=0, max=(1 << 64) - 1), default=0, show_default=True, help="Of the order."
)
@click.option("--no-shuffle", is_flag=True, help="Keep the order of the input. Mixes badly in training.")
@click.option(
    "--split",
    type=Share(),
    multiple=True,
    metavar="NAME=SHARE",
    help="Put this share of the samples into OUT/NAME and the rest into OUT/train (--name): val=0.05. Chosen by a hash "
    "of the key, so that it stays when pictures are added. Again for each.",
)
@click.option(
    "--part",
    type=PartOf(),
    metavar="I/N",
    help="Pack only the I-th of N parts, I from 0 on, for array jobs; `wds index --merge` joins them.",
)
@click.option(
    "--checksum",
    type=click.Choice(["xxh3", "sha256", "none"]),
    default="xxh3",
    show_default=True,
    help="Of each shard, for the listing.",
)
@transcode_options
@click.option(
    "--check",
    type=click.Choice(["header", "decode"]),
    default="header",
    show_default=True,
    help="How far each picture is checked: its header and end, or by decoding all of it.",
)
@click.option(
    "--max-pixels", type=click.IntRange(min=1), help="Pictures with more are not packed.  [default: 178956970]"
)
@click.option(
    "--dedup", is_flag=True, help="Leave out samples whose pictures came before, byte by byte, whatever their labels."
)
@click.option("--max-failures", type=click.IntRange(min=0), help="End with an error when more samples fail.")
@click.option("--jobs", type=click.IntRange(min=1), help="Threads that prepare samples.  [default: all usable cores]")
@click.option("--overwrite", is_flag=True, help="Replace the dataset of this name in OUT, or the beginnings of one.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def pack(
    ctx: click.Context,
    /,
    source: str,
    out: str,
    *,
    chosen: InputOptions,
    transcode: Transcoder | None,
    no_shuffle: bool,
    split: tuple[tuple[str, float], ...],
    checksum: str,
    max_pixels: int | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Pack SOURCE into shards in OUT.

    SOURCE is a folder of class folders, or what --input says. Classes are numbered in the order of their names; the
    order is shuffled by the seed; bytes are unchanged unless a format or a size is asked for. Broken pictures are not
    packed but listed in failures.jsonl beside the shards. A sample's key is its path without the extension, dots in its
    base name become _: cat/a.b.1.png is cat/a_b_1.
    """
    from shardwriter.inputs import check_folder
    from shardwriter.inputs.kinds import kind_of_source
    from shardwriter.pack import check_target
    from shardwriter.pack import pack as pack_samples
    from wds_tools.pictures.options import Pictures

    # A wrong source or a taken target is found out now, not after minutes of reading folders.
    if chosen.kind is None and "patterns" not in chosen.said:
        chosen = dataclasses.replace(chosen, kind=kind_of_source(source))
    if chosen.kind == "folders":
        check_folder(source)
    shares = _shares(split)
    taken = {name: settings[name] for name in ("name", "part", "overwrite")}
    check_target(Path(source), out, split=shares, **taken)
    with progress.bar("reading the source", unit="samples") as bar:
        samples = make_input(source, chosen, temporary=out, progress=bar.advance)
    with samples, progress.bar("packing", total=_count(len(samples), settings["part"]), unit="samples") as bar:
        summary = pack_samples(
            samples,
            out,
            shuffle=not no_shuffle,
            split=shares,
            checksum=None if checksum == "none" else "sha256" if checksum == "sha256" else "xxh3",
            pictures=Pictures() if max_pixels is None else Pictures(max_pixels=max_pixels),
            transcode=transcode,
            progress=bar.advance,
            command=command_line(ctx, places=("SOURCE", "OUT"), without=_DECIDES_NOTHING),
            **settings,
        )
    click.echo(summary_json(summary) if as_json else str(summary))
    if summary.failed:
        raise SystemExit(1)


def _shares(split: tuple[tuple[str, float], ...]) -> dict[str, float]:
    if len(dict(split)) < len(split):
        raise click.UsageError("--split names a dataset twice.")
    return dict(split)


def _count(samples: int, part: tuple[int, int] | None) -> int:
    """How many samples there are to pack: with splits and parts to within the number of splits."""
    number, parts = part or (0, 1)
    return samples * (number + 1) // parts - samples * number // parts

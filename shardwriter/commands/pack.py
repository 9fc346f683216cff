"""`wds pack`: the command over shardwriter.pack."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shardwriter.commands.options import ByteSize
from wds_tools import progress

if TYPE_CHECKING:
    from shardwriter.pack import PackSummary

__all__ = ["pack"]

EPILOG = """\b
Examples:
  wds pack pictures/train out/train
  wds pack pictures/val out/val --name val --classes out/train/classes.txt

Exit status: 0 all packed, 1 some pictures were not (see failures.jsonl), 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--name", default="train", show_default=True, help="What the shards' names begin with.")
@click.option(
    "--max-samples", type=click.IntRange(min=1), default=10_000, show_default=True, help="The most pictures of a shard."
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
@click.option("--no-shuffle", is_flag=True, help="Keep the order of the folders. Mixes badly in training.")
@click.option(
    "--classes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A classes.txt to take the labels from, so that a validation set has those of its training set.",
)
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
@click.option("--overwrite", is_flag=True, help="Replace the dataset of this name in OUT.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def pack(
    source: Path,
    out: Path,
    *,
    name: str,
    max_samples: int,
    max_bytes: int,
    seed: int,
    no_shuffle: bool,
    classes: Path | None,
    check: str,
    max_pixels: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Pack SOURCE, a folder of class folders, into shards in OUT.

    Bytes are unchanged; classes are numbered in the order of their names; the order is shuffled by the seed. Broken
    pictures are not packed but listed in failures.jsonl beside the shards. A sample's key is the picture's path without
    the extension, dots in its base name become _: cat/a.b.1.png is cat/a_b_1.
    """
    from shardwriter.inputs import check_folder, class_folders
    from shardwriter.pack import check_target
    from shardwriter.pack import pack as pack_shards
    from wds_tools.pictures.options import Pictures

    # A wrong source or a taken target is found out now, not after minutes of reading folders.
    check_folder(source)
    check_target(source, out, name=name, overwrite=overwrite)
    with progress.bar("reading folders", unit="pictures") as bar:
        samples = class_folders(source, classes=_class_names(classes), progress=bar.advance)
    with progress.bar("packing", total=len(samples), unit="pictures") as bar:
        summary = pack_shards(
            samples,
            out,
            name=name,
            max_samples=max_samples,
            max_bytes=max_bytes,
            seed=seed,
            shuffle=not no_shuffle,
            check="decode" if check == "decode" else "header",
            pictures=Pictures() if max_pixels is None else Pictures(max_pixels=max_pixels),
            overwrite=overwrite,
            progress=bar.advance,
        )
    click.echo(json.dumps(_facts(summary), indent=1) if as_json else str(summary))
    if summary.failed:
        raise SystemExit(1)


def _class_names(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    # Not splitlines, which also splits at signs that a folder's name may hold.
    lines = path.read_bytes().decode(errors="surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in lines if line.strip()]


def _facts(summary: PackSummary) -> dict[str, object]:
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in dataclasses.asdict(summary).items()
    }

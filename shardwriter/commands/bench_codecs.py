"""`wds bench codecs`: formats measured on the user's own pictures."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wds_tools import progress
from wds_tools.contents import printable

if TYPE_CHECKING:
    from shardwriter.bench_codecs import CodecBench, CodecRow

__all__ = ["bench_codecs"]

FAILED_SHOWN = 5

EPILOG = """\b
Examples:
  wds bench codecs pictures/
  wds bench codecs pictures/ --resize 256 --to jpg --to webp
  wds bench codecs pictures/ --to webp --quality 70 --quality 80 --quality 90 --json

Exit status: 0 all measured, 1 some pictures could not be read, 2 used wrongly.
"""


@click.command("bench codecs", epilog=EPILOG)
@click.argument("pictures", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--resize", type=click.IntRange(1, 65_535), metavar="PIXELS", help="Resize the shorter side before.")
@click.option(
    "--to",
    "forms",
    multiple=True,
    type=click.Choice(["jpg", "webp", "avif", "jxl", "png", "npy"]),
    help="A format to try, again for each.  [default: all]",
)
@click.option(
    "--quality", "qualities", multiple=True, type=click.IntRange(1, 100), help="A quality to try, again for each."
)
@click.option(
    "-n", "--count", type=click.IntRange(min=1), default=24, show_default=True, help="The most pictures, evenly chosen."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="How often each step is taken."
)
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
def bench_codecs(
    pictures: tuple[Path, ...],
    *,
    resize: int | None,
    forms: tuple[str, ...],
    qualities: tuple[int, ...],
    count: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Compare picture formats on your own pictures.

    For each format and quality: bytes, error (PSNR against the decoded originals), and how many pictures a second one
    core writes and reads. `decode` is the whole picture as the loaders read it, `crop 224` a random crop, `Pillow` the
    whole picture by Pillow alone. Time is processor time. PICTURES are files, or folders of any depth.
    """
    from shardwriter.bench_codecs import QUALITIES, picture_files
    from shardwriter.bench_codecs import bench_codecs as measure

    files = picture_files(pictures, most=count)
    tried = {
        form: qualities if qualities and QUALITIES[form] != (None,) else QUALITIES[form] for form in forms or QUALITIES
    }
    with progress.bar("measuring", total=len(files), unit="pictures") as bar:
        found = measure(files, qualities=tried, resize=resize, rounds=rounds, advance=bar.advance)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        _print(found)
    if found.failed:
        raise SystemExit(1)


def _print(found: CodecBench) -> None:
    size = f"{found.mean_width:.0f} x {found.mean_height:.0f}"
    click.echo(
        f"{found.pictures:,} pictures, {size} pixels on average, read by {found.backend}, per second of one core\n"
    )
    lines = [
        ("format", "quality", "KB", "bits/pixel", "PSNR dB", "encode/s", "decode/s", "crop 224/s", "Pillow/s"),
        *map(_cells, found.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        name, *figures = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join([name.strip().ljust(widths[0]), *figures]).rstrip())
    for form, why in found.unavailable.items():
        click.echo(f"\nnot tried: {form}: {why}", err=True)
    for path, why in list(found.failed.items())[:FAILED_SHOWN]:
        click.echo(f"cannot be read: {printable(path)}: {printable(why)}", err=True)
    if len(found.failed) > FAILED_SHOWN:
        click.echo(f"... and {len(found.failed) - FAILED_SHOWN:,} more", err=True)


def _cells(row: CodecRow) -> tuple[str, ...]:
    exact = "exact" if row.encode is not None else ""
    return (
        row.form,
        "" if row.quality is None else str(row.quality),
        f"{row.bytes / 1000:,.1f}",
        f"{row.bits_per_pixel:.2f}",
        exact if row.psnr is None else f"{row.psnr:.1f}",
        *("" if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" for rate in _rates(row)),
    )


def _rates(row: CodecRow) -> tuple[float | None, ...]:
    return row.encode, row.decode, row.crop, row.pillow

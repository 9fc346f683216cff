"""`wds demo`: the main job on real pictures, as a list of commands that a user could have typed.

Pictures are made from the photographs that come along (`make_pictures`: training and held-out ones share no pixel),
packed into shards, verified, and streamed into a small model that learns to tell 24 animals apart. Each step is a
command line, shown before it runs, and run through the same table as typed ones: the demo has no abilities of its own,
and what it prints can be pasted.

Everything lands in one folder, `shardstream-demo` unless `--keep` names another, and stays there to be explored: about
110 MB. Running it again empties that folder first, which it knows by the README.txt that it wrote; a folder that holds
anything else is refused.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import get_args

import click

from wds_tools import progress
from wds_tools.cli import root
from wds_tools.commands.options import SEED, Target
from wds_tools.errors import TargetError, counted
from wds_tools.make_pictures import Region, make_pictures

__all__ = ["demo", "demo_pictures"]

FOLDER = "shardstream-demo"
PICTURES = 1200
HELD_OUT_SHARE = 0.4
SCALE = 0.5
"""Half of ImageNet's sides: a third of the work, and room to move the crop in 36 % of a 900-pixel photograph."""
SAMPLES_A_SHARD = 400
"""Several shards of 13 MB, so that there is something to look at; real ones hold 1,000 and more."""
README = "README.txt"
SIGNATURE = "Made by `wds demo`."


EPILOG = """\b
Examples:
  wds demo
  wds demo --keep /tmp/demo --epochs 3

Exit status: 0 done, that of the step that failed else, 2 used wrongly.
"""
PICTURES_EPILOG = """\b
Examples:
  wds demo-pictures /tmp/pictures --count 4000

Exit status: 0 made, 1 the folder cannot be written, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--keep",
    "folder",
    type=Target(path_type=Path),
    default=FOLDER,
    show_default=True,
    metavar="DIR",
    help="Where everything goes and stays.",
)
@click.option("--epochs", type=click.IntRange(min=1), default=6, show_default=True, help="Passes over the pictures.")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="Where the model runs.  [default: cuda if there is one]"
)
@click.option(
    "--pictures",
    type=click.IntRange(min=48),
    default=PICTURES,
    show_default=True,
    help="Training pictures; 40 % as many are held out.",
)
@click.pass_context
def demo(ctx: click.Context, *, folder: Path, epochs: int, device: str | None, pictures: int) -> None:
    """From pictures to shards to a small model that learns.

    Makes pictures of 24 animals, packs them, verifies the shards and trains on them, in about a minute. All of it stays
    in DIR afterwards; remove the folder when you have seen enough. A DIR that an earlier demo left is made anew.
    """
    began = time.monotonic()
    _claim(folder)
    for line in _lines(folder, pictures=pictures, epochs=epochs, device=device):
        click.secho(f"\n$ wds {shlex.join(line)}", bold=True)
        sys.stdout.flush()
        status = root.main(line, prog_name="wds", standalone_mode=False)
        if status:
            ctx.exit(status)
    click.secho(
        f"\nDone in {time.monotonic() - began:.0f} s. Everything is in {folder}; {_activation()}look around:\n",
        bold=True,
    )
    click.echo(_next_lines(folder))


@click.command("demo-pictures", hidden=True, epilog=PICTURES_EPILOG)
@click.argument("folder", type=Target(path_type=Path))
@click.option("--count", type=click.IntRange(min=1), default=PICTURES, show_default=True, help="Pictures in all.")
@click.option(
    "--region",
    type=click.Choice(get_args(Region)),
    default="all",
    show_default=True,
    help="The part of each photograph to crop from; left and right share no pixel.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Another seed gives other pictures.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Of the sides; 1 is like ImageNet.")
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes.  [default: one a CPU]")
def demo_pictures(folder: Path, *, count: int, region: Region, seed: int, scale: float, jobs: int | None) -> None:
    """Make ImageNet-like JPEGs of 24 animals in class folders."""
    with progress.bar("making pictures", total=count, unit="pictures") as bar:
        made = make_pictures(folder, count=count, region=region, seed=seed, scale=scale, jobs=jobs, advance=bar.advance)
    click.echo(
        f"{counted(made.count, 'picture')}, {made.bytes / 1e6:,.1f} MB, {made.bytes / made.count / 1e3:.1f} KB and"
        f" {made.mean_width:.0f}x{made.mean_height:.0f} pixels on average"
    )


def _claim(folder: Path) -> None:
    """Make the folder, or empty the one of an earlier demo."""
    readme = folder / README
    ours = readme.is_file() and readme.read_text(errors="replace").startswith(SIGNATURE)
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise TargetError(
            "the folder holds something that no demo made", url=str(folder), cure="Name a new one with --keep."
        )
    for part in ("pictures", "shards"):
        if (folder / part).exists():
            shutil.rmtree(folder / part)
    folder.mkdir(parents=True, exist_ok=True)
    readme.write_text(f"{SIGNATURE} It may be removed as a whole.\n\nLook around with:\n\n{_next_lines(folder)}\n")


def _lines(folder: Path, *, pictures: int, epochs: int, device: str | None) -> list[list[str]]:
    held_out = round(pictures * HELD_OUT_SHARE)
    splits = (("train", "left", pictures), ("val", "right", held_out))
    made, shards = folder / "pictures", folder / "shards"
    lines = [
        ["demo-pictures", f"{made / name}", "--count", f"{count}", "--region", region, "--scale", f"{SCALE}"]
        for name, region, count in splits
    ]
    lines += [
        ["pack", f"{made / name}", f"{shards / name}", "--name", name, "--max-samples", f"{SAMPLES_A_SHARD}"]
        for name, _, _ in splits
    ]
    lines += [["verify", "--decode", f"{shards / name}"] for name, _, _ in splits]
    train = ["demo-train", f"{shards / 'train'}", f"{shards / 'val'}", "--epochs", f"{epochs}"]
    return [*lines, train if device is None else [*train, "--device", device]]


def _activation() -> str:
    """What to type first where `wds` lies in an environment that is not active, as after `make demo`."""
    activate = Path(sys.executable).parent / "activate"
    return "" if shutil.which("wds") or not activate.exists() else f"after `. {shlex.quote(str(activate))}` "


def _next_lines(folder: Path) -> str:
    train = folder / "shards" / "train"
    # Double quotes inside, so that the shell's single ones can stand around it.
    place = json.dumps(str(train), ensure_ascii=False)
    python = f'import loaders; s = loaders.open({place})[17]; print(s["__key__"], s["jpg"].shape, s["cls"])'
    lines = [
        ["wds", "info", f"{train}"],
        ["wds", "ls", "-n", "5", f"{train}"],
        ["wds", "cat", f"{train}", "#17"],
        ["tar", "tvf", f"{train / 'train-000000.tar'}"],
        ["python", "-c", python],
    ]
    return "\n".join(f"  {shlex.join(line)}" for line in lines)

"""The options of packing itself, whatever is packed, and the run that they describe: for `wds pack` and `wds reshard`.

    @click.command(cls=Sectioned, sections=SECTIONS)
    @packing_options
    @click.pass_context
    def pack(ctx: click.Context, source: str, out: str, *, packing: Packing) -> None:
        packing.check_target(Path(source), out)
        with make_input(source, ...) as samples:
            packing.run(ctx, samples, out, places=("SOURCE", "OUT"))

The decorator takes its options away, those of transcoding among them, and hands over one `packing`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shardwriter.commands.options import ByteSize, PartOf, Share, command_line, summary_json
from shardwriter.commands.transcode import transcode_options
from wds_tools import progress

if TYPE_CHECKING:
    from shardwriter.inputs import Input
    from shardwriter.transcoder import Transcoder
    from wds_tools.sources.options import Remote

__all__ = ["HOSTS", "SECTIONS", "Packing", "packing_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

SECTIONS = {
    "Order and shards": (
        "name", "max_samples", "max_bytes", "seed", "no_shuffle", "split", "part", "parts", "checksum",
    ),
    "What pictures become (unchanged by default)": (
        "to", "resize", "enlarge", "quality", "metadata", "baseline", "background", "icc", "transcode_fields",
        "mask_fields",
    ),
    "What is left out": ("check", "max_pixels", "dedup", "max_failures"),
    "The run": ("jobs", "engine", "address", "overwrite", "as_json"),
}  # fmt: skip
"""Titles to options, for `Sectioned`."""

HOSTS = {"Hosts and stores": ("headers", "storage", "in_flight")}
"""The section of `remote_options`."""

_DECIDES_NOTHING = (
    *("part", "parts", "engine", "address", "max_failures", "jobs", "overwrite", "as_json", "temporary"),
    *HOSTS["Hosts and stores"],
)
"""Beside where shards end: which samples there are, in which order, and what becomes of them."""

_OPTIONS = (
    click.option("--name", default="train", show_default=True, help="What the shards' names begin with."),
    click.option(
        "--max-samples",
        type=click.IntRange(min=1),
        default=10_000,
        show_default=True,
        help="The most samples of a shard.",
    ),
    click.option(
        "--max-bytes",
        type=ByteSize(),
        default="1GB",
        show_default=True,
        help="The most bytes of a shard's file: 500MB, 1GiB.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0, max=(1 << 64) - 1), default=0, show_default=True, help="Of the order."
    ),
    click.option("--no-shuffle", is_flag=True, help="Keep the order of the input. Mixes badly in training."),
    click.option(
        "--split",
        type=Share(),
        multiple=True,
        metavar="NAME=SHARE",
        help="Put this share of the samples into OUT/NAME and the rest into OUT/train (--name): val=0.05. Chosen by a "
        "hash of the key, so that it stays when pictures are added. Again for each.",
    ),
    click.option(
        "--part",
        type=PartOf(),
        metavar="I/N",
        help="Pack only the I-th of N parts, I from 0 on, for array jobs; `wds index --merge` joins them.",
    ),
    click.option(
        "--parts",
        type=click.IntRange(min=1),
        metavar="N",
        help="Pack in N parts, all of them, and join them: what array jobs make. With an engine each part is a task.",
    ),
    click.option(
        "--checksum",
        type=click.Choice(["xxh3", "sha256", "none"]),
        default="xxh3",
        show_default=True,
        help="Of each shard, for the listing.",
    ),
    click.option(
        "--check",
        type=click.Choice(["header", "decode"]),
        default="header",
        show_default=True,
        help="How far each picture is checked: its header and end, or by decoding all of it.",
    ),
    click.option(
        "--max-pixels", type=click.IntRange(min=1), help="Pictures with more are not packed.  [default: 178956970]"
    ),
    click.option(
        "--dedup",
        is_flag=True,
        help="Leave out samples whose pictures came before, byte by byte, whatever their labels.",
    ),
    click.option("--max-failures", type=click.IntRange(min=0), help="End with an error when more samples fail."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        help="Threads that prepare samples, of each part.  [default: all usable cores; with ray 1]",
    ),
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Where parts are packed: here, one after the other, or as tasks of a Ray cluster that is there. Without "
        "--parts one for each 100,000 samples then.",
    ),
    click.option("--address", metavar="ADDRESS", help="Of the Ray cluster: auto, ray://host:10001.  [default: auto]"),
    click.option(
        "--overwrite", is_flag=True, help="Replace the dataset of this name in OUT, or the beginnings of one."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
)
_NAMES = tuple(name for names in SECTIONS.values() for name in names)


@dataclass(frozen=True, kw_only=True)
class Packing:
    """What the options say.

    Attributes:
        transcode: what pictures become; None for unchanged bytes.
        said: the other options by name.
    """

    transcode: Transcoder | None
    said: Mapping[str, Any]

    def check_target(self, source: str | os.PathLike[str] | Input, out: str, *, remote: Remote | None = None) -> None:
        """Find out now whether the target is taken, not after minutes of reading the source."""
        from shardwriter.pack import check_target

        taken = {name: self.said[name] for name in ("name", "part", "parts", "engine", "overwrite")}
        check_target(source, out, split=self._shares(), remote=remote, **taken)

    def run(
        self, ctx: click.Context, samples: Input, out: str, *, places: Sequence[str], remote: Remote | None = None
    ) -> None:
        """Pack, say what came of it, and end with status 1 where some samples could not be packed.

        Args:
            ctx: of the command, for the line that the listing keeps.
            samples: what is packed.
            out: where the shards go.
            places: what the command's arguments are called, in place of the paths themselves.
            remote: how a store is asked that the shards go to.
        """
        from shardwriter.pack import pack
        from wds_tools.pictures.options import Pictures

        said = dict(self.said)
        no_shuffle, checksum, max_pixels = said.pop("no_shuffle"), said.pop("checksum"), said.pop("max_pixels")
        as_json, _ = said.pop("as_json"), said.pop("split")
        with progress.bar("packing", total=_count(len(samples), said["part"]), unit="samples") as bar:
            summary = pack(
                samples,
                out,
                shuffle=not no_shuffle,
                split=self._shares(),
                checksum=None if checksum == "none" else checksum,
                pictures=Pictures() if max_pixels is None else Pictures(max_pixels=max_pixels),
                transcode=self.transcode,
                progress=bar.advance,
                resumed=bar.skip,
                told=bar.note,
                remote=remote,
                command=command_line(ctx, places=places, without=_DECIDES_NOTHING),
                **said,
            )
        click.echo(summary_json(summary) if as_json else str(summary))
        if summary.failed:
            raise SystemExit(1)

    def _shares(self) -> dict[str, float]:
        split: tuple[tuple[str, float], ...] = self.said["split"]
        if len(dict(split)) < len(split):
            raise click.UsageError("--split names a dataset twice.")
        return dict(split)


def packing_options(command: Command) -> Command:
    """Give a command these options; it gets `packing`, a `Packing`, in their place."""

    @functools.wraps(command)
    def call(*arguments: Any, transcode: Transcoder | None, **given: Any) -> Any:
        said = {name: given.pop(name) for name in _NAMES if name in given}
        return command(*arguments, packing=Packing(transcode=transcode, said=said), **given)

    made: Any = transcode_options(call)
    for add in reversed(_OPTIONS):
        made = add(made)
    return made  # type: ignore[no-any-return]  # click's decorators hand the function back


def _count(samples: int, part: tuple[int, int] | None) -> int:
    """How many samples there are to pack: with splits and parts to within the number of splits."""
    number, parts = part or (0, 1)
    return samples * (number + 1) // parts - samples * number // parts

"""`wds view`: a dataset to look at: a contact sheet, a page, or a server on loopback."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from loaders.random_access import OpenDataset
from loaders.random_access import open as open_samples
from loaders.view.choice import chosen, label_field, numbers_of_label
from loaders.view.facts import Facts, facts_of
from loaders.view.viewer import Seen, Viewer
from wds_tools import progress
from wds_tools.atomic import write_atomic
from wds_tools.commands import options
from wds_tools.commands.labels import read_shown
from wds_tools.commands.remote import remote_options
from wds_tools.contents import printable
from wds_tools.errors import public
from wds_tools.sources.options import Remote

__all__ = ["view"]

LOOKED_AT = 256
"""Samples that the facts of a page are about, where no more are shown: half a second of JPEGs on two cores."""
BROKEN_TOLD = 10
DEFAULT_SHEET = Path("wds-view.png")

EPILOG = """\b
Examples:
  wds view data/train                                   a contact sheet, wds-view.png
  wds view data/train --html train.html --count 200     one page that holds everything
  wds view data/train --class owl --seed 1 --out owls.png
  wds view --live https://data.example.org/train/dataset.json

Exit status: 0 all samples looked at are sound, 1 some are broken (the page says which), 2 used wrongly.
"""


@click.command("view", epilog=EPILOG)
@options.urls
@click.option("--out", type=options.Target(dir_okay=False, path_type=Path), help="Draw a contact sheet to this PNG.")
@click.option("--html", type=options.Target(dir_okay=False, path_type=Path), help="Write one self-contained page.")
@click.option("--live", is_flag=True, help="Serve pages of all samples until Ctrl-C, with search and classes.")
@click.option("-n", "--count", type=click.IntRange(1, 10_000), default=48, show_default=True, help="Samples shown.")
@click.option("--seed", type=options.SEED, default=0, show_default=True, help="Which samples are shown.")
@click.option("--class", "label", metavar="NAME", help="Only samples of this class, by its name or number.")
@click.option("--labels", metavar="FIELD", help="The field with the class: read once, then kept.  [default: cls]")
@click.option("--side", type=click.IntRange(16, 2048), default=192, show_default=True, help="Pixels of a thumbnail.")
@click.option("--columns", type=click.IntRange(1, 200), help="Thumbnails in a row of the sheet.  [default: what fits]")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="For --live to listen at.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port for --live.  [default: a free one]")
@remote_options
@options.as_json
@click.pass_context
def view(
    ctx: click.Context,
    urls: tuple[str, ...],
    *,
    out: Path | None,
    html: Path | None,
    live: bool,
    count: int,
    seed: int,
    label: str | None,
    labels: str | None,
    side: int,
    columns: int | None,
    host: str,
    port: int,
    remote: Remote | None,
    as_json: bool,
) -> None:
    """Look at the pictures and other fields of a dataset.

    Draws a contact sheet, writes a page with --html, or serves pages with --live. Samples are spread evenly over the
    dataset; another --seed shows others. What does not decode is shown with its error.
    """
    if live and (out or html or as_json):
        raise click.UsageError("--live serves pages; it goes with none of --out, --html and --json.")
    with open_samples(list(urls), remote=remote) as opened:
        viewer = Viewer(opened, labels=labels.lower() if labels else label_field(opened.dataset))
        if live:
            _serve(viewer, _name(urls), asked=labels is not None, host=host, port=port)
            return
        if label is not None or labels is not None:
            read_shown(opened.dataset, viewer.labels)  # with a bar; kept, and so at hand below
        numbers = _numbers(opened, viewer.labels, label, count, seed)
        shown, facts = _look(viewer, numbers, seed, name=_name(urls), side=side, count_classes=labels is not None)
    written = _write(facts, shown, out=out, html=html, side=side, columns=columns)
    if as_json:
        options.echo_json(_json(facts, shown, written))
    else:
        _tell(facts, written)
    ctx.exit(1 if facts.broken else 0)


def _numbers(opened: OpenDataset, field: str, label: str | None, count: int, seed: int) -> list[int]:
    if label is None:
        return chosen(len(opened), count, seed)
    of_class = numbers_of_label(opened.dataset, field, label)
    return [int(of_class[at]) for at in chosen(len(of_class), count, seed)]


def _look(
    viewer: Viewer, numbers: Sequence[int], seed: int, *, name: str, side: int, count_classes: bool
) -> tuple[list[Seen], Facts]:
    """The samples to be shown, and the facts, which are about some more of the whole dataset."""
    others = (
        sorted(set(chosen(len(viewer.dataset), LOOKED_AT, seed)) - set(numbers)) if len(numbers) < LOOKED_AT else []
    )
    with progress.bar("looking", total=len(numbers) + len(others), unit="samples") as bar:
        seen = list(viewer.see_all([*numbers, *others], side=side, advance=bar.advance))
    shown = seen[: len(numbers)]
    ordered = sorted(seen, key=lambda each: each.number)
    return shown, facts_of(viewer, ordered, name=name, count_classes=count_classes)


def _write(
    facts: Facts, shown: Sequence[Seen], *, out: Path | None, html: Path | None, side: int, columns: int | None
) -> list[Path]:
    written = []
    if out is not None or html is None:
        from loaders.view.sheet import sheet

        out = out or DEFAULT_SHEET
        write_atomic(out, [sheet(facts.name, shown, side=side, columns=columns)], durable=False)
        written.append(out)
    if html is not None:
        from loaders.view.page import page

        write_atomic(html, [page(facts, shown).encode()], durable=False)
        written.append(html)
    return written


def _json(facts: Facts, shown: Sequence[Seen], written: Sequence[Path]) -> dict[str, Any]:
    return {
        "name": facts.name,
        "samples": facts.samples,
        "shards": len(facts.shards),
        "bytes": facts.bytes,
        "classes": dict(facts.histogram.counts) if facts.histogram is not None else None,
        "classes_of_all": facts.histogram is not None and facts.histogram.whole,
        "looked_at": len(facts.seen),
        "fields": {each.name: {"kind": each.kind, "samples": each.samples} for each in facts.fields},
        "broken": [
            {"number": seen.number, "key": seen.key, "url": seen.url, "field": name or None, "problem": problem}
            for seen in facts.broken
            for name, problem in seen.faults
        ],
        "shown": [{"number": seen.number, "key": seen.key, "label": seen.label or None} for seen in shown],
        "written": [str(path) for path in written],
    }


def _tell(facts: Facts, written: Sequence[Path]) -> None:
    for seen in facts.broken[:BROKEN_TOLD]:
        for name, problem in seen.faults:
            field = f", field {printable(name)}" if name else ""
            place = f"sample {seen.number} of {printable(seen.url)}, key {printable(seen.key)}{field}"
            click.echo(f"broken: {place}: {printable(problem)}")
    if len(facts.broken) > BROKEN_TOLD:
        click.echo(f"... and {len(facts.broken) - BROKEN_TOLD:,} more are broken; --html and --json name all")
    samples, shards = options.counted(facts.samples, "sample"), options.counted(len(facts.shards), "shard")
    verdict = f"{len(facts.broken):,} broken" if facts.broken else "all sound"
    click.echo(f"{samples} in {shards}, {options.size(facts.bytes)}; {len(facts.seen):,} looked at: {verdict}")
    for path in written:
        click.echo(f"written to {printable(str(path))}")


def _name(urls: tuple[str, ...]) -> str:
    first = public(urls[0]).rstrip("/").removesuffix("/dataset.json")
    return first.rpartition("/")[2] + (f" and {len(urls) - 1} more" if len(urls) > 1 else "")


def _serve(viewer: Viewer, name: str, *, asked: bool, host: str, port: int) -> None:
    from loaders.view.live import Live
    from wds_tools.serve import WebServer

    with Live(viewer, name, asked=asked) as live:
        server = WebServer(host=host, port=port, respond=live.respond).open()
        try:
            if not server.loopback:
                click.echo(
                    f"warning: whoever reaches {host}, port {server.port}, can look at all of it: there is no "
                    "password, and nothing is encrypted",
                    err=True,
                )
            samples = options.counted(len(viewer.dataset), "sample")
            click.echo(f"showing {samples} of {printable(name)}; Ctrl-C ends it", err=True)
            click.echo(server.url)  # last, so that a script which has read it need not wait for more
            threading.Event().wait()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
        finally:
            server.close()

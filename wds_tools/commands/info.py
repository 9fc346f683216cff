"""`wds info`: what a dataset holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import click

from wds_tools.commands import options
from wds_tools.contents import printable
from wds_tools.describe import Description, FieldFacts, describe

__all__ = ["info"]

CLASSES_SHOWN = 10
ORDER = {
    True: "shuffled when packed",
    False: "not shuffled when packed: neighbours are alike, and mixing is up to the loader",
    None: "unknown (no listing says)",
}

EPILOG = """\b
Examples:
  wds info shardstream-demo/shards/train
  wds info --json 'data/train-*.tar' | jq .samples
"""


@click.command(epilog=EPILOG)
@options.urls
@options.as_json
def info(urls: tuple[str, ...], *, as_json: bool) -> None:
    """Say what a dataset holds.

    Shards, samples, bytes, classes and order of the whole; fields and pictures as found in up to 256 samples of four
    shards.
    """
    found = describe(urls)
    if as_json:
        options.echo_json(dataclasses.asdict(found))
        return
    for name, text in _lines(found):
        click.echo(f"{name:<8}  {text}")


def _lines(found: Description) -> Iterator[tuple[str, str]]:
    spread = f"{found.smallest:,}" if found.smallest == found.largest else f"{found.smallest:,} to {found.largest:,}"
    if found.name:
        yield "name", printable(found.name)
    yield "shards", f"{found.shards:,}, samples in each: {spread}, {options.size(found.bytes)}"
    yield "samples", f"{found.samples:,}"
    for at, (name, facts) in enumerate(found.fields.items()):
        yield "" if at else "fields", _field(name, facts, found)
    if found.classes is not None:
        shown = ", ".join(map(printable, found.classes[:CLASSES_SHOWN]))
        yield "classes", f"{len(found.classes):,}: {shown}{', ...' if len(found.classes) > CLASSES_SHOWN else ''}"
    yield "order", ORDER[found.shuffled]
    yield "index", printable(found.index)
    for shard, notes in found.notes.items():
        yield "note", f"{printable(shard)}: {'; '.join(notes)}"


def _field(name: str, facts: FieldFacts, found: Description) -> str:
    count = found.field_counts.get(name)
    of = f"{facts.samples} of {found.looked_at} looked at" if count is None else options.counted(count, "sample")
    text = f"{printable(name)}: {facts.kind}, {of}, {options.size(facts.mean_bytes)} on average"
    formats = facts.pictures.get("formats")
    if isinstance(formats, dict):
        text += ", " + ", ".join(f"{count} {kind}" for kind, count in formats.items())
    if "mean_width" in facts.pictures:
        text += f", {facts.pictures['mean_width']}x{facts.pictures['mean_height']} on average"
    return text

"""`wds info`: what a dataset holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence

import click

from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import printable
from wds_tools.describe import Description, FieldFacts, describe
from wds_tools.sources.options import Remote

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

Exit status: 0 done, 1 a shard or listing cannot be read, 2 used wrongly.
"""


@click.command(epilog=EPILOG)
@options.urls
@remote_options
@options.as_json
@options.notes_are_shown()
def info(urls: tuple[str, ...], *, remote: Remote | None, as_json: bool) -> None:
    """Say what a dataset holds.

    Shards, samples, bytes, classes and order of the whole, and what its listing has counted: labels, sizes of pictures,
    failures. What no listing knows is as found in up to 256 samples of four shards.
    """
    found = describe(urls, remote=remote)
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
    fields = [_field(name, facts, found) for name, facts in found.fields.items()]
    fields += [
        f"{printable(name)}: {options.counted(count, 'sample')}, not among the {found.looked_at:,} looked at"
        for name, count in found.field_counts.items()
        if name not in found.fields
    ]
    for at, text in enumerate(fields):
        yield "" if at else "fields", text
    if found.classes is not None:
        yield "classes", _classes(found.classes, set(found.absent_classes))
    for name, counts in found.labels.items():
        if counts:
            yield "labels", _labels(name, counts)
    seed = f", seed {found.seed}" if found.shuffled and found.seed is not None else ""
    yield "order", ORDER[found.shuffled] + seed
    yield "index", printable(found.index)
    if found.checksum:
        yield "checksum", f"{found.checksum} of each shard; `wds verify` compares them"
    if found.failed:
        yield "left out", ", ".join(f"{count:,} {printable(kind)}" for kind, count in found.failed.items())
    if found.command:
        yield "made by", printable(found.command)
    for shard, notes in found.notes.items():
        yield "note", f"{printable(shard)}: {'; '.join(notes)}"


def _classes(names: Sequence[str], absent: Container[str]) -> str:
    there = [name for name in names if name not in absent]
    of = f" of {len(names):,} that have a name" if len(there) < len(names) else ""
    shown = ", ".join(map(printable, there[:CLASSES_SHOWN]))
    return f"{len(there):,}{of}: {shown}{', ...' if len(there) > CLASSES_SHOWN else ''}"


def _field(name: str, facts: FieldFacts, found: Description) -> str:
    count = found.field_counts.get(name)
    of = f"{facts.samples} of {found.looked_at} looked at" if count is None else options.counted(count, "sample")
    text = f"{printable(name)}: {facts.kind}, {of}, {options.size(facts.mean_bytes)} on average"
    sizes = found.pictures.get(name, {})
    formats = sizes.get("formats") or facts.pictures.get("formats")
    if isinstance(formats, dict):
        looked = "" if sizes.get("formats") or count in {None, facts.samples} else f"of {facts.samples:,} looked at "
        text += f", {looked}" + ", ".join(f"{count} {kind}" for kind, count in formats.items())
    if {"width", "height"} <= set(sizes):
        text += f", {_spread(sizes['width'])} wide, {_spread(sizes['height'])} high"
    elif "mean_width" in facts.pictures:
        text += f", {facts.pictures['mean_width']}x{facts.pictures['mean_height']} on average"
    return text


def _spread(sizes: Mapping[str, int]) -> str:
    smallest, median, largest = (sizes.get(name, 0) for name in ("min", "median", "max"))
    return f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,} (median {median:,})"


def _labels(name: str, counts: Mapping[str, int]) -> str:
    """How even the classes are: the rarest and the most frequent."""
    rare = min(counts, key=lambda label: (counts[label], label))
    frequent = max(counts, key=lambda label: (counts[label], label))
    spread = f"{counts[rare]:,} samples each"
    if counts[rare] != counts[frequent]:
        spread = f"from {counts[rare]:,} samples (label {rare}) to {counts[frequent]:,} (label {frequent})"
    return f"{printable(name)}: {options.counted(len(counts), 'different one', 'different ones')}, {spread}"

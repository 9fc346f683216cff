"""`wds cat`: one field's bytes, or one sample to look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from wds_tools import addresses
from wds_tools.commands import options
from wds_tools.commands.remote import remote_options
from wds_tools.contents import find, printable, read_range
from wds_tools.dataset import open_dataset
from wds_tools.errors import MissingFieldError, ShardstreamError, UsageError, public, there_are
from wds_tools.index.cache import IndexCache
from wds_tools.index.fetched import Files
from wds_tools.index.listing import LISTING_NAME
from wds_tools.sample import KEY, SPECIAL, URL, BytesLike, RawSample
from wds_tools.sources.options import Remote
from wds_tools.streamed import open_pass
from wds_tools.urls import expand

__all__ = ["cat"]

SHOWN = 300
"""Characters of a value; a caption fits, a page does not."""

EPILOG = """\b
Examples:
  wds cat data/train n01440764/00001
  wds cat data/train '#17' jpg > picture.jpg
  wds cat data/train n01440764/00001 json | jq .
  wds cat data/train '#17' --json | jq .fields.jpg.bytes

Exit status: 0 written, 1 the sample lacks the field or cannot be read, 2 used wrongly or no such sample.
"""


@click.command(epilog=EPILOG)
@click.argument("urls", nargs=1)
@click.argument("key")
@click.argument("field", required=False)
@remote_options
@options.as_json
def cat(urls: str, key: str, field: str | None, *, remote: Remote | None, as_json: bool) -> None:
    """Write out one field, or show one sample.

    With FIELD, its bytes go to stdout as they lie in the shard. Without, every field is shown in a line, decoded. KEY
    is a sample's key, or #17 for the sample with that number, counted from 0, which an index finds at once.
    """
    if as_json and field is not None:
        raise click.UsageError("--json shows a sample; the bytes of a FIELD go out as they are.")
    sample = _numbered(urls, key, remote) if key.startswith("#") else _keyed(urls, key, remote)
    if as_json:
        options.echo_json(_facts(sample, remote))
        return
    if field is None:
        for line in _shown(sample, remote):
            click.echo(line)
        return
    name = field.lower()
    if name not in sample or name in SPECIAL:
        cure = there_are(printable(each) for each in sample if each not in SPECIAL)
        raise MissingFieldError(
            "the sample has no such field", url=sample[URL], key=sample[KEY], field=field, cure=cure
        )
    out = sys.stdout.buffer
    out.write(sample[name])
    out.flush()


def _numbered(urls: str, text: str, remote: Remote | None) -> RawSample:
    if not text[1:].isdecimal():
        raise UsageError(f"{text!r} is no number of a sample", cure="The first one is #0; a key has no # in front.")
    number, dataset = int(text[1:]), open_dataset(urls, remote=remote)
    if number >= len(dataset):
        raise UsageError(f"there is no sample {text}", cure=f"The last one is #{len(dataset) - 1}.")
    shard, begin, end = (int(each[0]) for each in dataset.locate([number]))
    with dataset.open_shard(shard) as source:
        return read_range(source, begin, end)


def _keyed(urls: str, key: str, remote: Remote | None) -> RawSample:
    shards = [addresses.absolute(shard) for shard in expand(urls, remote=remote)]  # as an index names them
    for shard in shards:
        with open_pass(shard, remote=remote) as source:
            sample = find(source, key)
        if sample is not None:
            return sample
    cure = "`wds ls` lists the keys; #17 finds by number."
    if "." in key.rpartition("/")[2]:
        cure += " No key has a dot behind its folders: `wds pack` drops the extension and puts _ for other dots."
    raise UsageError(f"no sample of {options.counted(len(shards), 'shard')} has the key {key!r}", cure=cure)


def _facts(sample: RawSample, remote: Remote | None) -> dict[str, object]:
    from wds_tools import codec

    fields = {
        name: {"kind": codec.kind_of(name), "bytes": len(data), "value": _value(name, data, sample[URL], remote)}
        for name, data in sample.items()
        if name not in SPECIAL
    }
    return {"key": sample[KEY], "url": public(sample[URL]), "fields": fields}


def _shown(sample: RawSample, remote: Remote | None) -> Iterator[str]:
    names = [name for name in sample if name not in SPECIAL]
    width = max(map(len, [*map(printable, names), "shard"]))
    yield f"{'key':<{width}}  {printable(sample[KEY])}"
    yield f"{'shard':<{width}}  {printable(public(sample[URL]))}"
    for name in names:
        size = options.size(len(sample[name]))
        yield f"{printable(name):<{width}}  {size:>10}  {_value(name, sample[name], sample[URL], remote)}"


def _value(name: str, data: BytesLike, shard: str, remote: Remote | None) -> str:
    from wds_tools import codec

    kind = codec.kind_of(name)
    try:
        if kind == "picture":
            return _picture(data)
        if kind in {"bytes", "pickle"}:
            return _short(repr(bytes(data[:SHOWN])))
        value = codec.decode_field(name, data)
    except ShardstreamError as error:
        return f"cannot be read: {printable(error.problem)}"
    if kind == "int":
        return _with_class(int(str(value)), shard, remote)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return f"{dtype} {tuple(shape)}" if shape and dtype is not None else _short(repr(value))


def _picture(data: BytesLike) -> str:
    from wds_tools.pictures.facts import read_facts

    facts = read_facts(data)
    turned = "" if facts.orientation == 1 else f", EXIF orientation {facts.orientation}"
    passes = ", progressive" if facts.progressive else ""
    return f"{facts.format} {facts.width}x{facts.height} {facts.mode}{passes}{turned}"


def _with_class(label: int, shard: str, remote: Remote | None) -> str:
    """The label, with its class's name where the listing beside the shard has one."""
    try:
        listing = Files(IndexCache(None), remote).listing(addresses.join(shard, LISTING_NAME))
        names = listing.facts.get("classes")
    except ShardstreamError:
        return str(label)
    if not isinstance(names, list) or not 0 <= label < len(names):
        return str(label)
    return f"{label} ({printable(str(names[label]))})"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ... ({len(text):,} characters)"

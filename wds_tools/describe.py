"""What a dataset holds, from its index and a bounded look: what `wds info` shows.

Shards, samples and bytes are those of the whole dataset. For the fields a few shards (first, last, and between) are
opened and some of their samples read, so a dataset of 20,000 shards is described as fast as one of ten; where the
listing counts the fields itself, its counts are given instead. Notes are about the shards that were looked at.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wds_tools import addresses, codec
from wds_tools.contents import read_range
from wds_tools.dataset import Dataset, open_dataset
from wds_tools.errors import DataError, ShardstreamError, UnavailableError, public
from wds_tools.index.cache import IndexCache, default_cache_dir
from wds_tools.index.fetched import Files
from wds_tools.index.listing import LISTING_NAME
from wds_tools.index.sidecars import dali_path, energon_path
from wds_tools.pictures.facts import read_facts
from wds_tools.sample import SPECIAL, RawSample
from wds_tools.shard import scan
from wds_tools.sources.base import Source
from wds_tools.sources.options import Remote
from wds_tools.tally import absent_classes
from wds_tools.urls import Urls, places

__all__ = ["Description", "FieldFacts", "describe"]

SHARDS_LOOKED_AT = 4
SAMPLES_A_SHARD = 64


@dataclass(frozen=True, kw_only=True)
class FieldFacts:
    """One field, in the samples looked at.

    Attributes:
        kind: how it is decoded ("picture", "int", ...).
        samples: how many of the samples looked at have it.
        mean_bytes: of those.
        pictures: formats with how often they came, and the mean width and height of the pictures; empty otherwise.
    """

    kind: str
    samples: int
    mean_bytes: float
    pictures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Description:
    """What there is.

    Attributes:
        shards: how many.
        samples: in all of them.
        bytes: of their files.
        smallest, largest: samples of the smallest and the largest shard.
        index: where the samples' places are known from.
        name: of the dataset, as its listing says.
        classes: names by label; None where the listing does not know.
        absent_classes: those of which there is no sample, where the listing has counted labels; else empty.
        shuffled: whether the samples lie in shuffled order; None where the listing does not know.
        field_counts: samples with each field in the whole dataset, where the listing has counted; else empty.
        labels: by field, and by label as text, how many samples have it; where the listing has counted, else empty.
        pictures: by field the formats, and smallest, median and largest width, height and bytes; likewise.
        failed: kind to count of what could not be packed, as the listing says.
        checksum: the kind of the shards' checksums; None where the listing has none.
        command: what made it, as the listing says.
        seed: of the order in the shards, as the listing says.
        looked_at: samples that `fields` is about.
        fields: what the samples looked at hold.
        notes: what else was seen, by shard.
    """

    shards: int
    samples: int
    bytes: int
    smallest: int
    largest: int
    index: str
    name: str | None
    classes: Sequence[str] | None
    absent_classes: Sequence[str]
    shuffled: bool | None
    field_counts: Mapping[str, int]
    labels: Mapping[str, Mapping[str, int]]
    pictures: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, int]
    checksum: str | None
    command: str | None
    seed: int | None
    looked_at: int
    fields: Mapping[str, FieldFacts]
    notes: Mapping[str, Sequence[str]]


def describe(urls: Urls, *, remote: Remote | None = None) -> Description:
    """Look at the dataset that `urls` mean.

    Args:
        urls: shards, patterns, folders, listings.
        remote: how remote hosts are asked; the defaults where None.

    Raises:
        ShardstreamError: as `dataset.open_dataset`. A host that does not answer any more is a note: what the listing
            says stands.
    """
    index = _index_of(urls, remote)  # before opening, which may write to the cache
    dataset = open_dataset(urls, remote=remote)
    samples: list[RawSample] = []
    notes: dict[str, Sequence[str]] = {}
    for shard in _chosen(len(dataset.urls)):
        with dataset.open_shard(shard) as source:
            if not addresses.is_remote(source.url) and (warnings := _warnings(source)):
                notes[source.url] = warnings
            try:
                samples += _read_some(dataset, shard, source)
            except (
                UnavailableError
            ) as error:  # after all retries: the next sample would take as long, and the next shard
                notes[source.url] = [f"not looked at: {error.problem}"]
                break
    said = dataset.listing
    labels = {name: _object(counts) for name, counts in _object(said.get("labels")).items()}
    return Description(
        shards=len(dataset.urls),
        samples=len(dataset),
        bytes=int(dataset.sizes.sum()),
        smallest=int(dataset.counts.min()),
        largest=int(dataset.counts.max()),
        index=index,
        name=said.get("name"),
        classes=dataset.classes,
        absent_classes=absent_classes(dataset.classes or (), labels),
        shuffled=dataset.shuffled,
        field_counts=_object(said.get("fields")),
        labels=labels,
        pictures={name: _object(sizes) for name, sizes in _object(said.get("pictures")).items()},
        failed=_object(said.get("failed")),
        checksum=_checksum(dataset.place, remote),
        command=command if isinstance(command := said.get("command"), str) else None,
        seed=seed if isinstance(seed := said.get("seed"), int) else None,
        looked_at=len(samples),
        fields=_fields(samples),
        notes=notes,
    )


def _object(value: Any) -> dict[str, Any]:
    """What a listing says, where it is an object; listings are also written by others."""
    return value if isinstance(value, dict) else {}


def _checksum(listing: str | None, remote: Remote | None) -> str | None:
    """The kind that the listing's first shard has, which all of a listing have."""
    if listing is None:
        return None
    first = Files(IndexCache(default_cache_dir()), remote).listing(listing).checksums[0]  # as opening has kept it
    return None if first is None else first.partition(":")[0]


def _index_of(urls: Urls, remote: Remote | None) -> str:
    kinds = set()
    for place in places(urls, remote=remote):
        if addresses.is_remote(place.url):
            kinds.add(f"the listing {public(place.url)}" if place.listing else "what lies beside the remote shards")
            continue
        beside = Path(place.url).parent / LISTING_NAME
        if place.listing or beside.is_file():
            kinds.add(f"the listing {place.url if place.listing else beside}")
        elif os.path.exists(energon_path(place.url)):  # noqa: PTH110
            kinds.add("Energon's .tar.idx files")
        elif os.path.exists(dali_path(place.url)):  # noqa: PTH110
            kinds.add("DALI's .idx files")
        else:
            kinds.add("a scan, kept in the cache directory (`wds index` keeps it beside the shards)")
    return ", ".join(sorted(kinds))


def _chosen(shards: int) -> list[int]:
    steps = SHARDS_LOOKED_AT - 1
    return sorted({round(step * (shards - 1) / steps) for step in range(SHARDS_LOOKED_AT)})


def _warnings(source: Source) -> list[str]:
    try:
        return scan(source).notes.warnings()
    except ShardstreamError as error:
        return [f"damaged: {error.problem}"]


def _read_some(dataset: Dataset, shard: int, source: Source) -> Iterable[RawSample]:
    """Evenly spread samples of one shard; damage is left to `wds verify`."""
    count = int(dataset.counts[shard])
    some = min(count, SAMPLES_A_SHARD)
    ids = [int(dataset.starts[shard]) + step * count // some for step in range(some)]
    _, begins, ends = dataset.locate(ids)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        try:
            yield read_range(source, begin, end)
        except DataError:
            continue


def _fields(samples: Sequence[RawSample]) -> dict[str, FieldFacts]:
    names = dict.fromkeys(itertools.chain.from_iterable(samples))
    return {
        name: _field(name, [sample[name] for sample in samples if name in sample])
        for name in names
        if name not in SPECIAL
    }


def _field(name: str, values: Sequence[bytes]) -> FieldFacts:
    kind = codec.kind_of(name)
    return FieldFacts(
        kind=kind,
        samples=len(values),
        mean_bytes=sum(map(len, values)) / len(values),
        pictures=_pictures(values) if kind == "picture" else {},
    )


def _pictures(values: Sequence[bytes]) -> dict[str, object]:
    formats: Counter[str] = Counter()
    sizes = []
    for value in values:
        try:
            facts = read_facts(value)
        except ShardstreamError:
            formats["unreadable"] += 1
        else:
            formats[facts.format] += 1
            sizes.append((facts.width, facts.height))
    means = [round(sum(side) / len(sizes)) for side in zip(*sizes, strict=True)]
    return {"formats": dict(formats)} | ({"mean_width": means[0], "mean_height": means[1]} if means else {})

"""The label of every sample of a dataset: read once from the shards, then kept beside the index.

What is read is one small field, `cls` as a rule. The headers of each shard are walked in order and the data of all
other fields jumped over, several shards at a time; the values are kept as one code a sample (4 bytes, mapped, so that
all processes of a machine share the pages) in `index/` of the user's cache directory, under a name made of each shard's
url, size, modification time and number of samples and of where they lie. Shards that were written again are read again.

A sample whose label is missing or does not decode gets the code -1: whether it is an error is for who reads it to say.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from wds_tools import addresses, codec
from wds_tools.atomic import write_atomic
from wds_tools.dataset import Dataset
from wds_tools.errors import DataError, SampleError, ShardstreamError, UsageError, counted, shown
from wds_tools.index.cache import default_cache_dir
from wds_tools.names import is_litter, is_metadata, near_field, split_name
from wds_tools.shard import link_targets, parse_sample, scan
from wds_tools.sources.base import Source
from wds_tools.sources.pool import map_in_order
from wds_tools.streamed import open_pass
from wds_tools.tar import runs
from wds_tools.tar.feed import SourceFeed
from wds_tools.tar.headers import BLOCK
from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.walk import Member, Walk

__all__ = ["Label", "Labels", "read_labels"]

Label: TypeAlias = int | str
Codes = npt.NDArray[np.int32]

_log = logging.getLogger(__name__)
_MAGIC = b"shardstream-labels-1\n"
_LONGEST = 1024  # bytes; what is longer is a text and no label


class Labels(NamedTuple):
    """The labels of a dataset.

    Attributes:
        codes: int32 (N,), read-only: the place of each sample's label in `values`, -1 where it has none.
        values: the labels that occur, sorted, numbers before words.
    """

    codes: Codes
    values: tuple[Label, ...]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Samples of each value, int64 (C,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values)).astype(np.int64)

    @property
    def digest(self) -> str:
        """16 hex digits over codes and values."""
        head = json.dumps(self.values).encode()
        return hashlib.blake2b(np.ascontiguousarray(self.codes, "<i4").data, digest_size=8, key=_hash(head)).hexdigest()


def read_labels(
    dataset: Dataset,
    field: str = "cls",
    *,
    cache_dir: Path | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Labels:
    """The labels of all samples, kept from an earlier time or read now.

    Args:
        dataset: the samples.
        field: a field that holds a number or a word.
        cache_dir: where labels are kept (in `index/`); the user's cache directory by default.
        advance: called with the number of samples of each shard that was read, from any thread. What it raises ends
            the reading.

    Raises:
        UsageError: a field of another kind, or one that no sample has.
        ShardError: a shard that is damaged. UnavailableError: one that cannot be read.
    """
    field = field.lower()
    if codec.kind_of(field) not in ("int", "text"):
        _refuse_unknown(dataset, field)
        raise UsageError(
            f"the field {field!r} holds {codec.kind_of(field)}, expected a number or a word for each sample",
            cure='Name the field with the class, such as "cls".',
        )
    root = default_cache_dir() if cache_dir is None else cache_dir
    path = None if root is None else root / "index" / f"labels-{_key(dataset, field)}.bin"
    kept = None if path is None else _load(path, len(dataset))
    if kept is not None:
        return kept
    _log.info("reading the field %s of %s", field, counted(len(dataset), "sample"))

    def read(shard: int) -> Labels:
        found = _of_shard(dataset, shard, field)
        advance(len(found.codes))
        return found

    labels = _joined(map_in_order(read, range(len(dataset.urls))))
    if len(dataset) and not labels.values:
        _refuse_unknown(dataset, field)
        raise UsageError(
            f"no sample has a label in the field {field!r}",
            url=dataset.urls[0],
            cure="`wds ls` shows which fields the samples have.",
        )
    if path is not None and _save(path, labels):
        return _load(path, len(dataset)) or labels
    return labels


def _refuse_unknown(dataset: Dataset, field: str) -> None:
    """Raise where no sample has the field, as far as the listing's counts or the first shard with samples tell."""
    counts = dataset.listing.get("fields")
    there = set(map(str, counts)) if isinstance(counts, dict) else _fields_of_a_shard(dataset)
    if not there or field in there:
        return
    near = difflib.get_close_matches(field, sorted(there), n=1) or [each for each in [near_field(field, there)] if each]
    raise UsageError(
        f"no sample has a field {shown(field)}; there are {', '.join(map(shown, sorted(there)))}",
        url=dataset.urls[0],
        cure=f"Did you mean {shown(near[0])}?" if near else 'Name the field with the class, "cls" as a rule.',
    )


def _fields_of_a_shard(dataset: Dataset) -> set[str]:
    filled = np.flatnonzero(dataset.counts)
    if not filled.size:
        return set()
    with _opened(dataset, int(filled[0])) as source:
        return set(scan(source).fields)


def _opened(dataset: Dataset, shard: int) -> Source:
    """A shard to be walked through: a remote one comes in one pass, and not by a request for each label."""
    source = open_pass(dataset.urls[shard], remote=dataset.remote)
    try:
        dataset.check_shard(shard, source)
    except BaseException:
        source.close()
        raise
    return source


def _of_shard(dataset: Dataset, shard: int, field: str) -> Labels:
    """The labels of one shard, its own codes."""
    begin = int(dataset.starts[shard]) + shard
    firsts = dataset.offsets[begin : begin + int(dataset.counts[shard])].astype(np.int64)
    codes = np.full(len(firsts), -1, dtype=np.int32)
    known: dict[bytes, int] = {}
    values: dict[Label, int] = {}
    if len(firsts):
        with _opened(dataset, shard) as source:
            begins = firsts.tolist()
            for header, data in _field_data(source, field):
                sample = bisect_right(begins, header) - 1
                if data is None:
                    data = _linked(source, dataset.locate([dataset.starts[shard] + sample]), field)  # noqa: PLW2901
                if data not in known:
                    value = _decoded(field, data)
                    known[data] = -1 if value is None else values.setdefault(value, len(values))
                codes[sample] = known[data]
    return Labels(codes, tuple(values))


def _field_data(source: Source, field: str) -> Iterator[tuple[int, bytes | None]]:
    """Where each member with the field begins, and its content; None for a link."""
    steps = Walk(SourceFeed(source, skim=True), ShardNotes())
    while True:
        begin = steps.position
        window = steps.feed.fill(begin, BLOCK)
        found = runs.plain_members(window, 0, len(window))
        if not found:
            member = steps.next()
            if member is None:
                return
            yield from _unusual(source, member, field)
            continue
        steps.position = begin + (found[-1][4] + BLOCK - 1 & -BLOCK)
        for _, name, header, data, stop in found:
            if name == field and stop - data <= _LONGEST:
                inside = stop <= len(window)
                content = bytes(window[data:stop]) if inside else _content(source, begin + data, stop - data)
                yield begin + header, content


def _unusual(source: Source, member: Member, field: str) -> Iterator[tuple[int, bytes | None]]:
    names = split_name(member.name)
    if names is None or names[1] != field or is_metadata(member.name) or is_litter(member.name):
        return
    if member.kind == "file" and member.size <= _LONGEST:
        yield member.header, _content(source, member.data, member.size)
    elif member.kind in ("link", "symlink"):
        yield member.header, None


def _content(source: Source, offset: int, size: int) -> bytes:
    content = bytearray(size)
    source.read_into(offset, memoryview(content))
    return bytes(content)


def _linked(source: Source, place: tuple[Any, Any, Any], field: str) -> bytes:
    """What the field is by the reader's rules; nothing where that fails."""
    begin, end = int(place[1][0]), int(place[2][0])
    content = _content(source, begin, end - begin)
    try:
        sample = parse_sample(content, url=source.url, offset=begin, targets=link_targets(source))
    except DataError:
        return b""
    return bytes(sample.get(field, b""))


def _decoded(field: str, data: bytes) -> Label | None:
    try:
        value = codec.decode_field(field, data)
    except SampleError:
        return None
    return value.strip() or None if isinstance(value, str) else value if isinstance(value, int) else None


def _joined(shards: list[Labels]) -> Labels:
    found = {value for labels in shards for value in labels.values}
    values = tuple(sorted(found, key=lambda value: (isinstance(value, str), value)))
    places = {value: code for code, value in enumerate(values)}
    codes = np.empty(sum(len(labels.codes) for labels in shards), dtype=np.int32)
    at = 0
    for labels in shards:
        # One more at the end, which is what -1 looks up.
        table = np.array([*(places[value] for value in labels.values), -1], dtype=np.int32)
        codes[at : at + len(labels.codes)] = table[labels.codes]
        at += len(labels.codes)
    codes.flags.writeable = False
    return Labels(codes, values)


def _key(dataset: Dataset, field: str) -> str:
    times = map_in_order(_mtime, list(dataset.urls))
    ends = np.concatenate((dataset.starts[1:], dataset.starts[:-1])) + np.tile(np.arange(len(times)), 2)
    facts = [field, list(dataset.urls), times, dataset.counts.tolist(), dataset.sizes.tolist()]
    row = np.ascontiguousarray(dataset.offsets[ends], "<u8").tobytes()
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogatepass") + row).hexdigest()[:32]


def _mtime(url: str) -> int:
    if addresses.scheme(url) not in (None, "file"):
        return 0
    try:
        return os.stat(addresses.path_of(url)).st_mtime_ns  # noqa: PTH116 - urls stay text
    except OSError:
        return 0  # reading will say it


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _save(path: Path, labels: Labels) -> bool:
    codes = np.ascontiguousarray(labels.codes, "<i4")
    head = json.dumps([list(labels.values), len(codes), zlib.crc32(codes.data)]).encode("ascii")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, [_MAGIC, head, b"\n", codes.data], durable=False)
    except (OSError, ShardstreamError) as error:
        _log.warning("the labels are not kept and will be read again at the next start: %s", error)
        return False
    return True


def _load(path: Path, samples: int) -> Labels | None:
    """What was kept, mapped; None if there is nothing or it is damaged."""
    try:
        with path.open("rb") as stream:
            if stream.readline() != _MAGIC:
                return None
            values, length, crc = json.loads(stream.readline())
            begin = stream.tell()
        if length != samples or path.stat().st_size != begin + 4 * length:
            return None
        codes: Codes = np.memmap(path, "<i4", mode="r", offset=begin, shape=(length,)).view(np.ndarray)
    except (OSError, ValueError, TypeError):
        return None
    return Labels(codes, tuple(values)) if zlib.crc32(codes.data) == crc else None

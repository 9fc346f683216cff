"""What tells where samples lie: listings, offsets files, other loaders' index files, and what the cache keeps."""

from __future__ import annotations

import functools
import json
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.fuzz.targets.offline import REMOTE, offline
from tests.fuzz.targets.target import DIVIDER, Target, divided
from tests.wds_tools.tar.archives import Memory, archive, contents
from wds_tools.dataset import open_dataset
from wds_tools.errors import ShardstreamError, public
from wds_tools.index.cache import FileFacts, IndexCache
from wds_tools.index.find import read_counts
from wds_tools.index.fit import offsets_from_dali, offsets_from_energon
from wds_tools.index.listing import ShardRecord, parse_listing, write_listing
from wds_tools.index.offsets import map_offsets, offsets_in
from wds_tools.index.sidecars import dali_index, energon_index
from wds_tools.shard import parse_sample, scan
from wds_tools.tar import walk

__all__ = ["TARGETS"]

_SAMPLES = 12


@functools.cache
def _shard() -> bytes:
    return archive([(f"{n:02d}.{field}", b"x" * n) for n in range(_SAMPLES) for field in ("jpg", "cls")])


@functools.cache
def _offsets() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return scan(Memory(_shard())).offsets


def listed(data: bytes, folder: Path) -> bool:
    """A listing counts its shards and samples in numbers that fit, whatever it refers to."""
    text, referred = divided(data, 2)
    found = parse_listing(text, "/data/dataset.json", fetch=lambda _: referred)
    assert len(found.urls) == len(found.counts) == len(found.sizes) == len(found.checksums) > 0
    assert 0 <= int(found.counts.sum()) <= 1 << 48
    assert all(isinstance(public(url), str) for url in found.urls)
    return True


def opened(data: bytes, folder: Path) -> bool:
    """A dataset whose listing, offsets and shard are not what they should be gives samples that are there."""
    listing, offsets, tail = divided(data, 3)
    for name, content in (
        ("dataset.json", listing),
        ("dataset.offsets.npy", offsets),
        ("a.tar", _shard() + tail),
    ):
        (folder / name).unlink(missing_ok=True)  # the one before may still be mapped
        (folder / name).write_bytes(content)
    with offline():
        dataset = open_dataset(folder / "dataset.json", cache_dir=folder / "cache", remote=REMOTE)
        if not len(dataset):
            return True
        for number in {0, len(dataset) // 2, len(dataset) - 1}:
            with suppress(ShardstreamError):
                (shard,), (begin,), (end,) = dataset.locate([number])
                assert 0 <= begin < end <= dataset.sizes[shard]
                with dataset.open_shard(int(shard)) as source:
                    buffer = bytearray(end - begin)
                    source.read_into(int(begin), memoryview(buffer))
                    contents(parse_sample(buffer, url=source.url, offset=int(begin)))
    return True


def _with_crc(data: bytes) -> bytes:
    """The same with the check value that the offsets give, where they can be read."""
    listing, offsets, tail = divided(data, 3)
    try:
        facts = json.loads(listing)
        row = np.frombuffer(offsets[offsets.index(b"\n") + 1 :], "<u8")
        counts = [entry["nsamples"] for entry in facts["shardlist"]]
        begins = np.cumsum([0, *(count + 1 for count in counts[:-1])])
        ends = np.stack([row[begins], row[begins + np.array(counts)]], axis=1)
        facts["offsets_crc32"] = zlib.crc32(ends.tobytes())
        listing = json.dumps(facts).encode()
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError):
        pass
    return DIVIDER.join([listing, offsets, tail])


def offset_file(data: bytes, folder: Path) -> bool:
    """An offsets file is the same row from memory and mapped, or refused by both."""
    length, content = int.from_bytes(data[:2], "little"), data[2:]
    path = folder / "offsets.npy"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        mapped = map_offsets(str(path), length=length)
    except ShardstreamError:
        mapped = None
    held = offsets_in(content, length=length)
    assert len(held) == length
    assert mapped is None or np.array_equal(held.array, mapped.array)
    return True


def sidecar(data: bytes, folder: Path) -> bool:
    """An index of another loader that is believed rises, and ends behind the samples, among the zeros."""
    read = offsets_from_dali if data[:1] == b"v" else offsets_from_energon
    found = read(data, Memory(_shard()), place="a.idx").astype(np.int64)
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert int(_offsets()[-1]) <= found[-1] <= len(_shard())
    return True


def kept(data: bytes, folder: Path) -> bool:
    """What is kept in the cache is given as it was kept, or not at all; counts beside shards are numbers."""
    cache = IndexCache(folder)
    facts = FileFacts("/data/a.tar", len(_shard()), 1)
    cache.save(facts, _offsets())
    (path,) = (folder / "index").iterdir()
    content = bytearray(path.read_bytes())
    at = int.from_bytes(data[:2], "little") % len(content)
    content[at : at + max(len(data) - 2, 0)] = data[2:]
    path.write_bytes(content)
    found = cache.load(facts)
    assert found is None or np.array_equal(found, _offsets())
    for name in ("sizes.json", "00000_stats.json"):
        (folder / name).write_bytes(data[2:])
    counts = read_counts(folder)
    assert all(isinstance(count, int) for count in counts.values())
    return found is not None or bool(counts)


def _listing_seeds() -> list[bytes]:
    plain = b'{"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 3, "filesize": 512, "md5sum": "0"}]}'
    parts = b'{"wids_version": 1, "base": "sub", "datasets": [{"shardlist": [{"url": "b.tar", "nsamples": 1}]}]}'
    large = (
        b'{"wids_version": 1, "classes": ["a"], "offsets": "o.npy", "offsets_crc32": 1, "shardlist": '
        b'[{"url": "http://h/a b.tar?sig=1", "nsamples": 281474976710656, "filesize": null}]}'
    )
    return [
        plain,
        parts,
        b'{"wids_version": 1, "datasets": [{"source_url": "https://me:pw@host/x.json"}]}' + DIVIDER + plain,
        large,
    ]


def _dataset_seeds() -> list[bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        record = ShardRecord(url="a.tar", samples=_SAMPLES, bytes=len(_shard()), offsets=_offsets())
        write_listing(Path(name, "dataset.json"), [record], name="x", extra={"classes": ["a", "b"]})
        listing, offsets = (Path(name, each).read_bytes() for each in ("dataset.json", "dataset.offsets.npy"))
    bare = json.dumps({"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": _SAMPLES}]}).encode()
    return [DIVIDER.join([listing, offsets]), bare]


def _offset_seeds() -> list[bytes]:
    _, offsets, _ = divided(_dataset_seeds()[0], 3)
    return [(_SAMPLES + 1).to_bytes(2, "little") + offsets]


def _sidecar_seeds() -> list[bytes]:
    return [dali_index(walk(_shard())), energon_index(_offsets()), b"v1.1 1\njpg 512 0\n"]


TARGETS = (
    Target(name="listing", run=listed, seeds=_listing_seeds, times=200),
    # Offsets are mapped; a shard without them is scanned, through windows of 1 MiB, by a few threads.
    Target(name="dataset", run=opened, seeds=_dataset_seeds, mend=_with_crc, times=200, beside=24 << 20),
    Target(name="offsets", run=offset_file, seeds=_offset_seeds),
    Target(name="sidecars", run=sidecar, seeds=_sidecar_seeds, times=500),
    Target(name="kept", run=kept, seeds=lambda: [b"\0\0", b'\xff\xff{"00000.tar": 7}', b'\xff\xff{"successes": 7}']),
)

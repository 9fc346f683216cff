"""Shards: the walk over a tar, raw samples of plain, streamed and compressed ones, and samples by their offsets."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import zstandard

import loaders
from tests.fuzz.targets.target import Target
from tests.wds_tools.tar.archives import END, Memory, archive, contents, entry, patched, with_checksum
from wds_tools.errors import MemberError, ShardstreamError
from wds_tools.sample import RawSample
from wds_tools.shard import ShardNotes, iter_samples, iter_stream, parse_sample, scan
from wds_tools.tar import Member, walk, walk_source

__all__ = ["TARGETS", "mended", "seeds"]

_PACK: tuple[Callable[[bytes], bytes], ...] = (
    bytes,  # as it is: what claims to be compressed
    lambda data: gzip.compress(data, 1, mtime=0),
    lambda data: bz2.compress(data, 1),
    lambda data: lzma.compress(data, preset=0),
    lambda data: zstandard.ZstdCompressor().compress(data),
)
_MAX_UNPACKED = 16 << 20


def walked(data: bytes, folder: Path) -> bool:
    """Members lie inside the archive, one behind the other, and are the same from memory and from a file."""
    found = []
    try:
        for member in walk(data):
            found.append(member)
            assert member.name.encode("utf-8", "surrogateescape") is not None
    finally:
        at = 0
        for member in found:
            assert at <= member.header < member.data <= member.data + member.size <= len(data)
            at = member.stop
        skimmed: list[Member] = []
        with suppress(ShardstreamError):
            skimmed.extend(walk_source(Memory(data)))
        assert skimmed == found
    return True


def sampled(data: bytes, folder: Path) -> bool:
    """Skipping gives what reading strictly gives, and goes on; a stream gives the same until it has to refuse."""
    path = folder / "shard.tar"
    path.write_bytes(data)
    lenient = _copied(loaders.samples(path, on_error="skip"))
    streamed, whole = _until_refused(iter_stream(io.BytesIO(data), whole=True))
    strict, taken = _until_refused(loaders.samples(path))
    assert lenient[: len(strict)] == strict
    assert streamed == strict[: len(streamed)]
    assert taken or not whole
    if taken:
        assert lenient == strict
    return bool(_copied(loaders.samples(path))) or taken


def indexed(data: bytes, folder: Path) -> bool:
    """A scan finds the samples that reading gives, and each is read from its own bytes."""
    notes, scanned = ShardNotes(), scan(Memory(data))
    offsets = scanned.offsets.tolist()
    assert offsets == sorted(set(offsets))
    assert offsets[-1] <= len(data)
    found = []
    for begin, end in pairwise(offsets):
        with suppress(MemberError):  # a link out of the sample, a sparse member
            found.append(contents(parse_sample(data[begin:end], url="memory.tar", offset=begin)))
    with suppress(MemberError):
        assert [contents(sample) for sample in iter_samples(Memory(data), notes=notes)] == found or notes.links
    return bool(found)


def packed(data: bytes, folder: Path) -> bool:
    """What is compressed gives the samples that it gives unpacked."""
    kind, inner = (data[0] if data else 0) % len(_PACK), data[1:]
    if not kind and _is_bomb(inner):
        return False
    path = folder / "shard.tar.packed"
    path.write_bytes(_PACK[kind](inner))
    found, taken = _until_refused(loaders.samples(path))
    if kind:
        plain, whole = _until_refused(iter_stream(io.BytesIO(inner), whole=kind != 4))
        assert found == plain
        assert taken == whole
    if not taken:
        _copied(loaders.samples(path))
    return taken


def _copied(samples: Iterable[RawSample]) -> list[dict[str, Any]]:
    return [contents(sample) for sample in samples]


def _until_refused(samples: Iterator[RawSample]) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    try:
        for sample in samples:
            found.append(contents(sample))
    except ShardstreamError:
        return found, False
    return found, True


def _is_bomb(data: bytes) -> bool:
    """Whether it unpacks to more than the harness wants to wait for; decided by the libraries alone."""
    for opener in (gzip.open, bz2.open, functools.partial(lzma.open, format=lzma.FORMAT_XZ), zstandard.open):
        with suppress(OSError, EOFError, ValueError, lzma.LZMAError, zstandard.ZstdError, zlib.error):
            stream: Any = opener(io.BytesIO(data), "rb")
            total = 0
            while more := len(stream.read(1 << 16)):
                total += more
                if total > _MAX_UNPACKED:
                    return True
    return False


def mended(data: bytes) -> bytes:
    """The same archive with right checksums in all that looks like a header."""
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    return b"".join(
        with_checksum(block) if block[257:262] == b"ustar" and len(block) == 512 else block for block in blocks
    )


def seeds() -> list[bytes]:
    """All kinds of members that there are, in small."""
    two = [("a.jpg", b"\xff\xd8" * 40), ("a.cls", b"7"), ("b.jpg", b"x"), ("b.cls", b"8")]
    long = "d/" * 60 + "n" * 150
    links = (
        entry("l.jpg", type=tarfile.SYMTYPE, linkname="a.jpg")
        + entry("m.jpg", type=tarfile.LNKTYPE, linkname="k" * 130, form=tarfile.GNU_FORMAT)
        + entry("m.cls", type=tarfile.SYMTYPE, linkname="../m.cls", form=tarfile.PAX_FORMAT)
    )
    odd = b"".join(entry("__meta__/x.a", type=kind) for kind in (tarfile.DIRTYPE, tarfile.FIFOTYPE, b"V", b"\0"))
    sparse = patched(entry("s.bin", b"hello"), 156, b"S")
    sparse_pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s.bin"}
    return [
        archive(two),
        archive([(f"{long}.jpg", b"1"), (f"{long}.cls", b"2"), ("é.txt", b"3")], form=tarfile.PAX_FORMAT),
        archive([(f"{long}.jpg", b"1"), ("é.txt", b"3")], form=tarfile.GNU_FORMAT),
        archive(two, form=tarfile.PAX_FORMAT, pax={"comment": "made by hand"}),
        links + archive(two),
        odd + sparse + archive(two),
        entry("s.bin", b"1\n0\n5\n" + bytes(506) + b"hello", form=tarfile.PAX_FORMAT, pax_headers=sparse_pax) + END,
        entry("a.jpg", b"x", form=tarfile.PAX_FORMAT, pax_headers={"size": "1", "mtime": "1.5"}) + END,
        patched(entry("a.jpg", b"x"), 124, b"\x80" + (1).to_bytes(11, "big")) + END,
        archive(two) + archive([("c.jpg", b"y")]) + b"garbage",
        archive(two)[:-1024],
        b"<!DOCTYPE html><title>404</title>",
    ]


def _packed_seeds() -> list[bytes]:
    plain = seeds()
    both = [bytes([kind]) + plain[kind] for kind in range(1, len(_PACK))]
    return both + [b"\0" + pack(data) for pack in _PACK[1:] for data in plain[:2]] + [b"\0" + _PACK[1](plain[0]) * 2]


# Plain shards are read into windows of 1 MiB, of which a few are held; a compressed one may be 16 MiB unpacked here,
# and xz may ask for a window of 256 MiB.
TARGETS = (
    Target(name="walk", run=walked, seeds=seeds, mend=mended),
    Target(name="samples", run=sampled, seeds=seeds, mend=mended, beside=16 << 20),
    Target(name="indexed", run=indexed, seeds=seeds, mend=mended, beside=16 << 20),
    Target(
        name="packed",
        run=packed,
        seeds=_packed_seeds,
        mend=lambda data: data[:1] + mended(data[1:]),
        beside=(256 << 20) + 4 * _MAX_UNPACKED,
    ),
)

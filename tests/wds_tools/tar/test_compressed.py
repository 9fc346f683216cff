from __future__ import annotations

import bz2
import gzip
import lzma
import random
import sys
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import END, Memory, archive, entry, keys, read
from wds_tools.errors import DataError, MemberError, ShardError, TruncatedShardError, UnavailableError
from wds_tools.shard import ShardNotes, iter_samples, scan
from wds_tools.tar.compressed import sniff

NOISE = random.Random(0).randbytes(3000)
MEMBERS = [(f"{i:03d}.{field}", data) for i in range(40) for field, data in (("bin", NOISE[i:]), ("cls", b"%d" % i))]
SHARD = archive(MEMBERS)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "zstd": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.fixture(params=list(COMPRESS))
def compress(request: pytest.FixtureRequest) -> Callable[[bytes], bytes]:
    return COMPRESS[request.param]


Compress = Callable[[bytes], bytes]


def test_a_compressed_shard_holds_the_samples_that_it_was_made_of(compress: Compress) -> None:
    assert read(compress(SHARD)) == read(SHARD)


def test_several_parts_are_read_as_one(compress: Compress) -> None:
    middle = len(SHARD) // 2 + 100
    assert read(compress(SHARD[:middle]) + compress(SHARD[middle:])) == read(SHARD)


def test_compression_is_seen_by_content_and_not_by_name(compress: Compress) -> None:
    assert keys(iter_samples(Memory(compress(SHARD), url="looks-plain.tar"))) == keys(iter_samples(Memory(SHARD)))
    assert sniff(SHARD[:10]) is None
    assert read(archive([("BZh9.jpg", b"x")])) == [{"__key__": "BZh9", "jpg": b"x"}]


def test_a_compressed_shard_cannot_be_indexed(compress: Compress) -> None:
    with pytest.raises(ShardError, match="cannot be indexed") as caught:
        scan(Memory(compress(SHARD)))
    tool = {"gzip": "gunzip -k", "zstd": "zstd -d", "bzip2": "bunzip2 -k", "xz": "xz -dk"}[
        str(sniff(compress(SHARD)[:10]))
    ]
    assert f"`{tool} FILE`" in (caught.value.cure or "")


def test_a_cut_is_seen_after_the_samples_before_it(compress: Compress) -> None:
    whole = compress(SHARD)
    for cut in (len(whole) // 2, len(whole) - 30, len(whole) - 1):
        found = []
        with pytest.raises(TruncatedShardError) as caught:
            found.extend(keys(iter_samples(Memory(whole[:cut]))))
        assert caught.value.url == "memory.tar"


def test_samples_before_a_cut_are_given() -> None:
    whole = gzip.compress(archive([(f"{i}.bin", random.Random(i).randbytes(1 << 18)) for i in range(20)]))
    found = []
    with pytest.raises(TruncatedShardError, match="last whole sample"):
        for sample in iter_samples(Memory(whole[: len(whole) * 3 // 4])):
            found.append(sample["__key__"])
    assert found == [str(i) for i in range(len(found))]
    assert 10 <= len(found) <= 15


def test_zstd_data_without_an_end_of_archive_may_be_cut_and_so_are_an_error() -> None:
    # Its reader does not say when the last frame is cut off; gzip, bzip2 and xz do.
    parts = COMPRESS["zstd"](SHARD[:-1024])
    with pytest.raises(TruncatedShardError):
        read(parts)


@pytest.mark.parametrize("name", ["gzip", "bzip2", "xz"])
def test_where_the_compression_shows_a_cut_a_missing_end_of_archive_is_only_noted(name: str) -> None:
    notes = ShardNotes()
    assert len(list(iter_samples(Memory(COMPRESS[name](SHARD[:-1024])), notes=notes))) == 40
    assert notes.unterminated


@settings(max_examples=60)
@given(name=st.sampled_from(list(COMPRESS)), place=st.integers(0), value=st.integers(0, 255), cut=st.booleans())
def test_damage_is_an_error_of_ours_or_does_no_harm(name: str, place: int, value: int, cut: bool) -> None:
    content = bytearray(COMPRESS[name](SHARD))
    place %= len(content)
    content[place] = value
    if cut:
        del content[place + 1 :]
    try:
        read(bytes(content))
    except DataError as error:
        assert error.url == "memory.tar"  # noqa: PT017


def test_links_cannot_be_followed_in_a_stream(compress: Compress) -> None:
    linked = entry("a.jpg", b"x") + entry("b.jpg", type=b"1", linkname="a.jpg") + entry("c.jpg", b"y") + END
    with pytest.raises(MemberError, match=r"'b\.jpg'.*'a\.jpg'"):
        read(compress(linked))
    faults: list[DataError] = []
    assert keys(iter_samples(Memory(compress(linked)), on_bad=faults.append)) == ["a", "c"]
    assert [fault.key for fault in faults] == ["b"]


def test_a_missing_decompressor_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    content = COMPRESS["zstd"](SHARD)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ShardError, match="zstd") as caught:
        read(content)
    assert "shardstream[zstd]" in (caught.value.cure or "")


def test_the_error_of_the_source_comes_through(compress: Compress) -> None:
    class Failing(Memory):
        def read_into(self, offset: int, buffer: memoryview) -> None:
            if len(buffer) > 10:  # more than sniffing takes
                raise UnavailableError("the disk is on fire", url=self.url)
            super().read_into(offset, buffer)

    with pytest.raises(UnavailableError, match="on fire"):
        list(iter_samples(Failing(compress(SHARD))))


def test_memory_stays_bounded_when_a_header_declares_much() -> None:
    header = bytearray(entry("a.bin"))
    header[124:136] = b"\x80" + (1 << 60).to_bytes(11, "big")
    total = sum(header[:148]) + 256 + sum(header[156:512])
    header[148:156] = b"%06o\0 " % total
    with pytest.raises(ShardError, match="held in memory"):
        read(gzip.compress(bytes(header) + bytes(100_000)))


@pytest.mark.parametrize("name", ["bzip2", "xz"])
def test_a_later_part_whose_begin_is_damaged_is_an_error_and_no_end(name: str) -> None:
    whole = sum(len(entry(key, data)) for key, data in MEMBERS[:40])  # so that no member shows the cut
    first, second = COMPRESS[name](SHARD[:whole]), bytearray(COMPRESS[name](SHARD[whole:]))
    assert len(read(first + bytes(second))) == 40
    second[14] ^= 0xFF
    with pytest.raises(ShardError, match="damaged"):
        read(first + bytes(second))


@pytest.mark.parametrize("name", ["bzip2", "xz"])
@pytest.mark.parametrize("behind", [b"\0" * 4, b"\0" * (1 << 20), b"\0\0\0\0rubbish", b"rub"])
def test_padding_and_rubbish_behind_the_end_are_passed_over(name: str, behind: bytes) -> None:
    assert read(COMPRESS[name](SHARD) + behind) == read(SHARD)
    assert read(COMPRESS[name](SHARD[:5000]) + b"\0" * (1 << 19) + COMPRESS[name](SHARD[5000:])) == read(SHARD)


def test_xz_data_that_ask_for_a_window_of_a_gigabyte_are_refused() -> None:
    large = lzma.compress(SHARD, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}])
    assert read(large) == read(SHARD)
    place = large.index(b"\x21\x01") + 2  # the window's size in the header of the block, behind the filter's number
    header = bytearray(large[12:24])
    header[place - 12] = 37  # 1.5 GiB
    header[8:] = zlib.crc32(header[:8]).to_bytes(4, "little")
    with pytest.raises(ShardError, match="Memory usage limit"):
        read(large[:12] + bytes(header) + large[24:])

"""Contents of shards from their headers: offsets that read back, damage after what precedes it, compression."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import write_pictures, write_shard, write_tar
from wds_tools.contents import Entry, compression, contents, find, keys, printable, read_range
from wds_tools.errors import HeaderError, TruncatedShardError
from wds_tools.shard import scan
from wds_tools.sources.resolve import open_source

SAMPLES = [(f"a/{number}", {"txt": b"t" * number, "seg.png": b"p" * 600}) for number in range(5)]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write_shard(tmp_path / "a.tar", SAMPLES)


def entries(path: Path) -> list[Entry]:
    with open_source(str(path)) as source:
        return list(contents(source))


def test_every_sample_is_an_entry_with_its_fields_and_place(shard: Path) -> None:
    found = entries(shard)
    assert [(entry.key, entry.fields) for entry in found] == [
        (key, {name: len(data) for name, data in fields.items()}) for key, fields in SAMPLES
    ]
    with tarfile.open(shard) as archive:
        assert [entry.offset for entry in found] == [member.offset for member in archive.getmembers()[::2]]
    assert [entry.end for entry in found[:-1]] == [entry.offset for entry in found[1:]]
    assert found[3].bytes == 603


def test_the_range_of_an_entry_reads_back_as_its_sample(shard: Path) -> None:
    with open_source(str(shard)) as source:
        for entry, (key, fields) in zip(list(contents(source)), SAMPLES, strict=True):
            sample = read_range(source, entry.offset, entry.end)
            assert {name: bytes(data) for name, data in sample.items() if name in fields} == fields
            assert (sample["__key__"], sample["__url__"]) == (key, str(shard))


def test_what_is_no_part_of_a_sample_is_left_out(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "a.tar",
        [("__meta__", b"x"), ("README", b"x"), ("__MACOSX/._a.txt", b"x"), ("a.txt", b"x"), ("._a.cls", b"x")],
    )
    assert [(entry.key, entry.fields) for entry in entries(path)] == [("a", {"txt": 1})]


def test_a_key_that_comes_back_and_a_field_twice_are_listed_again(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", [("a.txt", b"1"), ("a.txt", b"22"), ("b.txt", b""), ("a.txt", b"333")])
    assert [(entry.key, entry.fields["txt"]) for entry in entries(path)] == [("a", 1), ("a", 2), ("b", 0), ("a", 3)]


def test_a_link_has_no_size(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        target = tarfile.TarInfo("a.jpg")
        target.size = 3
        archive.addfile(target, io.BytesIO(b"jpg"))
        link = tarfile.TarInfo("b.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "a.jpg"
        archive.addfile(link)
    assert [entry.fields for entry in entries(tmp_path / "a.tar")] == [{"jpg": 3}, {"jpg": None}]


def test_all_before_a_damaged_header_is_given_out(shard: Path) -> None:
    damaged = bytearray(shard.read_bytes())
    at = entries(shard)[3].offset
    damaged[at + 100 : at + 108] = b"7777777\0"  # the mode, which the checksum covers
    shard.write_bytes(damaged)
    seen: list[str] = []
    with open_source(str(shard)) as source, pytest.raises(HeaderError) as caught:
        _append_keys(contents(source), seen)
    assert caught.value.offset == at
    assert seen == ["a/0", "a/1", "a/2"]


def _append_keys(found: Iterator[Entry], seen: list[str]) -> None:
    for entry in found:
        seen.append(entry.key)


def test_a_compressed_shard_is_listed_by_streaming(shard: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(shard.read_bytes()))
    assert [entry._replace(url="") for entry in entries(packed)] == [entry._replace(url="") for entry in entries(shard)]
    with open_source(str(packed)) as source:
        assert compression(source) == "gzip"
        found = find(source, "a/4")
    assert found is not None
    assert bytes(found["txt"]) == b"tttt"


def test_find_gives_the_sample_or_nothing(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [3])
    with open_source(f"{folder}/s-0000.tar") as source:
        assert compression(source) is None
        found = find(source, "000002")
        assert found is not None
        assert bytes(found["cls"]) == b"2"
        assert find(source, "000003") is None


def test_an_empty_file_is_a_truncated_shard(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"")
    with pytest.raises(TruncatedShardError):
        entries(tmp_path / "a.tar")


@pytest.mark.parametrize(
    ("text", "shown"), [("a/é b", "a/é b"), ("a\nb", r"a\nb"), ("a\udcff", r"a\udcff"), ("\x1b[31m", r"\x1b[31m")]
)
def test_what_would_harm_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_keys_are_those_that_the_index_counts(tmp_path: Path) -> None:
    members = [("a.jpg", b"x" * 900), ("a.cls", b"1"), ("__meta__", b""), ("b/c.d.jpg", b"y"), ("e.txt", b"")]
    path = write_tar(tmp_path / "a.tar", members)
    with open_source(str(path)) as source:
        assert list(keys(source)) == ["a", "b/c", "e"]
        assert len(list(keys(source))) == scan(source).samples

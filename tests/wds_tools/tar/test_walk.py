from __future__ import annotations

import io
import random
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import END, Memory, archive, entry, gnu_tar, patched, with_checksum
from wds_tools.errors import HeaderError, NotATarError, ShardError, ShardstreamError, TruncatedShardError
from wds_tools.tar import Member, ShardNotes, walk, walk_source, walk_stream

pytestmark = pytest.mark.usefixtures("each_walk")

TWO = [("a.jpg", b"\xff\xd8" * 300), ("a.cls", b"7")]


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, content: bytes, most: int) -> None:
        super().__init__()
        self._content = io.BytesIO(content)
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._content.readinto(memoryview(buffer)[: self._most])


WAYS: dict[str, Callable[[bytes, ShardNotes], Iterator[Member]]] = {
    "buffer": lambda content, notes: walk(content, notes=notes),
    "source": lambda content, notes: walk_source(Memory(content), notes=notes),
    "stream": lambda content, notes: walk_stream(io.BytesIO(content), notes=notes, whole=True),
    "dribble": lambda content, notes: walk_stream(Dribble(content, 700), notes=notes, whole=True),
}


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> Callable[[bytes, ShardNotes], Iterator[Member]]:
    return WAYS[request.param]


Way = Callable[[bytes, ShardNotes], Iterator[Member]]


def _names(way: Way, content: bytes, notes: ShardNotes | None = None) -> list[str]:
    return [member.name for member in way(content, notes or ShardNotes())]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_lie_where_tarfile_says(way: Way, form: Literal[0, 1, 2]) -> None:
    long = "d/" * 40 + "n" * 95 + ".txt"
    content = archive([*TWO, ("é.jpg", b"x" * 513), ("empty.txt", b""), (long, b"y"), ("z.txt", b"z" * 512)], form=form)
    with tarfile.open(fileobj=io.BytesIO(content)) as known:
        expected = [(info.name, info.offset, info.offset_data, info.size) for info in known]
    found = [(m.name, m.header, m.data, m.size) for m in way(content, ShardNotes())]
    assert found == expected


def test_a_global_header_and_float_times_change_nothing() -> None:
    content = archive([("a.jpg", b"x")], form=tarfile.PAX_FORMAT, pax={"comment": "made by git"})
    content = content[: -len(END)] + entry("b.jpg", b"y", form=tarfile.PAX_FORMAT, mtime=1.5) + END
    members = list(walk(content))
    assert [(m.name, content[m.data : m.data + m.size]) for m in members] == [("a.jpg", b"x"), ("b.jpg", b"y")]
    assert members[0].header == 0


def test_a_long_name_of_gnu_and_of_pax_is_read_whole(way: Way) -> None:
    name = "n" * 3000 + ".jpg"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert _names(way, archive([(name, b"x"), ("b", b"")], form=form)) == [name, "b"]


@pytest.mark.parametrize("raw", [b"\xe9.jpg", "яблоко.jpg".encode("cp1251"), "e\u0301.jpg".encode(), "é.jpg".encode()])
def test_bytes_of_names_can_be_had_back(raw: bytes) -> None:
    content = patched(entry("x.jpg"), 0, raw.ljust(100, b"\0")) + END
    (member,) = walk(content)
    assert member.name.encode("utf-8", "surrogateescape") == raw


def test_offsets_are_counted_from_the_base_given() -> None:
    content = archive(TWO)
    assert [(m.header, m.data) for m in walk(content[1536:], base=1536)] == [(1536, 2048)]


def test_kinds_are_told_apart() -> None:
    kinds = {
        tarfile.DIRTYPE: "dir",
        tarfile.LNKTYPE: "link",
        tarfile.SYMTYPE: "symlink",
        tarfile.FIFOTYPE: "other",
        tarfile.CHRTYPE: "other",
        tarfile.BLKTYPE: "other",
        tarfile.CONTTYPE: "file",
        tarfile.AREGTYPE: "file",
        b"V": "other",
    }
    content = b"".join(entry("x.a", type=kind, linkname="to") for kind in kinds) + END
    assert [(m.kind, m.link) for m in walk(content)] == [
        (kind, "to" if "link" in kind else "") for kind in kinds.values()
    ]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_size_field_of_a_link_says_nothing(form: Literal[0, 1, 2]) -> None:
    link = patched(entry("l.jpg", type=tarfile.LNKTYPE, linkname="a.jpg", form=form), 124, b"00000001000\0")
    assert [m.name for m in walk(link + entry("b.jpg", b"x") + END)] == ["l.jpg", "b.jpg"]


# Ends.


def test_a_proper_end_is_silent(way: Way) -> None:
    for zeros in (1024, 10240, 1 << 20, 1100):
        notes = ShardNotes()
        assert _names(way, archive(TWO)[: -len(END)] + bytes(zeros), notes) == ["a.jpg", "a.cls"]
        assert notes.warnings() == []


@pytest.mark.parametrize("zeros", [0, 512, 700])
def test_an_end_without_two_zero_blocks_is_noted(way: Way, zeros: int) -> None:
    notes = ShardNotes()
    assert _names(way, archive(TWO)[: -len(END)] + bytes(zeros), notes) == ["a.jpg", "a.cls"]
    assert notes.unterminated
    assert "no end of archive" in notes.warnings()[0]


@pytest.mark.parametrize("zeros", [0, 512])
def test_a_stream_that_may_be_cut_needs_an_end_of_archive(zeros: int) -> None:
    with pytest.raises(TruncatedShardError, match="end of archive"):
        list(walk_stream(io.BytesIO(archive(TWO)[: -len(END)] + bytes(zeros))))


def test_archives_one_behind_the_other_are_all_read_and_noted(way: Way) -> None:
    notes = ShardNotes()
    both = archive(TWO) + bytes(9000 // 512 * 512) + archive([("b.jpg", b"x")])
    assert _names(way, both, notes) == ["a.jpg", "a.cls", "b.jpg"]
    assert notes.archives == 2
    assert "2 archives" in notes.warnings()[0]


def test_a_lone_zero_block_between_members_is_passed_and_noted(way: Way) -> None:
    notes = ShardNotes()
    content = entry("a.jpg", b"x") + bytes(512) + entry("b.jpg", b"y") + END
    assert _names(way, content, notes) == ["a.jpg", "b.jpg"]
    assert notes.lone_zero_blocks == 1
    assert notes.archives == 1


@pytest.mark.parametrize("size", [1, 511, 512, 3500, 3 << 20])
def test_garbage_behind_the_end_is_noted_with_its_length(way: Way, size: int) -> None:
    notes = ShardNotes()
    assert _names(way, archive(TWO) + b"g" * size, notes) == ["a.jpg", "a.cls"]
    assert notes.trailing_bytes == size
    assert f"{size:,} byte{'' if size == 1 else 's'} of" in notes.warnings()[0]


def test_garbage_behind_a_single_zero_block_is_damage(way: Way) -> None:
    with pytest.raises(HeaderError) as caught:
        _names(way, entry("a.jpg", b"x") + bytes(512) + b"g" * 512 + END)
    assert caught.value.offset == 1536


@pytest.mark.parametrize("zeros", [1024, 10240])
def test_an_archive_of_zeros_is_empty(way: Way, zeros: int) -> None:
    notes = ShardNotes()
    assert _names(way, bytes(zeros), notes) == []
    assert notes.warnings() == []


def test_an_empty_file_is_an_error_that_says_so(way: Way) -> None:
    with pytest.raises(TruncatedShardError, match="0 bytes"):
        _names(way, b"")


# Cuts.


def test_every_cut_is_seen(way: Way) -> None:
    content = archive([*TWO, ("n" * 200, b"x" * 700)], form=tarfile.PAX_FORMAT)
    boundaries = {m.stop for m in walk(content)}
    for cut in range(38, len(content) - 511, 37):  # before, a few letters could be anything
        notes = ShardNotes()
        try:
            _names(way, content[:cut], notes)
        except TruncatedShardError as error:
            assert error.offset == cut  # noqa: PT017
            continue
        assert cut >= max(boundaries) or cut in boundaries
        assert notes.unterminated


@pytest.mark.parametrize("cut", [1, 100, 511])
def test_a_cut_in_the_first_header_is_a_cut_and_no_other_kind_of_file(way: Way, cut: int) -> None:
    with pytest.raises(TruncatedShardError) as caught:
        _names(way, archive(TWO)[:cut] if cut > 10 else b"\0")
    assert caught.value.offset is not None


# Damage.


@pytest.mark.parametrize(
    "body", [b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>", b"x" * 5000, b"\x89PNG\r\n"]
)
def test_what_is_no_tar_is_shown_by_its_first_bytes(way: Way, body: bytes) -> None:
    with pytest.raises(NotATarError) as caught:
        _names(way, body)
    assert repr(body[:20])[2:-1] in str(caught.value)


def test_a_damaged_first_header_is_no_other_kind_of_file(way: Way) -> None:
    content = bytearray(archive(TWO))
    content[3] ^= 1
    with pytest.raises(HeaderError) as caught:
        _names(way, bytes(content))
    assert caught.value.offset == 0


def test_a_damaged_header_later_on_is_named_by_its_offset(way: Way) -> None:
    content = bytearray(archive(TWO))
    content[1536] ^= 1
    with pytest.raises(HeaderError) as caught:
        _names(way, bytes(content))
    assert caught.value.offset == 1536


# Sizes.


@pytest.mark.parametrize(
    "header",
    [
        entry("a.jpg", form=tarfile.PAX_FORMAT, pax_headers={"size": "693"}),
        patched(entry("a.jpg"), 124, b"\x80" + (693).to_bytes(11, "big")),
    ],
)
def test_a_size_in_pax_or_base_256_is_the_size(way: Way, header: bytes) -> None:
    content = header + b"j" * 693 + bytes(-693 % 512) + entry("a.cls", b"7") + END
    members = list(way(content, ShardNotes()))
    assert [(m.name, content[m.data : m.data + m.size]) for m in members] == [("a.jpg", b"j" * 693), ("a.cls", b"7")]


@pytest.mark.parametrize("size", ["-1", "1.5", "x", "", "9" * 40, "\uff11"])
def test_an_absurd_pax_size_is_an_error(way: Way, size: str) -> None:
    content = entry("a.jpg", form=tarfile.PAX_FORMAT, pax_headers={"size": size}) + END
    if size:
        with pytest.raises(HeaderError, match="size"):
            _names(way, content)


@pytest.mark.parametrize("size", [10**6, 10**12, 1 << 61])
def test_a_size_beyond_the_end_is_a_cut(way: Way, size: int) -> None:
    for header in (
        entry("a.jpg", form=tarfile.PAX_FORMAT, pax_headers={"size": str(size)}),
        patched(entry("a.jpg"), 124, b"\x80" + size.to_bytes(11, "big")),
    ):
        with pytest.raises(TruncatedShardError):
            _names(way, header + b"j" * 693 + END)


# Extension headers.


def _extension(kind: bytes, size: int) -> bytes:
    return patched(patched(entry("././@LongLink"), 156, kind), 124, b"\x80" + size.to_bytes(11, "big"))


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g", b"X"])
@pytest.mark.parametrize("size", [(1 << 20) + 1, 10**9, 10**12])
def test_a_huge_extension_is_refused_before_it_is_read(way: Way, kind: bytes, size: int) -> None:
    with pytest.raises(HeaderError, match="extension header"):
        _names(way, _extension(kind, size))


def test_refusing_extensions_takes_no_memory(tmp_path: Path) -> None:
    records = b"".join(b"1000 comment=" + b"c" * 986 + b"\n" for _ in range(200_000))
    (tmp_path / "real.tar").write_bytes(_extension(b"x", len(records)) + records + entry("a.jpg", b"x") + END)
    (tmp_path / "declared.tar").write_bytes(_extension(b"L", 10**9))
    script = (
        "import resource, sys\n"
        "from wds_tools.errors import HeaderError\n"
        "from wds_tools.sources.local import LocalFile\n"
        "from wds_tools.shard import iter_samples\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for name in ('real.tar', 'declared.tar'):\n"
        "    with LocalFile(name).open() as source:\n"
        "        try:\n"
        "            list(iter_samples(source))\n"
        "        except HeaderError:\n"
        "            continue\n"
        "    sys.exit('no error for ' + name)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, check=True
    )
    assert int(done.stdout) < 50_000  # KiB
    assert resource.getpagesize() > 0


def test_extensions_without_end_are_refused(way: Way) -> None:
    more = entry("x", b"5 a=\n" * 0, type=b"x")
    with pytest.raises(HeaderError, match="extension header"):
        _names(way, more * 1000 + END)


@pytest.mark.parametrize("field", ["path", "linkpath", "size"])
def test_a_global_header_that_names_all_members_alike_is_refused(way: Way, field: str) -> None:
    content = archive([("a.jpg", b"x")], form=tarfile.PAX_FORMAT, pax={field: "1"})
    with pytest.raises(HeaderError, match="global"):
        _names(way, content)


def test_an_extension_that_no_member_follows_is_an_error(way: Way) -> None:
    lonely = entry("n" * 200, form=tarfile.GNU_FORMAT)[:-512]
    with pytest.raises(ShardError):
        _names(way, lonely + END)


# Sparse members.


@pytest.mark.parametrize(
    "options", [["--format=gnu"], *(["--format=posix", f"--sparse-version={v}"] for v in ("0.0", "0.1", "1.0"))]
)
@pytest.mark.parametrize("islands", [1, 40])
def test_sparse_members_are_told_and_what_follows_is_in_place(
    way: Way, tmp_path: Path, options: list[str], islands: int
) -> None:
    with (tmp_path / "a.bin").open("wb") as file:
        for island in range(1, islands + 1):
            file.seek(island * 500_000)
            file.write(b"hello")
    (tmp_path / "b.cls").write_bytes(b"7")
    gnu_tar("--sparse", *options, "-cf", "made.tar", "a.bin", "b.cls", folder=tmp_path)
    content = (tmp_path / "made.tar").read_bytes()
    members = list(way(content, ShardNotes()))
    assert [(m.name, m.kind) for m in members] == [("a.bin", "sparse"), ("b.cls", "file")]
    assert content[members[1].data : members[1].data + 1] == b"7"


# Anything.


def _outcome(walked: Iterator[Member]) -> object:
    found: list[Member] = []
    try:
        found.extend(walked)
    except ShardstreamError as error:
        return found, type(error)
    return found


def mutated(content: bytes, seed: int) -> bytes:
    # As fuzzers do: bytes set, runs of bytes moved, the end cut; and half of the time checksums made right again.
    random_ = random.Random(seed)
    changed = bytearray(content)
    for _ in range(random_.randint(1, 6)):
        place = random_.randrange(0, len(changed), random_.choice([1, 1, 512]))
        match random_.randrange(4):
            case 0:
                changed[place] = random_.choice([0, 32, 48, 55, 128, 255, ord("L"), ord("x"), ord("g"), ord("S")])
            case 1:
                changed[min(place // 512 * 512 + 156, len(changed) - 1)] = random_.choice(b"01234567LKxgXSVMDN\0")
            case 2:
                changed[place : place + 512] = changed[random_.randrange(0, len(changed), 512) :][:512]
            case 3:
                del changed[place:]
                changed = changed or bytearray(1)
    if random_.random() < 0.5:
        for begin in range(0, len(changed) - 511, 512):
            block = bytes(changed[begin : begin + 512])
            if block[257:262] == b"ustar":
                changed[begin : begin + 512] = with_checksum(block)
    return bytes(changed)


SEEDS = [
    archive(TWO, form=tarfile.USTAR_FORMAT),
    archive([*TWO, ("n" * 150, b"x")], form=tarfile.PAX_FORMAT, pax={"comment": "x"}),
    archive([*TWO, ("n" * 150, b"x")], form=tarfile.GNU_FORMAT),
    entry("l.jpg", type=tarfile.SYMTYPE, linkname="k" * 150, form=tarfile.GNU_FORMAT) + archive(TWO),
]


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=2000), st.tuples(st.integers(0, len(SEEDS) - 1), st.integers(0))))
@example(b"\0" * 511)
def test_any_bytes_are_members_or_an_error_and_the_same_in_every_way(made: bytes | tuple[int, int]) -> None:
    content = made if isinstance(made, bytes) else mutated(SEEDS[made[0]], made[1])
    outcomes = [_outcome(way(content, ShardNotes())) for way in WAYS.values()]
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]
    assert outcomes[0] == outcomes[2] or _found_before_the_cut(outcomes[0], outcomes[2])


def _found_before_the_cut(whole: object, streamed: object) -> bool:
    # A stream learns that a member is cut when it has gone through it: it then has given one more.
    match whole, streamed:
        case (list(known), error), (list(seen), other):
            return error is other is TruncatedShardError and seen[:-1] == known
    return False

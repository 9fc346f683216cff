from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import gnu_tar
from wds_tools.errors import KeyRefusedError
from wds_tools.tar.feed import BufferFeed
from wds_tools.tar.notes import ShardNotes
from wds_tools.tar.walk import Member, Walk
from wds_tools.tar.write import END, member_header, padding

GIB = 1 << 30
BYTES = st.binary(min_size=1, max_size=130).filter(lambda raw: 0 not in raw)
NAMES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=300),
    st.lists(st.text("abé", min_size=1, max_size=90), min_size=1, max_size=5).map("/".join),
    BYTES.map(lambda raw: raw.decode("utf-8", "surrogateescape")),
).filter(lambda name: not name.endswith("/"))


def _in_tarfile(header: bytes) -> tarfile.TarInfo:
    with tarfile.open(fileobj=io.BytesIO(header)) as made:
        found = made.next()  # of the header alone: the data, up to a PiB, are not looked for
    assert found is not None
    return found


def _here(header: bytes) -> Member:
    found = Walk(BufferFeed(header), ShardNotes()).next()
    assert found is not None
    return found


@given(NAMES, st.integers(0, 1 << 50), st.integers(0, 0o7777), st.integers(0, 8 * GIB - 1))
@example("x/" * 99 + "y", 3, 0o644, 0)
@example("a/" + "b" * 100, 8 * GIB, 0o644, 0)
def test_tarfile_and_this_package_read_what_is_written(name: str, size: int, mode: int, mtime: int) -> None:
    header = member_header(name, size, mode=mode, mtime=mtime)
    info = _in_tarfile(header)
    assert (info.name, info.size, info.mode, info.mtime) == (name, size, mode, mtime)
    assert (info.uid, info.gid, info.uname, info.gname, info.type) == (0, 0, "", "", tarfile.REGTYPE)
    member = _here(header)
    assert (member.name, member.kind, member.data, member.size) == (name, "file", len(header), size)


@pytest.mark.parametrize(
    "name", ["a.jpg", "n" * 100, "p" * 155 + "/" + "n" * 100, "d/" * 70 + "n" * 100, "a" * 50 + "/" + "b" * 60 + "/c"]
)
def test_ascii_names_that_fit_take_one_ustar_block(name: str) -> None:
    header = member_header(name, 8 * GIB - 1)
    assert len(header) == 512
    assert header[257:265] == b"ustar\x0000"
    assert header == _plain(name, 8 * GIB - 1)


def _plain(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("name", ["n" * 101, "p" * 156 + "/n", "p/" + "n" * 101, "é.jpg", "\udce9.jpg"])
def test_other_names_take_a_pax_extension(name: str) -> None:
    header = member_header(name, 1)
    assert len(header) == 3 * 512
    assert header[156:157] == b"x"


def test_only_a_name_that_is_no_utf8_says_so() -> None:
    assert b"hdrcharset=BINARY" in member_header("\udce9.jpg", 1)
    assert b"hdrcharset" not in member_header("é.jpg", 1)


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert member_header("é" * 200, 9 * GIB) == member_header("é" * 200, 9 * GIB)


def test_gnu_tar_lists_and_gives_what_is_written(tmp_path: Path) -> None:
    lengths = (1, 99, 100, 101, 155, 156, 254, 256, 300, 1000)
    names = [letter * (length // len(letter.encode())) + ".bin" for length in lengths for letter in ("x", "é")]
    names += [f"{'d' * length}/{'f' * 101}.bin" for length in (1, 100, 155, 156)]
    shard = b"".join(member_header(name, at) + bytes([at]) * at + padding(at) for at, name in enumerate(names))
    listed = gnu_tar("-tf", "-", "--quoting-style=literal", folder=tmp_path, given=shard + END)
    assert listed.decode().splitlines() == names
    # The order of the data shows that every header is where it should be.
    given = gnu_tar("-xOf", "-", folder=tmp_path, given=shard + END)
    assert given == b"".join(bytes([at]) * at for at in range(len(names)))


def test_gnu_tar_reads_sizes_beyond_8_gib(tmp_path: Path) -> None:
    holes = tmp_path / "large.tar"
    header = member_header("a.bin", 9 * GIB)
    with holes.open("wb") as file:  # a sparse file: nothing of the 9 GiB is on the disk
        file.write(header)
        file.seek(len(header) + 9 * GIB)
        file.write(member_header("a.cls", 1) + b"7" + padding(1) + END)
    listed = gnu_tar("-tvf", "large.tar", folder=tmp_path).decode()
    assert str(9 * GIB) in listed
    assert "a.cls" in listed


@given(st.integers(0, 5000))
def test_padding_fills_the_last_block(size: int) -> None:
    assert (size + len(padding(size))) % 512 == 0
    assert len(padding(size)) < 512
    assert padding(size) == bytes(len(padding(size)))


@pytest.mark.parametrize("name", ["", "a\0b", "a/", "\ud800"])
def test_names_that_no_header_can_hold_are_refused(name: str) -> None:
    with pytest.raises(KeyRefusedError):
        member_header(name, 1)


@pytest.mark.parametrize("facts", [{"size": -1}, {"size": 1 << 62}, {"mode": -1}, {"mtime": -1}, {"mtime": 1 << 33}])
def test_numbers_out_of_range_are_refused(facts: dict[str, int]) -> None:
    size = facts.pop("size", 1)
    with pytest.raises(ValueError, match="out of range"):
        member_header("a", size, **facts)

"""Members of archives that Python's tarfile writes in all its formats are those that tarfile reads, byte for byte."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import END
from wds_tools.tar import Member, walk, walk_stream

pytestmark = pytest.mark.usefixtures("each_walk")

KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.DIRTYPE: "dir",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "link",
    tarfile.FIFOTYPE: "other",
    tarfile.CHRTYPE: "other",
    tarfile.BLKTYPE: "other",
}
FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)

letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
parts = st.text(letters, min_size=1, max_size=40) | st.binary(min_size=1, max_size=40).map(
    lambda raw: raw.replace(b"\0", b"_").decode("utf-8", "surrogateescape")
)
names = st.lists(parts, min_size=1, max_size=8).map("/".join)
records = st.dictionaries(
    st.text("abcdefgh.SCHILY", min_size=1, max_size=12), st.text(letters, min_size=1, max_size=600), max_size=3
)


@st.composite
def members(draw: st.DrawFn) -> tuple[tarfile.TarInfo, bytes]:
    """A member as somebody may write it: any kind, owner, time and size."""
    info = tarfile.TarInfo(draw(names))
    info.type = draw(st.sampled_from([*KINDS, *[tarfile.REGTYPE] * 6]))
    data = draw(st.integers(0, 1300).map(lambda size: bytes(at % 251 for at in range(size))))
    data = data if KINDS[info.type] == "file" else b""
    info.size = len(data)
    info.linkname = draw(names) if info.islnk() or info.issym() else ""
    info.mtime = draw(st.integers(0, 1 << 40) | st.floats(0, 1 << 31))
    info.uid = draw(st.integers(0, 1 << 30))
    info.uname = draw(st.text(letters, max_size=8))
    info.pax_headers = draw(records)
    return info, data


def written(made: list[tuple[tarfile.TarInfo, bytes]], form: Literal[0, 1, 2], facts: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    try:
        with tarfile.open(fileobj=stream, mode="w", format=form, pax_headers=facts) as archive:
            for info, data in made:
                archive.addfile(info, io.BytesIO(data))
            end = archive.offset
    except (ValueError, UnicodeEncodeError):  # names and numbers that this format does not have
        assume(False)
    return stream.getvalue()[:end] + END


def by_tarfile(content: bytes) -> Iterator[tuple[Any, ...]]:
    seen = False
    with tarfile.open(fileobj=io.BytesIO(content), errors="surrogateescape") as archive:
        for info in archive:
            data = archive.extractfile(info).read() if info.isreg() else b""  # type: ignore[union-attr]
            begin = info.offset if seen else 0  # a global header before the first belongs to it here, not in tarfile
            seen = True
            yield info.name, KINDS[info.type], begin, info.offset_data, data, info.linkname


def by_us(content: bytes, found: Iterator[Member]) -> Iterator[tuple[Any, ...]]:
    for each in found:
        name = each.name.rstrip("/") if each.kind == "dir" else each.name  # which tarfile does to folders
        yield name, each.kind, each.header, each.data, content[each.data : each.data + each.size], each.link


@settings(max_examples=60)
@given(st.lists(members(), min_size=1, max_size=4), st.sampled_from(FORMATS), records)
@example([(tarfile.TarInfo("a.jpg"), b"")], tarfile.PAX_FORMAT, {"comment": "x"})
def test_what_tarfile_writes_is_what_tarfile_and_we_read(
    made: list[tuple[tarfile.TarInfo, bytes]], form: Literal[0, 1, 2], facts: dict[str, str]
) -> None:
    content = written(made, form, facts)
    expected = list(by_tarfile(content))
    assert len(expected) == len(made)
    assert list(by_us(content, walk(content))) == expected
    assert list(by_us(content, walk_stream(io.BytesIO(content)))) == expected

"""Foreign indexes are believed where the shard bears them out, and nowhere else."""

import contextlib
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wds_tools.made_shards import make_shard, samples
from wds_tools import shard
from wds_tools.errors import ListingError, StaleIndexError
from wds_tools.index import sidecars
from wds_tools.index.fit import offsets_from_dali, offsets_from_energon
from wds_tools.sources.resolve import open_source
from wds_tools.tar.walk import walk_source

Row = npt.NDArray[np.uint64]
LONG = [
    ("d/", b""),
    ("__meta__/x.json", b"{}"),
    *samples(0, 2),
    ("e/" * 70 + "k.jpg", b"1" * 900),
    ("e/" * 70 + "k.cls", b"2"),
    *samples(5, 30),
]
PLANS = st.lists(st.tuples(st.booleans(), st.integers(0, 3000), st.sampled_from([5, 90, 150])), min_size=1, max_size=12)


def dali(path: Path) -> bytes:
    with open_source(str(path)) as source:
        return sidecars.dali_index(walk_source(source))


def from_dali(path: Path, data: bytes) -> Row:
    with open_source(str(path)) as source:
        return offsets_from_dali(data, source, place="a.idx")


def from_energon(path: Path, data: bytes) -> Row:
    with open_source(str(path)) as source:
        return offsets_from_energon(data, source, place="a.tar.idx")


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("members", [samples(0, 1), samples(0, 100), LONG])
def test_both_give_what_a_scan_finds(tmp_path: Path, members: list[tuple[str, bytes]], form: int) -> None:
    path = tmp_path / "a.tar"
    expected = make_shard(path, members, form=form)
    if members is LONG:
        expected = expected[1:]  # __meta__ is no sample
    with open_source(str(path)) as source:
        np.testing.assert_array_equal(shard.scan(source).offsets, expected)
    np.testing.assert_array_equal(from_dali(path, dali(path)), expected)
    np.testing.assert_array_equal(from_energon(path, sidecars.energon_index(expected)), expected)


@settings(max_examples=30, deadline=None)
@given(PLANS)
def test_a_dali_index_gives_what_a_scan_finds_for_any_shard(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[bool, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.tar"
    members: list[tuple[str, bytes]] = []
    for at, (folder, size, length) in enumerate(plan):
        members += [(f"dir{at}/", b"")] if folder else []
        members += [(f"{at:03d}" + "n" * length + field, b"x" * size) for field in (".cls", ".jpg")]
    make_shard(path, members, form=tarfile.GNU_FORMAT)
    with open_source(str(path)) as source:
        expected = shard.scan(source).offsets
    np.testing.assert_array_equal(from_dali(path, dali(path)), expected)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_shard(tmp_path / "a.tar", samples(0, 100))
    return tmp_path / "a.tar"


def changed(row: Row, change: Callable[[list[int]], list[int]]) -> bytes:
    return struct.pack(f"<{len(change(row.tolist()))}Q", *change(row.tolist()))


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row[1:],  # begins behind the first sample
        lambda row: row[:-1],  # ends before the last sample
        lambda row: [*row[:-1], row[-1] + 512 * 400],  # beyond the end
        lambda row: [row[0] + 512, *row[1:]],
        lambda row: [each + 1 for each in row],
        lambda row: [0, 0, *row[1:]],
        lambda row: list(reversed(row)),
        lambda row: [*row[:-2], row[-2] + 512, row[-1]],
    ],
)
def test_an_energon_index_of_another_shard(path: Path, change: Callable[[list[int]], list[int]]) -> None:
    with open_source(str(path)) as source:
        row = shard.scan(source).offsets
    with pytest.raises(StaleIndexError) as caught:
        from_energon(path, changed(row, change))
    assert caught.value.url == "a.tar.idx"


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789"])
def test_a_damaged_energon_index(path: Path, data: bytes) -> None:
    with pytest.raises(ListingError):
        from_energon(path, data)


@pytest.mark.parametrize(
    "other",
    [samples(0, 99), samples(0, 101), samples(1, 100), samples(0, 100, size=1500), [*samples(0, 99), ("x.jpg", b"1")]],
)
def test_a_dali_index_of_another_shard(path: Path, tmp_path: Path, other: list[tuple[str, bytes]]) -> None:
    make_shard(tmp_path / "other.tar", other)
    with pytest.raises(StaleIndexError):
        from_dali(path, dali(tmp_path / "other.tar"))


def test_a_dali_index_without_names_of_another_shard(path: Path, tmp_path: Path) -> None:
    make_shard(tmp_path / "other.tar", [("a b.jpg", b"1" * 400), *samples(0, 99)])
    with pytest.raises(StaleIndexError):
        from_dali(path, dali(tmp_path / "other.tar"))


def test_what_wds2idx_writes_for_gnu_long_names_is_not_believed(tmp_path: Path) -> None:
    name = "z" * 120 + ".jpg"
    make_shard(tmp_path / "a.tar", [(name, b"1" * 7)], form=tarfile.GNU_FORMAT)
    with pytest.raises(StaleIndexError):
        from_dali(tmp_path / "a.tar", f"v1.2 1\njpg 512 7 {name}\n".encode())


def test_an_index_that_says_nothing_of_an_archive_behind_the_first_is_not_believed(path: Path, tmp_path: Path) -> None:
    first = dali(path)
    make_shard(tmp_path / "b.tar", samples(200, 3))
    path.write_bytes(path.read_bytes() + (tmp_path / "b.tar").read_bytes())
    with pytest.raises(StaleIndexError, match="goes on"):
        from_dali(path, first)


def test_a_dali_index_that_leaves_a_sample_out_is_not_believed(path: Path) -> None:
    _, *lines = dali(path).decode().splitlines()
    for gone in (0, 50, 99):
        left = lines[:gone] + lines[gone + 1 :]
        with pytest.raises(StaleIndexError):
            from_dali(path, "\n".join(["v1.2 99", *left, ""]).encode())


def test_a_dali_index_that_names_no_samples_is_not_believed(path: Path) -> None:
    with pytest.raises(ListingError):
        from_dali(path, b"v1.2 0\n")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_damage_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.tar"
    if not path.exists():
        make_shard(path, samples(0, 20))
    good = dali(path) if data.draw(st.booleans()) else b""
    read = from_dali if good else from_energon
    with open_source(str(path)) as source:
        good = good or sidecars.energon_index(shard.scan(source).offsets)
    at, width = data.draw(st.integers(0, len(good))), data.draw(st.integers(0, 20))
    bad = good[:at] + data.draw(st.binary(max_size=20)) + good[at + width :]
    with contextlib.suppress(ListingError):
        read(path, bad)

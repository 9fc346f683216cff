"""Samples in the order in which they lie: the same as one by one, and read by the MiB."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter import ShardWriter, pack
from shardwriter.inputs import Shards, open_shards
from tests.builders import write_shard, write_tar
from wds_tools.errors import HeaderError, ShardstreamError

COUNT = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of ours, then some of others, of samples up to 40 KB."""
    folder = tmp_path_factory.mktemp("windows")
    rows = [
        (f"k/{number:02d}", {"bin": bytes([number]) * (number * 7919 % 40_000), "cls": b"%d" % number})
        for number in range(COUNT)
    ]
    with ShardWriter(folder / "a-%06d.tar", max_samples=8, listing=None) as writer:
        for key, fields in rows[:20]:
            writer.write({"__key__": key, **fields})
    members = [(f"{key}.{field}", data) for key, fields in rows[20:] for field, data in fields.items()]
    write_tar(folder / "b-0.tar", members, form=tarfile.GNU_FORMAT)  # headers that are not ours
    return folder


@pytest.fixture(scope="module")
def samples(folder: Path) -> Iterator[Shards]:
    with open_shards(folder) as found:
        assert len(found) == COUNT
        yield found


def plainly(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else bytes(value) for name, value in sample.items()}


@given(st.lists(st.one_of(st.integers(0, COUNT - 1), st.tuples(st.integers(0, COUNT - 1), st.integers(1, 12)))))
def test_any_places_give_what_each_gives_alone(samples: Shards, picked: list[int | tuple[int, int]]) -> None:
    runs = [range(one, one + 1) if isinstance(one, int) else range(one[0], min(COUNT, sum(one))) for one in picked]
    indexes = [index for run in runs for index in run]
    take = samples.side_by_side(indexes)
    for index in indexes:
        sample, members = take(index)
        assert plainly(sample) == plainly(samples.sample(index))
        assert (members is not None) == (index < 20)
        assert members is None or len(members) % 512 == 0


def test_one_read_brings_what_lies_side_by_side(samples: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in (0, 8, 16, 20):
        samples.sample(index)  # opens the shard
    reads: list[int] = []
    preadv = os.preadv

    def counted(descriptor: int, buffers: Sequence[Any], offset: int) -> int:
        reads.append(sum(map(len, buffers)))
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    list(map(samples.side_by_side(range(COUNT)), range(COUNT)))
    assert len(reads) == 4  # one a shard
    reads.clear()
    monkeypatch.setattr(samples._memory, "size", 64_000)
    list(map(samples.side_by_side(range(COUNT)), range(COUNT)))
    assert 4 < len(reads) < COUNT
    assert max(reads) <= 64_000


@pytest.mark.parametrize("options", [{"drop": ["bin"]}, {"rename": {"cls": "id"}}, {"keys": "hash"}, {"keep": ["cls"]}])
def test_what_is_changed_on_the_way_is_never_taken_as_it_lies(folder: Path, options: dict[str, Any]) -> None:
    with open_shards(folder, **options) as samples:
        for index, (sample, members) in enumerate(map(samples.side_by_side(range(COUNT)), range(COUNT))):
            assert members is None
            assert plainly(sample) == plainly(samples.sample(index))


def test_what_a_condition_chose_is_taken_as_it_lies(folder: Path) -> None:
    with open_shards(folder, where="cls % 3 != 1") as samples:
        taken = list(map(samples.side_by_side(range(len(samples))), range(len(samples))))
        assert [plainly(sample) for sample, _ in taken] == [plainly(samples.sample(at)) for at in range(len(samples))]
        assert [members is not None for _, members in taken] == [index < 20 for index in range(COUNT) if index % 3 != 1]


def test_a_damaged_header_is_named_where_it_lies(tmp_path: Path, packed: Callable[..., Any]) -> None:
    write_shard(tmp_path / "old/a.tar", [(f"k{number}", {"txt": b"%d" % number}) for number in range(9)])
    with open_shards(tmp_path / "old") as samples:
        with (tmp_path / "old/a.tar").open("r+b") as file:
            file.seek(4 * 1024)
            file.write(b"j")
        with pytest.raises(HeaderError, match=r"a\.tar, offset 4096"):
            packed(samples)


def test_a_shard_that_was_cut_gives_what_is_left_of_it(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [(f"k{number}", {"txt": b"%d" % number}) for number in range(9)])
    with open_shards(tmp_path / "a.tar") as samples:
        samples.sample(0)
        os.truncate(tmp_path / "a.tar", 5 * 1024 + 100)
        take = samples.side_by_side(range(9))
        assert [plainly(take(index)[0])["txt"] for index in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        for index in range(5, 9):
            with pytest.raises(ShardstreamError) as alone:
                samples.sample(index)
            with pytest.raises(type(alone.value)) as found:
                take(index)
            assert str(found.value) == str(alone.value)


def test_padding_and_headers_of_others_are_made_anew(tmp_path: Path, packed: Callable[..., Any]) -> None:
    """As they lie, they would bring a stranger's bytes, owners and times into our shards."""
    write_tar(
        tmp_path / "old/a.tar", [(f"{number}.txt", b"x" * number) for number in range(9)], form=tarfile.GNU_FORMAT
    )
    with open_shards(tmp_path / "old") as samples:
        pack(samples, tmp_path / "new", name="a", shuffle=False)
    content = bytearray((tmp_path / "new/a-000000.tar").read_bytes())
    content[1024 + 100] = 1  # behind the byte of the second
    (tmp_path / "dirty").mkdir()
    (tmp_path / "dirty/a.tar").write_bytes(content)
    for source in ("new/a-000000.tar", "dirty/a.tar"):
        with open_shards(tmp_path / source) as samples:
            pack(samples, tmp_path / "again", name="a", shuffle=False, overwrite=True)
        assert (tmp_path / "again/a-000000.tar").read_bytes() == (tmp_path / "new/a-000000.tar").read_bytes()

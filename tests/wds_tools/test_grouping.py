from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wds_tools.tar.archives import Memory, archive, gnu_tar, keys, read
from wds_tools.errors import DataError, GroupingError
from wds_tools.grouping import group
from wds_tools.shard import ShardNotes, iter_samples

pytestmark = pytest.mark.usefixtures("each_walk")


def _pieces(*names: str) -> list[tuple[str, str, bytes, int]]:
    return [(key, field, name.encode(), 1024 * at) for at, name in enumerate(names) for key, field in [name.split(".")]]


def test_neighbours_with_one_key_are_a_sample() -> None:
    samples = list(group(_pieces("a.jpg", "a.cls", "b.jpg"), url="s.tar"))
    assert samples == [
        {"__key__": "a", "__url__": "s.tar", "jpg": b"a.jpg", "cls": b"a.cls"},
        {"__key__": "b", "__url__": "s.tar", "jpg": b"b.jpg"},
    ]


def test_no_members_are_no_samples() -> None:
    assert list(group([], url="s.tar")) == []


@pytest.mark.parametrize("between", [1, 10, 2000])
def test_a_key_that_comes_back_is_an_error_at_any_distance(between: int) -> None:
    names = ["a.jpg", *(f"x{i}.jpg" for i in range(between)), "a.cls"]
    with pytest.raises(GroupingError) as caught:
        list(group(_pieces(*names), url="s.tar"))
    error = caught.value
    assert (error.url, error.key, error.field, error.offset) == ("s.tar", "a", "cls", 1024 * (between + 1))
    assert "--sort=name" in (error.cure or "")


@pytest.mark.parametrize("names", [("a.jpg", "a.cls", "a.jpg"), ("a.jpg", "a.jpg")])
def test_a_field_twice_is_an_error(names: tuple[str, ...]) -> None:
    with pytest.raises(GroupingError, match="second member") as caught:
        list(group(_pieces(*names), url="s.tar"))
    assert (caught.value.key, caught.value.field, caught.value.offset) == ("a", "jpg", 1024 * (len(names) - 1))


def test_a_member_cannot_pass_for_the_key_of_its_sample() -> None:
    with pytest.raises(GroupingError, match="__key__"):
        read(archive([("a.jpg", b"x"), ("a.__key__", b"b")]))


def test_bad_samples_are_left_out_and_the_next_is_unharmed() -> None:
    faults: list[DataError] = []
    notes = ShardNotes()
    pieces = _pieces("a.jpg", "a.jpg", "b.jpg", "c.jpg", "b.cls", "d.jpg", "d.jpg")
    samples = list(group(pieces, url="s.tar", notes=notes, on_bad=faults.append))
    assert keys(samples) == ["b", "c"]
    assert [(type(fault), fault.key) for fault in faults] == [(GroupingError, key) for key in ("a", "b", "d")]
    assert (notes.samples, notes.refused, notes.last_key) == (2, 3, "c")
    assert "3 samples left out (the first: a second member" in notes.warnings()[0]


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=2), st.text("xyz", min_size=1, max_size=1)), max_size=12))
def test_every_piece_is_in_a_sample_or_in_an_error(names: list[tuple[str, str]]) -> None:
    faults: list[DataError] = []
    pieces = [(key, field, at, at) for at, (key, field) in enumerate(names)]
    samples = list(group(pieces, url="s.tar", on_bad=faults.append))
    runs = [at for at, (key, _) in enumerate(names) if at == 0 or names[at - 1][0] != key]
    assert len(samples) + len(faults) == len(runs)
    for sample in samples:
        places = [place for name, place in sample.items() if not name.startswith("__")]
        assert places == list(range(places[0], places[0] + len(places)))
        assert all(names[place] == (sample["__key__"], name) for name, place in list(sample.items())[2:])
    assert len({sample["__key__"] for sample in samples}) == len(samples)


def test_groups_never_cross_a_shard() -> None:
    first, second = archive([("1.jpg", b"x")]), archive([("1.cls", b"1")])
    assert [read(first), read(second)] == [[{"__key__": "1", "jpg": b"x"}], [{"__key__": "1", "cls": b"1"}]]


def test_a_plain_tar_of_an_unsorted_folder_is_told_from_a_sorted_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("unsorted")
    names = [f"{number}.{field}" for field in ("jpg", "cls") for number in range(20)]
    for name in names:
        (folder / name).write_bytes(name.encode())
    gnu_tar("-cf", "unsorted.tar", *names, folder=folder)
    with pytest.raises(GroupingError, match="comes back"):
        read((folder / "unsorted.tar").read_bytes())
    gnu_tar("--sort=name", "--exclude=*.tar", "-cf", "sorted.tar", ".", folder=folder)
    assert len(read((folder / "sorted.tar").read_bytes())) == 20


def test_a_version_that_was_appended_is_an_error() -> None:
    shard = archive([("0.jpg", b"x"), ("0.cls", b"old"), ("1.jpg", b"y"), ("0.cls", b"new")])
    with pytest.raises(GroupingError):
        read(shard)
    faults: list[DataError] = []
    assert keys(iter_samples(Memory(shard), on_bad=faults.append)) == ["0", "1"]


def test_a_key_that_is_repeated_for_ever_is_an_error_at_its_second_member() -> None:
    with pytest.raises(GroupingError, match="second member"):
        next(group(itertools.repeat(("a", "cls", b"1", 512)), url="x.tar"))

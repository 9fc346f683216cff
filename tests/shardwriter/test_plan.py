from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter import BaseInput
from shardwriter.order import shuffled
from shardwriter.place import place_of
from shardwriter.plan import plan
from shardwriter.settings import Settings, check_part
from shardwriter.split import Splits
from wds_tools.errors import FieldError, UsageError
from wds_tools.sample import Sample


class Numbers(BaseInput):
    """Keys without samples; every tenth has none."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def key(self, index: int) -> str:
        if index % 10 == 9:
            raise FieldError("no key")
        return f"{index:04d}"

    def sample(self, index: int) -> Sample:
        raise AssertionError("a plan opens no sample")


def orders(count: int, settings: Settings, part: tuple[int, int] | None = None) -> list[list[int]]:
    return [[int(place) for place in leg.order] for leg in plan(Numbers(count), place_of("out"), settings, part)]


@given(st.integers(0, 200), st.integers(0, 5), st.booleans())
def test_without_splits_the_order_is_that_of_the_seed(count: int, seed: int, shuffle: bool) -> None:
    (order,) = orders(count, Settings(seed=seed, shuffle=shuffle))
    assert order == ([int(place) for place in shuffled(count, seed)] if shuffle else [*range(count)])


@given(st.integers(0, 300), st.integers(1, 9), st.sampled_from([{}, {"val": 0.3}, {"val": 0.2, "test": 0.3}]))
def test_the_parts_one_behind_the_other_are_the_whole(count: int, parts: int, split: dict[str, float]) -> None:
    settings = Settings(split=split)
    whole = orders(count, settings)
    found = [orders(count, settings, (number, parts)) for number in range(parts)]
    for leg in range(len(whole)):
        assert [place for part in found for place in part[leg]] == whole[leg]
        sizes = {len(part[leg]) for part in found}
        assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 300))
def test_every_sample_is_in_the_split_of_its_key_in_the_order_of_the_seed(count: int) -> None:
    settings = Settings(split={"val": 0.3, "test": 0.2})
    splits = Splits("train", settings.split)
    place_in_whole = {place: at for at, place in enumerate(orders(count, Settings())[0])}
    legs = orders(count, settings)
    assert sorted(place for leg in legs for place in leg) == [*range(count)]
    for number, leg in enumerate(legs):
        assert all(number == (2 if place % 10 == 9 else splits.of(f"{place:04d}")) for place in leg)
        assert leg == sorted(leg, key=place_in_whole.__getitem__)


def test_names_of_parts_sort_as_the_parts_do() -> None:
    names = [plan(Numbers(4), place_of("out"), Settings(), (number, 120))[0].target for number in range(120)]
    assert [name.shard(0) for name in names] == sorted(name.shard(0) for name in names)
    assert names[7].shard(0) == Path("out/train-007-of-120-000000.tar")
    assert names[7].listing == "train-007-of-120.json"


def test_splits_have_a_folder_each_the_main_one_last() -> None:
    legs = plan(Numbers(4), place_of("out"), Settings(name="a", split={"val": 0.5}), None)
    assert [(leg.name, leg.folder, leg.target.pattern) for leg in legs] == [
        ("val", Path("out/val"), "val-%06d.tar"),
        ("a", Path("out/a"), "a-%06d.tar"),
    ]


@pytest.mark.parametrize("part", [(0, 0), (-1, 2), (2, 2), (0.0, 2), (True, 2), [0, 2], "0/2"])
def test_parts_that_cannot_be_are_refused(part: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"part is .*expected \(i, n\)"):
        check_part(part)

import json
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import picture
from wds_tools.tally import MOST_LABELS, Spread, Tally


def spread_of(values: list[int]) -> Spread:
    spread = Spread()
    for value in values:
        spread.add(value)
    return spread


def tally_of(samples: list[dict[str, bytes]]) -> Tally:
    tally = Tally()
    for sample in samples:
        tally.add(sample.items())
    return tally


@given(st.lists(st.integers(0, 1 << 45), min_size=1))
def test_the_median_is_one_of_the_values_or_just_below(values: list[int]) -> None:
    facts = spread_of(values).facts()
    assert (facts["min"], facts["max"]) == (min(values), max(values))
    median = statistics.median_low(values)
    assert median * (1 - 1 / 512) <= facts["median"] <= median


@given(st.lists(st.integers(0, 1023), min_size=1))
def test_the_median_of_small_values_is_exact(values: list[int]) -> None:
    assert spread_of(values).facts()["median"] == statistics.median_low(values)


def test_memory_does_not_grow_with_the_number_of_different_values() -> None:
    spread = spread_of([*range(0, 3_000_000, 7)])
    assert len(spread.state()[2]) < 8_000


def test_no_values_have_no_facts() -> None:
    assert Spread().facts() == {}


SAMPLES = st.lists(
    st.dictionaries(
        st.sampled_from(["cls", "jpg", "txt", "b.cls", "id"]),
        st.sampled_from([b"0", b"1", b" 7\n", b"cat", picture(0), picture(1, width=20, height=31, form="PNG")]),
        min_size=1,
    ),
    max_size=12,
)


@given(SAMPLES, st.integers(0, 12))
def test_the_tallies_of_two_parts_add_up_through_json_and_in_any_order(
    samples: list[dict[str, bytes]], cut: int
) -> None:
    def through_json(tally: Tally) -> Tally:
        return Tally.of(json.loads(json.dumps(tally.state())))

    merged = through_json(tally_of(samples[cut:]))
    merged.merge(through_json(tally_of(samples[:cut])))
    whole = tally_of(samples)
    assert merged.facts() == whole.facts()
    assert merged.state() == whole.state()


def test_says_what_there_is() -> None:
    samples: list[dict[str, bytes]] = [
        {"jpg": picture(0, width=40, height=30), "cls": b"3"},
        {"jpg": picture(1, width=80, height=20, form="PNG"), "cls": b"3", "json": b"{}"},
        {"jpg": picture(2, width=60, height=10), "cls": b"-1"},
    ]
    sizes = sorted(len(sample["jpg"]) for sample in samples)
    assert tally_of(samples).facts() == {
        "fields": {"cls": 3, "jpg": 3, "json": 1},
        "labels": {"cls": {"-1": 1, "3": 2}},
        "pictures": {
            "jpg": {
                "formats": {"jpeg": 2, "png": 1},
                "width": {"min": 40, "median": 60, "max": 80},
                "height": {"min": 10, "median": 20, "max": 30},
                "bytes": {"min": sizes[0], "median": pytest.approx(sizes[1], rel=0.002), "max": sizes[2]},
            }
        },
    }


@pytest.mark.parametrize("field", ["id", "index", "count", "txt", "cls.gz"])
def test_numbers_that_are_no_labels_are_not_counted_one_by_one(field: str) -> None:
    assert "labels" not in tally_of([{field: b"1"}]).facts()


def test_too_many_labels_are_no_classes_whatever_the_order_and_the_parts() -> None:
    samples: list[dict[str, Any]] = [{"cls": b"%d" % number, "a.cls": b"1"} for number in range(MOST_LABELS + 1)]
    assert len(tally_of(samples[1:]).facts()["labels"]["cls"]) == MOST_LABELS
    halves = tally_of(samples[:5000])
    halves.merge(tally_of(samples[5000:]))
    for tally in (tally_of(samples), tally_of(samples[::-1]), halves):
        assert tally.facts()["labels"] == {"a.cls": {"1": MOST_LABELS + 1}}


def test_what_cannot_be_read_counts_as_a_field() -> None:
    facts = tally_of([{"jpg": b"no picture", "cls": b"cat"}]).facts()
    assert facts == {"fields": {"cls": 1, "jpg": 1}}

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwriter.inputs.labels import Labels
from wds_tools.errors import FieldError, UsageError


def settled(values: list[object], **options: object) -> Labels:
    labels = Labels("label", **options)  # type: ignore[arg-type]
    for value in values:
        labels.see(value)
    labels.settle()
    return labels


def test_whole_numbers_stay_and_what_is_none_is_refused() -> None:
    labels = settled([*map(str, range(20)), " 7 ", 8, "", None, "n/a"])
    assert labels.classes == ()
    assert [labels.number(value) for value in ("3", " 7 ", 8, "-2")] == [3, 7, 8, -2]
    for value, words in [
        ("", "missing"),
        (None, "missing"),
        ("n/a", "no whole number.*--labels name"),
        ("3.5", "no whole"),
    ]:
        with pytest.raises(FieldError, match=words):
            labels.number(value)


def test_names_are_numbered_in_sorted_order() -> None:
    labels = settled(["dog", "cat", "dog", "", "Bear"])
    assert labels.classes == ("Bear", "cat", "dog")
    assert [labels.number(value) for value in ("cat", " dog ", "Bear")] == [1, 2, 0]
    with pytest.raises(FieldError, match="none of the 3 classes"):
        labels.number("owl")


def test_given_classes_decide() -> None:
    labels = settled(["dog", "owl"], classes=["owl", "dog"])
    assert labels.number("owl") == 0
    with pytest.raises(UsageError, match="twice"):
        Labels("label", classes=["a", "a"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1", "2", "cat"], "2 whole numbers and 1 names.*--labels"),
        (["1.0", "2.0", "3.0"], "have fractions.*Int64"),
        ([1.0, 2.0, float("nan")], "have fractions"),
        (["", None, float("nan")], "no labels"),
        (["a\nb"], "line break"),
    ],
)
def test_what_is_neither_is_refused(values: list[object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settled(values)


def test_numbers_may_be_names_and_mixed_columns_be_decided() -> None:
    assert settled(["1", "10", "9"], kind="name").classes == ("1", "10", "9")
    assert settled(["1", "cat"], kind="name").classes == ("1", "cat")
    assert settled(["1", "cat"], kind="int").number("1") == 1
    with pytest.raises(UsageError, match="labels is 'str'"):
        Labels("label", kind="str")  # type: ignore[arg-type]


@given(st.lists(st.text(alphabet="abc 01.", max_size=3), min_size=1))
def test_every_value_that_was_seen_is_a_label_or_reported(values: list[str]) -> None:
    try:
        labels = settled(list(values), kind="name")
    except UsageError:
        return
    for value in values:
        if value.strip():
            assert labels.classes[labels.number(value)] == value.strip()

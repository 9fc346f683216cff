import pytest

from shardwriter.parts import MOST_PARTS, check_enough, check_part, check_parts, parts_for
from wds_tools.errors import UsageError


@pytest.mark.parametrize("wrong", [(2, 2), (-1, 2), (0, 0), (0,), [0, 2], "0/2", (True, 2), (0.0, 2)])
def test_what_is_no_part_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="expected \\(i, n\\)"):
        check_part(wrong)  # type: ignore[arg-type]


def test_parts_are_accepted() -> None:
    assert check_part((3, 4)) == (3, 4)
    assert check_part(None) is None
    assert check_parts(1) == 1
    assert check_parts(None) is None
    for wrong in (0, -1, 2.0, True, "2"):
        with pytest.raises(UsageError, match="expected an int of 1 or more"):
            check_parts(wrong)  # type: ignore[arg-type]


def test_more_parts_than_samples_are_refused() -> None:
    for samples, parts in ((3, 3), (3, 1), (1, 1), (0, 1)):
        check_enough(samples, parts)
    for samples, parts, cure in ((3, 4, "3 parts or fewer"), (1, 2, "in one piece"), (0, 2, "in one piece")):
        with pytest.raises(UsageError, match=f"less than one for each of {parts} parts.*{cure}"):
            check_enough(samples, parts)


def test_the_number_of_parts_grows_with_the_samples_up_to_a_bound() -> None:
    counts = [parts_for(samples) for samples in (0, 1, 100_000, 100_001, 10_000_000, 5_000_000_000)]
    assert counts == [1, 1, 1, 2, 100, MOST_PARTS]

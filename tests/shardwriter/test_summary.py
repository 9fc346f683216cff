import dataclasses
from pathlib import Path

import pytest

from shardwriter.summary import PackSummary, advice, total

SUMMARY = PackSummary(
    packed=4,
    shards=2,
    bytes=5_000_000,
    classes=("ant", "bee"),
    failed={"truncated": 1},
    skipped={"hidden": 2},
    misnamed=1,
    listing=Path("out/dataset.json"),
    failures=Path("out/failures.jsonl"),
)


@pytest.mark.parametrize(
    ("count", "size", "words"),
    [
        (1, 5_000_000, ()),
        (40, 1_000_000, ()),
        (100, 500_000_000, ()),
        (100, 5_000_000, ("the shards are small, 5.0 MB each", "--max-samples 100000 makes one of all")),
        (3, 9_000_000_000, ("the shards are large, 9.0 GB each",)),
        (4, 1_000_000_000, ("4 shards are few", "--max-bytes 250MB makes 16 or more")),
    ],
)
def test_advice_is_given_where_sizes_are_odd(count: int, size: int, words: tuple[str, ...]) -> None:
    given = advice(count, count * size, 1000, 1_000_000_000)
    assert bool(given) == bool(words)
    assert all(word in given[0] for word in words)
    assert advice(0, 0, 1, 1) == ()


@pytest.mark.parametrize(
    ("shards", "size", "limits", "parts", "said"),
    [
        (100, 25_700_000, (3, None), 1, "--max-samples 300 makes one of all"),
        (1945, 600_000_000, (1, 10**9), 1, "--max-samples 1700 makes shards of about 500 MB"),
        (100, 500_000_000, (None, 5_000_000), 1, "--max-bytes 500MB makes one of all"),
        (1000, 5_000_000_000, (10_000, 5_000_000), 1, "--max-bytes 500MB makes shards of about 500 MB"),
        (128, 1_280_000_000, (10_000, 10**9), 128, "--parts 2 makes shards of about 500 MB"),
        (512, 512_000_000, (10, 10**9), 128, "--max-samples 5000 makes shards of about 500 MB"),
    ],
)
def test_small_shards_are_answered_by_the_option_that_made_them_small(
    shards: int, size: int, limits: tuple[int | None, int | None], parts: int, said: str
) -> None:
    (advised,) = advice(shards, size, *limits, parts=parts)
    assert advised.endswith(said)


def test_everything_is_said_once() -> None:
    text = str(dataclasses.replace(SUMMARY, duplicates=3, resumed=2, empty=("bee",), advice=("do this",)))
    assert text.splitlines() == [
        "packed 4 pictures of 1 of 2 classes into 2 shards, 5.0 MB: out/dataset.json",
        "not packed: 1 truncated; see out/failures.jsonl",
        "left out: 3 duplicates; see out/failures.jsonl",
        "went on where an earlier run was stopped: 2 samples were there",
        "left out: 2 hidden",
        "warning: 1 class has no pictures: 'bee'",
        "packed as they are: 1 of another format than their name says",
        "advice: do this",
    ]


def test_splits_are_added_up_and_shown_each() -> None:
    val = dataclasses.replace(SUMMARY, packed=1, shards=1, listing=Path("out/val/dataset.json"), failed={"damaged": 2})
    whole = total({"val": val, "train": SUMMARY})
    assert (whole.packed, whole.shards, whole.bytes, whole.misnamed) == (5, 3, 10_000_000, 2)
    assert whole.failed == {"damaged": 2, "truncated": 1}
    assert whole.listing == SUMMARY.listing
    lines = str(whole).splitlines()
    assert [line.split(": ")[-1] for line in lines[:2]] == ["out/val/dataset.json", "out/dataset.json"]
    assert sum("hidden" in line for line in lines) == 1

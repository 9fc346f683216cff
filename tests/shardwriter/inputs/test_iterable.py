import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwriter.inputs.iterable import Iterated, Sequenced, from_iterable
from tests.builders import picture
from wds_tools.errors import FieldRefusedError, KeyRefusedError, UsageError

Packed = Callable[..., Any]


def rows(count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        yield {"__key__": f"k{number}", "__url__": "x", "jpg": picture(number), "cls": number, "json": {"n": [number]}}


def test_a_generator_is_read_once_and_shuffled(tmp_path: Path, packed: Packed) -> None:
    told: list[int] = []
    with from_iterable(rows(20), temporary=tmp_path, progress=told.append) as samples:
        assert isinstance(samples, Iterated)
        done = packed(samples, shuffle=True, seed=1)
    assert done.rows == {f"k{n}": {"jpg": picture(n), "cls": b"%d" % n, "json": b'{"n":[%d]}' % n} for n in range(20)}
    assert list(done.rows) != [f"k{n}" for n in range(20)]
    assert sum(told) == 20
    assert os.listdir(tmp_path) == []


def test_pairs_and_arrays_are_samples_too(packed: Packed) -> None:
    with from_iterable((f"a/{n}", {"npy": np.full(3, n), "txt": "é"}) for n in range(2)) as samples:
        done = packed(samples)
    assert [row["txt"] for row in done.rows.values()] == ["é".encode()] * 2
    assert list(done.rows) == ["a/0", "a/1"]


def test_a_sequence_is_used_as_it_is(packed: Packed) -> None:
    class Data:
        asked = 0

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> dict[str, object]:
            self.asked += 1
            return {"__key__": f"{index}", "cls": index}

    data = Data()
    samples = from_iterable(data)  # type: ignore[arg-type]
    assert isinstance(samples, Sequenced)
    assert data.asked == 1
    assert packed(samples).rows == {str(n): {"cls": b"%d" % n} for n in range(3)}


def test_samples_that_cannot_be_encoded_are_reported_in_their_turn(packed: Packed) -> None:
    given: list[Any] = [
        {"__key__": "a", "cls": 1},
        {"__key__": "b", "cls": 1.5},
        {"__key__": "c", "jpg": np.zeros((4, 4, 3))},
        {"__key__": "d.e", "cls": 1},
        {"__key__": 5, "cls": 1},
        {"__key__": "f", "CLS": 1},
        {"__key__": "g", "cls": 2},
        {"__key__": "g", "cls": 3},
        {"__key__": "h"},
    ]
    with from_iterable(iter(given)) as samples:
        done = packed(samples)
        for index, error in [(1, FieldRefusedError), (3, KeyRefusedError), (4, KeyRefusedError)]:
            with pytest.raises(error):
                samples.sample(index)
    assert done.rows == {"a": {"cls": b"1"}, "g": {"cls": b"2"}}
    assert len(done.failures) == 7
    assert "sample 1: b" in done.failures[0]
    assert packed(from_iterable(given)).rows == done.rows


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "no samples"),
        (iter([]), "no samples"),
        ([{"jpg": b""}], "no __key__: its fields are jpg"),
        (iter([{"__key__": "a", "cls": 1}, 3]), "not a int"),
        ([("a", 3)], "not a tuple"),
        ("text", "no iterable"),
        ({"__key__": "a"}, "no iterable"),
    ],
)
def test_what_is_no_sample_is_said(given: Any, words: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError, match=words):
        from_iterable(given)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", [list, iter])
def test_keys_can_be_numbers(kind: Callable[[object], Any], packed: Packed) -> None:
    given = [{"__key__": "a.b", "cls": 1}, {"__key__": "c", "cls": 2}]
    with from_iterable(kind(given[1:]), keys="number") as samples:
        assert packed(samples).rows == {"00000000": {"cls": b"2"}}
        assert (samples.renamed, samples.original(0), samples.key(0)) == (True, "c", "00000000")


def test_an_error_of_the_iterable_comes_through_and_leaves_nothing_open() -> None:
    def broken() -> Iterator[dict[str, object]]:
        yield {"__key__": "a", "cls": 1}
        raise ZeroDivisionError

    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError):
        from_iterable(broken())
    assert len(os.listdir("/proc/self/fd")) == before


def test_fingerprints_tell_samples_apart() -> None:
    with from_iterable(rows(3)) as one, from_iterable(rows(3)) as same, from_iterable(rows(4)) as more:
        assert one.fingerprint() == same.fingerprint()
        assert {name for name, value in more.fingerprint().items() if value != one.fingerprint()[name]} == {
            "samples", "bytes", "names",
        }  # fmt: skip

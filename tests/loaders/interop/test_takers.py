"""Positions dealt to workers of ranks: each once, evenly, and a rank's whatever its workers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.interop.takers import Taker, taken
from wds_tools.errors import TooFewSamplesError


@given(st.integers(0, 200), st.integers(1, 8), st.integers(1, 6), st.booleans())
def test_takers_have_every_position_once(samples: int, ranks: int, workers: int, shuffle: bool) -> None:
    takers = ranks * workers

    def shares(tail: Any) -> list[list[int]]:
        places = (Taker(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers))
        return [taken(samples, place, shuffle=shuffle, tail=tail).tolist() for place in places]

    exact = shares("exact")
    assert sorted(itertools.chain(*exact)) == list(range(samples))
    assert max(map(len, exact)) - min(map(len, exact)) <= 1
    if samples < takers:
        with pytest.raises(TooFewSamplesError, match=f"has {samples} samples.*{takers} workers"):
            shares("drop")
        return
    even = shares("drop")
    assert {len(part) for part in even} == {samples // takers}
    assert sorted(itertools.chain(*even)) == list(range(samples - samples % takers))


@given(st.integers(0, 200), st.integers(1, 8), st.integers(1, 6), st.booleans())
def test_a_ranks_positions_do_not_depend_on_its_workers(samples: int, ranks: int, workers: int, shuffle: bool) -> None:
    for rank in range(ranks):
        alone = taken(samples, Taker(rank, ranks, 0, 1), shuffle=shuffle, tail="exact").tolist()
        shared = [taken(samples, Taker(rank, ranks, w, workers), shuffle=shuffle, tail="exact") for w in range(workers)]
        assert sorted(itertools.chain(*(part.tolist() for part in shared))) == alone

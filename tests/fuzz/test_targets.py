"""Whatever bytes a parser is fed, it takes them or raises one of our errors, in bounded memory (see targets.target).

Bounded for every run of the tests; `make fuzz` looks further, with the same targets.
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets.table import TARGETS
from tests.fuzz.targets.target import changed, tried


@functools.cache
def seeds(name: str) -> list[bytes]:
    return TARGETS[name].seeds()


@pytest.fixture(autouse=True)
def _measured(request: pytest.FixtureRequest) -> Iterator[None]:
    seeds(request.node.callspec.params["name"])  # what they import is not measured
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("name", TARGETS)
def test_most_of_what_it_begins_with_is_taken(name: str, tmp_path: Path) -> None:
    taken = [tried(TARGETS[name], seed, tmp_path) for seed in seeds(name)]
    assert sum(taken) * 2 >= len(taken)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=300), st.tuples(st.integers(0, 1 << 32), st.booleans())))
def test_any_bytes_are_taken_or_refused_by_an_error_of_ours(
    name: str, tmp_path: Path, made: bytes | tuple[int, bool]
) -> None:
    target = TARGETS[name]
    if isinstance(made, bytes):
        data = made
    else:
        number, mend = made
        data = changed(seeds(name), number)
        data = target.mend(data) if mend else data
    tried(target, data, tmp_path)

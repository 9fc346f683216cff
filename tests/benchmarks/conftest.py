"""The benchmarks' material, of as many pictures as a batch of 64 for each of two workers, and a few more."""

from __future__ import annotations

import pytest

from benchmarks.material import Material, prepare

COUNT = 132


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return prepare(tmp_path_factory.mktemp("material"), count=COUNT)

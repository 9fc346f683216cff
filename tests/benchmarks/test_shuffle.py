"""webdataset's order over lists of numbers is the one that it has over tars."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.shuffle import CASES, Case, webdataset_batches
from tests.builders import write_labels


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # webdataset leaves its files open
def test_it_is_the_order_of_the_real_pipeline(tmp_path: Path) -> None:
    import webdataset

    write_labels(tmp_path, [20] * 5)
    urls = [str(path) for path in sorted(tmp_path.glob("*.tar"))]
    real = webdataset.WebDataset(urls, shardshuffle=100, seed=0).shuffle(30, rng=random.Random(0))
    numbers = [int(sample["cls"]) for sample in real]
    case = Case(samples=100, classes=10, shards=5, batch=10, goals={})
    assert webdataset_batches(case, buffer=30).samples.reshape(-1).tolist() == numbers


def test_ranks_and_workers_have_shards_of_their_own() -> None:
    case = Case(samples=240, classes=12, shards=12, batch=10, world=2, goals={})
    batches = webdataset_batches(case, buffer=30, workers=3)
    assert batches.samples.shape == (1, 12, 20)
    parts = batches.parts(batches.samples).reshape(12, 2, 10)
    for rank in range(2):
        for worker in range(3):
            shards = set((parts[worker::3, rank] // 20).reshape(-1).tolist())
            assert shards == {rank + 2 * worker, rank + 2 * worker + 6}
    assert sorted(batches.samples.reshape(-1).tolist()) == list(range(240))


def test_cases_have_the_labels_they_say() -> None:
    for case in CASES:
        counts = np.bincount(case.labels())
        assert (len(counts), set(counts.tolist())) == (case.classes, {case.samples // case.classes})

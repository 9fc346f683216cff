"""How lanes fall to ranks: the figure that is said, held against the plan itself, and the number that avoids it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaders import Reading, ShardLoader
from loaders.lanes import nearest_lanes, ranks_per_block
from loaders.plan import Plan
from loaders.torch import ShardDataset
from tests.builders import write_labels


@given(lanes=st.integers(1, 24), block=st.integers(1, 8), world=st.integers(1, 12), count=st.integers(1, 300))
def test_so_many_ranks_read_from_a_block(lanes: int, block: int, world: int, count: int) -> None:
    counts = np.array([count * block], dtype=np.int64)
    plan = Plan(counts=counts, sizes=counts * 100, lanes=lanes, block=block)
    positions = np.arange(plan.samples)
    blocks = plan.epoch(0).samples(positions) // block
    lane_and_block = positions % lanes + lanes * blocks  # a block that lies across a cut is two pieces
    ranks: dict[int, set[int]] = {int(piece): set() for piece in lane_and_block}
    for piece, rank in zip(lane_and_block.tolist(), (positions % world).tolist(), strict=True):
        ranks[piece].add(rank)
    assert max(map(len, ranks.values())) <= ranks_per_block(lanes=lanes, block=block, world_size=world)
    if count * block >= 2 * lanes * block:  # then some block lies wholly in a lane
        assert max(map(len, ranks.values())) == ranks_per_block(lanes=lanes, block=block, world_size=world)


@given(lanes=st.integers(1, 2000), world=st.integers(1, 300))
def test_the_nearest_number_of_lanes_divides(lanes: int, world: int) -> None:
    found = nearest_lanes(lanes, world)
    assert found % world == 0
    assert found >= world
    assert abs(found - lanes) == min(abs(k * world - lanes) for k in range(1, lanes // world + 3))


def _said(folder: str, caplog: pytest.LogCaptureFixture, *, rank: int, world: int, lanes: int) -> list[str]:
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, logger="loaders.lanes"),
        ShardLoader(
            folder,
            batch_size=8,
            fields=("cls",),
            lanes=lanes,
            read=Reading(block_bytes=1 << 16),
            rank=rank,
            world_size=world,
        ) as loader,
    ):
        len(loader)
        next(iter(loader))
        loader.close()
        next(iter(loader))
    return [record.getMessage() for record in caplog.records]


def test_the_loader_says_it_once_for_all_ranks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_labels(tmp_path, [200, 200])
    assert _said(folder, caplog, rank=0, world=3, lanes=10) == [
        "3 ranks do not divide 10 lanes, so 3 of them read from each block; lanes=9 avoids that"
    ]
    assert _said(folder, caplog, rank=1, world=3, lanes=10) == []
    assert _said(folder, caplog, rank=0, world=3, lanes=9) == []
    assert _said(folder, caplog, rank=0, world=3, lanes=400) == []  # blocks of one sample are nobody's to share


@pytest.mark.parametrize("workers", [0, 2])
def test_the_dataset_says_it_once_for_all_workers_and_epochs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], workers: int
) -> None:
    folder = write_labels(tmp_path, [200, 200])
    options: Any = {"batch_size": 8, "fields": ("cls",), "lanes": 10, "read": Reading(block_bytes=1 << 16)}
    handler = logging.StreamHandler()  # of the standard error, which the workers share
    log = logging.getLogger("loaders.lanes")
    log.addHandler(handler)
    try:
        for rank in (0, 1):
            with ShardDataset(folder, rank=rank, world_size=3, **options) as dataset:
                for epoch in range(2):
                    dataset.set_epoch(epoch)
                    assert len(list(DataLoader(dataset, batch_size=None, num_workers=workers))) == 16
    finally:
        log.removeHandler(handler)
    assert capfd.readouterr().err.count("3 ranks do not divide 10 lanes") == 1

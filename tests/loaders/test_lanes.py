"""How lanes fall to ranks: the figure that is said, held against the plan itself, and the number that avoids it."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders import Reading, ShardLoader
from loaders.lanes import nearest_lanes, ranks_per_block
from loaders.plan import Plan
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
    return [record.getMessage() for record in caplog.records]


def test_the_loader_says_it_once_for_all_ranks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_labels(tmp_path, [200, 200])
    assert _said(folder, caplog, rank=0, world=3, lanes=10) == [
        "3 ranks do not divide 10 lanes, so 3 of them read from each block; lanes=9 avoids that"
    ]
    assert _said(folder, caplog, rank=1, world=3, lanes=10) == []
    assert _said(folder, caplog, rank=0, world=3, lanes=9) == []
    assert _said(folder, caplog, rank=0, world=3, lanes=400) == []  # blocks of one sample are nobody's to share

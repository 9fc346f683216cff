"""Who reads what, and the shuffle buffer: as properties of the data alone."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from loaders.stream.order import Gauge, deal, shuffled, words


class Weighed(NamedTuple):
    number: int
    nbytes: int


def in_buffer_order(items: list[Weighed], limit: int, *, seed: int = 0, rank: int = 0) -> tuple[list[Weighed], int]:
    gauge = Gauge()
    draws = words(seed=seed, epoch=0, rank=rank)
    given = list(shuffled(iter(items), limit=limit, draws=draws, gauge=gauge))
    assert gauge.nbytes == 0
    return given, gauge.peak


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5), st.booleans())
def test_every_piece_is_read_by_exactly_one_rank_and_none_is_idle(
    shards: int, world_size: int, epoch: int, shuffle: bool
) -> None:
    deals = [
        deal(shards, seed=3, epoch=epoch, shuffle=shuffle, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    shares = [mine for mine, _ in deals]
    assert all(shares)
    assert all(sorted(mine + others) == sorted(sum(shares, [])) for mine, others in deals)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    parts = -(-world_size // shards)
    assert sorted(itertools.chain(*shares)) == [(s, p, parts) for s in range(shards) for p in range(parts)]


def test_the_deal_differs_between_epochs_and_seeds() -> None:
    deals = {
        (seed, epoch): tuple(deal(16, seed=seed, epoch=epoch, shuffle=True, rank=0, world_size=2)[0])
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(set(deals.values())) == len(deals)


def test_without_shuffle_shards_come_in_order() -> None:
    mine, _ = deal(7, seed=1, epoch=4, shuffle=False, rank=1, world_size=2)
    assert [piece.shard for piece in mine] == [1, 3, 5]


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 700))
def test_the_buffer_gives_everything_once_and_holds_no_more_than_its_limit(sizes: list[int], limit: int) -> None:
    items = [Weighed(number, size) for number, size in enumerate(sizes)]
    order, peak = in_buffer_order(items, limit)
    assert sorted(order) == items
    assert peak <= max([limit, *sizes])


def test_a_buffer_of_everything_is_a_perfect_shuffle() -> None:
    items = [Weighed(number, 1) for number in range(4)]
    orders = {tuple(in_buffer_order(items, 32, seed=seed)[0]) for seed in range(500)}
    assert len(orders) == 24  # every order there is


def test_ranks_draw_differently_and_each_repeatably() -> None:
    items = [Weighed(number, 1) for number in range(50)]
    assert in_buffer_order(items, 20, rank=0) == in_buffer_order(items, 20, rank=0)
    assert in_buffer_order(items, 20, rank=0) != in_buffer_order(items, 20, rank=1)


def test_the_first_sample_leaves_long_before_the_buffer_is_full() -> None:
    taken = iter([Weighed(number, 1) for number in range(1000)])
    first = next(iter(shuffled(taken, limit=800, draws=words(seed=0, epoch=0, rank=0), gauge=Gauge())))
    assert first.number <= 100
    assert next(taken).number <= 101


def test_the_order_of_the_buffer_is_pinned() -> None:
    # A saved state must mean the same rest of its epoch in any later version.
    items = [Weighed(number, 10) for number in range(12)]
    order, _ = in_buffer_order(items, 60, seed=7)
    assert [item.number for item in order] == [0, 2, 3, 1, 7, 5, 6, 8, 9, 4, 11, 10]

"""What is fetched, in which order, with which neighbours, and when it is forgotten. Nothing here waits or reads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.plan import Plan
from loaders.wanted import MERGED_BYTES, NEAR, Extent, Request, Spot, Wanted

SIZE = 1000  # bytes of a sample
DATA = memoryview(b"")


def spot(sample: int, *, shard: int = 0) -> Spot:
    return Spot(shard, sample * SIZE, (sample + 1) * SIZE)


def piece(first: int, count: int, *, shard: int = 0) -> Spot:
    return Spot(shard, first * SIZE, (first + count) * SIZE)


def taken(wanted: Wanted) -> list[Spot]:
    """Everything that can be fetched now, in order; each request is settled with bytes."""
    found = []
    while (request := wanted.take()) is not None:
        found.append(request.spot)
        wanted.settle(request, data=DATA)
    return found


def test_the_first_sample_brings_its_block_and_the_others_nothing_more() -> None:
    wanted = Wanted(budget=10**9)
    extents = [wanted.claim(spot(sample), piece(4, 3), left) for sample, left in ((5, 3), (6, 2), (4, 1))]
    assert len(set(map(id, extents))) == 1
    assert taken(wanted) == [piece(4, 3)]


def test_blocks_come_in_the_order_of_their_first_use() -> None:
    wanted = Wanted(budget=10**9)
    for first in (40, 0, 20):
        wanted.claim(spot(first), piece(first, 2), 2)
    assert taken(wanted) == [piece(40, 2), piece(0, 2), piece(20, 2)]


def test_a_block_is_held_until_its_last_sample_was_decoded() -> None:
    wanted = Wanted(budget=10**9)
    first = wanted.claim(spot(0), piece(0, 2), 2)
    request = wanted.take()
    assert request is not None
    wanted.settle(request, data=DATA)
    assert not wanted.release(first)  # the second was not announced yet
    second = wanted.claim(spot(1), piece(0, 2), 1)
    assert second is first
    assert wanted.held == 2 * SIZE
    assert wanted.release(second)
    assert request.data is None
    assert wanted.held == 0


def test_what_is_released_before_it_was_fetched_is_not_fetched() -> None:
    wanted = Wanted(budget=10**9)
    wanted.release(wanted.claim(spot(0), piece(0, 1), 1))
    kept = wanted.claim(spot(1), piece(1, 1), 1)
    assert taken(wanted) == [piece(1, 1)]
    wanted.release(kept)
    assert wanted.held == 0


def test_an_epoch_that_ends_lets_go_of_its_open_blocks() -> None:
    wanted = Wanted(budget=10**9)
    extent = wanted.claim(spot(0), piece(0, 5), 5)
    assert taken(wanted) == [piece(0, 5)]
    wanted.end_epoch()
    assert wanted.held == 5 * SIZE
    wanted.release(extent)
    assert wanted.held == 0


def test_the_budget_holds_requests_back_until_there_is_room() -> None:
    wanted = Wanted(budget=5 * SIZE)
    extents = [wanted.claim(spot(first), piece(first, 2), 1) for first in (0, 10, 20)]
    requests = [wanted.take(), wanted.take()]
    assert wanted.take() is None
    for request in requests:
        assert request is not None
        wanted.settle(request, data=DATA)
    assert wanted.take() is None  # they are there, and not decoded
    wanted.release(extents[0])
    request = wanted.take()
    assert request is not None
    assert request.spot == piece(20, 2)


def test_what_is_larger_than_the_budget_comes_alone() -> None:
    wanted = Wanted(budget=SIZE)
    first = wanted.claim(spot(0), piece(0, 50), 1)
    wanted.claim(spot(60), piece(60, 1), 1)
    request = wanted.take()
    assert request is not None
    assert request.spot == piece(0, 50)
    assert wanted.take() is None
    wanted.settle(request, data=DATA)
    wanted.release(first)
    assert taken(wanted) == [piece(60, 1)]


def test_what_somebody_waits_for_comes_next_and_whatever_the_budget() -> None:
    wanted = Wanted(budget=2 * SIZE)
    wanted.claim(spot(0), piece(0, 2), 2)
    assert wanted.take() is not None
    wanted.claim(spot(10), piece(10, 2), 2)
    late = wanted.claim(spot(20), piece(20, 2), 2)
    assert wanted.take() is None
    wanted.urge(late)
    request = wanted.take()
    assert request is not None
    assert request.spot == piece(20, 2)
    assert wanted.take() is None


def test_neighbours_come_in_one_request_up_to_its_limit() -> None:
    size = MERGED_BYTES // 4
    wanted = Wanted(budget=10**9)
    spots = [Spot(0, at * size, (at + 1) * size) for at in (3, 2, 4, 1, 0, 9)]
    for each in spots:
        wanted.claim_alone(each)
    assert taken(wanted) == [Spot(0, size, 5 * size), Spot(0, 0, size), spots[-1]]


def test_neighbours_that_are_needed_much_later_come_later() -> None:
    wanted = Wanted(budget=10**9)
    wanted.claim_alone(spot(0))
    others = [wanted.claim_alone(spot(2 * at)) for at in range(5, 5 + NEAR)]
    wanted.claim_alone(spot(1))
    assert taken(wanted) == [spot(0), *(other.spot for other in others), spot(1)]


def test_neighbours_of_other_shards_are_none() -> None:
    wanted = Wanted(budget=10**9)
    wanted.claim_alone(Spot(0, 0, 512))
    wanted.claim_alone(Spot(1, 512, 1024))
    assert taken(wanted) == [Spot(0, 0, 512), Spot(1, 512, 1024)]


def test_a_first_batch_asks_for_its_samples_alone_and_the_blocks_leave_them_out() -> None:
    wanted = Wanted(budget=10**9)
    block = piece(10, 4)
    alone = [wanted.claim_alone(spot(11), block), wanted.claim_alone(spot(30), piece(29, 2))]
    assert taken(wanted) == [spot(11), spot(30)]
    after = wanted.claim(spot(13), block, 3)
    assert taken(wanted) == [piece(12, 2), piece(10, 1)]  # that which is needed first
    before = wanted.claim(spot(10), block, 2)
    assert before is not after
    assert before.spot == piece(10, 1)
    for extent in (*alone, after, before):
        wanted.release(extent)
    wanted.end_epoch()
    assert wanted.held == 0


def test_an_error_takes_no_room_and_reaches_all_who_claim_it() -> None:
    wanted = Wanted(budget=10**9)
    extents = [wanted.claim_alone(Spot(0, 0, 512)), wanted.claim_alone(Spot(0, 512, 1024))]
    request = wanted.take()
    assert request is not None
    error = OSError("gone")
    wanted.settle(request, error=error)
    assert wanted.held == 0
    assert [extent.request.error for extent in extents if extent.request is not None] == [error, error]


class Played:
    """An epoch announced, fetched and decoded as a loader does it, with what happened."""

    def __init__(self, plan: Plan, *, rank: int, world_size: int, step: int, budget: int) -> None:
        self.plan, self.wanted = plan, Wanted(budget=budget)
        self.fetched: Counter[int] = Counter()
        self.most = 0
        self._starts = np.concatenate(([0], np.cumsum(plan.counts)))
        self.waiting: list[tuple[Extent, Spot]] = []
        order = plan.epoch(0)
        positions = np.arange(rank, plan.samples, world_size)
        for begin in range(0, len(positions), step):
            self._announce(order, positions[begin : begin + step])
            if begin:
                self._decode(len(self.waiting) - step)
        self.wanted.end_epoch()
        self._decode(len(self.waiting))

    def _spot(self, first: int, count: int = 1) -> Spot:
        shard = int(np.searchsorted(self._starts, first, side="right")) - 1
        inside = first - int(self._starts[shard])
        assert inside + count <= self.plan.counts[shard]
        return Spot(shard, inside * SIZE, (inside + count) * SIZE)

    def _announce(self, order: Any, positions: Any) -> None:
        samples, pieces = order.samples(positions), order.pieces(positions)
        for sample, first, length, left in zip(samples.tolist(), *(c.tolist() for c in pieces), strict=True):
            here = self._spot(sample)
            self.waiting.append((self.wanted.claim(here, self._spot(first, length), left), here))
        self._fetch()

    def _fetch(self) -> None:
        while (request := self.wanted.take()) is not None:
            self.most = max(self.most, self.wanted.held)
            self._came(request)

    def _came(self, request: Request) -> None:
        here = request.spot
        first = int(self._starts[here.shard]) + here.begin // SIZE
        self.fetched.update(range(first, first + (here.end - here.begin) // SIZE))
        self.wanted.settle(request, data=DATA)

    def _decode(self, count: int) -> None:
        for extent, here in self.waiting[:count]:
            if extent.request is None:
                self.wanted.urge(extent)
                self._fetch()
            request = extent.request
            assert request is not None
            assert request.done
            assert request.data is not None
            assert request.spot.begin <= here.begin < here.end <= request.spot.end
            self.wanted.release(extent)
            self._fetch()
        del self.waiting[:count]


counts = st.lists(st.integers(0, 30), min_size=1, max_size=5).filter(sum)


@given(counts, st.integers(1, 12), st.integers(1, 6), st.integers(1, 40), st.integers(0, 9))
def test_every_sample_is_there_when_it_is_decoded_and_each_byte_is_fetched_once(
    counts: list[int], lanes: int, block: int, step: int, seed: int
) -> None:
    array = np.array(counts)
    plan = Plan(counts=array, sizes=array * SIZE, seed=seed, lanes=lanes, block=block)
    played = Played(plan, rank=0, world_size=1, step=step, budget=10**9)
    assert played.fetched == Counter(range(plan.samples))
    assert played.wanted.held == 0


@given(counts, st.sampled_from([2, 3, 4]), st.integers(1, 5), st.integers(1, 20))
def test_ranks_that_divide_the_lanes_fetch_each_byte_once_between_them(
    counts: list[int], world_size: int, block: int, step: int
) -> None:
    array = np.array(counts)
    plan = Plan(counts=array, sizes=array * SIZE, lanes=12, block=block)
    together: Counter[int] = Counter()
    for rank in range(world_size):
        together += Played(plan, rank=rank, world_size=world_size, step=step, budget=10**9).fetched
    assert together == Counter(range(plan.samples))


@given(counts, st.integers(1, 8), st.integers(1, 6), st.integers(1, 40), st.integers(1, 30))
def test_a_small_budget_never_keeps_a_sample_from_coming(
    counts: list[int], lanes: int, block: int, step: int, budget: int
) -> None:
    array = np.array(counts)
    plan = Plan(counts=array, sizes=array * SIZE, lanes=lanes, block=block)
    played = Played(plan, rank=0, world_size=1, step=step, budget=budget * SIZE)
    assert set(played.fetched) == set(range(plan.samples))
    assert played.wanted.held == 0


@pytest.mark.parametrize("lanes", [4, 10])
def test_a_budget_of_the_open_lanes_is_kept(lanes: int) -> None:
    array = np.array([400, 400])
    plan = Plan(counts=array, sizes=array * SIZE, lanes=lanes, block=8)
    need = lanes * 8 * SIZE
    played = Played(plan, rank=0, world_size=1, step=16, budget=2 * need)
    assert need / 2 < played.most <= 2 * need
    assert played.fetched == Counter(range(plan.samples))

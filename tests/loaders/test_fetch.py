"""The fetching threads: bytes come, errors are kept for who needs them, and an end is an end for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loaders.fetch import Ahead, Claim, Fetcher
from loaders.wanted import Spot
from wds_tools.errors import UnavailableError, UsageError


class Shard:
    """A shard whose bytes are their own offsets, and which can be made to wait, to fail or to be on the disk."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.asked.append((offset, len(buffer)))
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        buffer[:] = bytes((offset + at) % 251 for at in range(len(buffer)))


class Kept(Shard):
    """One that a cache on disk may take."""

    room = True

    def fetch(self, offset: int, length: int) -> bool:
        self.asked.append((offset, length))
        return self.room


@contextmanager
def fetching(shard: Shard, *, threads: int = 2, budget: int = 1 << 20) -> Iterator[Fetcher]:
    fetcher = Fetcher(lambda _: shard, threads=threads, budget=budget)
    try:
        yield fetcher
    finally:
        fetcher.stop()
        shard.gate.set()
        fetcher.join()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("shardstream-fetch")]


def spots(*begins: int, size: int = 100) -> list[Spot]:
    return [Spot(0, begin, begin + size) for begin in begins]


def announced(ahead: Ahead, *begins: int) -> list[Claim]:
    return ahead.claims(spots(*begins), None, [1] * len(begins), singly=False)


def expected(begin: int, size: int = 100) -> bytes:
    return bytes((begin + at) % 251 for at in range(size))


def test_what_was_announced_is_there_and_neighbours_came_together() -> None:
    shard = Shard()
    with fetching(shard, threads=1) as fetcher:
        claims = announced(fetcher.begin(), 500, 100, 600, 900)
        for claim, begin in zip(claims, (500, 100, 600, 900), strict=True):
            data = claim.data()
            assert data is not None
            assert bytes(data) == expected(begin)
            claim.release()
        assert shard.asked == [(500, 200), (100, 100), (900, 100)]
        assert (fetcher.traffic.requests, fetcher.traffic.bytes) == (3, 400)


def test_bytes_stay_for_as_long_as_they_are_looked_at() -> None:
    with fetching(Shard()) as fetcher:
        (claim,) = announced(fetcher.begin(), 0)
        data = claim.data()
        claim.release()
        assert data is not None
        assert bytes(data) == expected(0)


def test_an_error_is_raised_by_every_claim_on_these_bytes_and_by_no_other() -> None:
    shard = Shard()
    shard.error = UnavailableError("the host is down", url="http://h/x")
    with fetching(shard, threads=1) as fetcher:
        ahead = fetcher.begin()
        claims = announced(ahead, 0, 100)
        raised = []
        for claim in claims:
            with pytest.raises(UnavailableError, match="down") as caught:
                claim.data()
            raised.append(caught.value)
        assert raised[0] is not raised[1]  # each is given its own place
        shard.error = None
        (good,) = announced(ahead, 700)
        assert good.data() is not None


def test_what_is_waited_for_is_fetched_whatever_the_budget() -> None:
    with fetching(Shard(), budget=100) as fetcher:
        first, second, third = announced(fetcher.begin(), 0, 500, 1000)
        for claim in (third, second, first):  # none is released before all came
            assert claim.data() is not None
        assert fetcher.traffic.wait_seconds > 0


def test_who_waits_is_told_when_it_is_over() -> None:
    shard = Shard()
    shard.gate.clear()
    with fetching(shard) as fetcher:
        (claim,) = announced(fetcher.begin(), 0)
        said: list[BaseException] = []

        def wait() -> None:
            try:
                claim.data()
            except UsageError as error:
                said.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        fetcher.stop()
        waiting.join(20)
        assert len(said) == 1


def test_a_new_run_drops_what_the_old_one_wanted() -> None:
    shard = Shard()
    shard.gate.clear()
    with fetching(shard, threads=1) as fetcher:
        old = announced(fetcher.begin(), 0, 500, 1000)
        new = announced(fetcher.begin(), 2000)
        with pytest.raises(UsageError):
            old[2].data()
        shard.gate.set()
        assert new[0].data() is not None
        assert (500, 100) not in shard.asked
        assert (1000, 100) not in shard.asked


def test_a_fetcher_that_is_abandoned_ends_by_itself() -> None:
    fetcher = Fetcher(lambda _: Shard(), threads=2, budget=1000)
    (claim,) = announced(fetcher.begin(), 0)
    claim.data()
    fetcher.abandon()
    fetcher.join()


def test_what_the_cache_on_disk_took_is_read_from_there_and_takes_no_memory() -> None:
    shard = Kept()
    with fetching(shard, budget=100) as fetcher:
        claims = announced(fetcher.begin(), 0, 500, 1000)
        assert [claim.data() for claim in claims] == [None] * 3
        assert fetcher.traffic.bytes == 0


def test_what_the_cache_has_no_room_for_is_held_in_memory() -> None:
    shard = Kept()
    shard.room = False
    with fetching(shard) as fetcher:
        (claim,) = announced(fetcher.begin(), 300)
        data = claim.data()
        assert data is not None
        assert bytes(data) == expected(300)

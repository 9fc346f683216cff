"""Datasets in one cache: what is in use stays, the longest unused makes room, clearing takes what nobody uses."""

import os
from pathlib import Path

import pytest

from tests.wds_tools.sources.cached import EXTENT, MIB, Fake, content, cost, entry_files, opened, read, whole
from wds_tools.sources.cache import DiskCache
from wds_tools.sources.cache.groups import DATASETS
from wds_tools.sources.cache.layout import Layout
from wds_tools.sources.cache.names import group_name

SIZE = 2 * MIB
COST = cost(SIZE)


def shards(prefix: str, number: int) -> list[Fake]:
    return [Fake(content(SIZE, at), url=f"http://host/{prefix}{at}.tar") for at in range(number)]


def use(root: Path, limit: int, dataset: str, origins: list[Fake], *, when: float) -> None:
    """A run that ends, at a stated time."""
    with DiskCache(root, limit) as cache:
        for origin in origins:
            assert whole(cache, origin, dataset=dataset) == origin.data
    os.utime(root / "shards" / DATASETS / group_name(dataset), (when, when))


def held(root: Path) -> list[str]:
    return [path.name.split("-", 2)[2].removesuffix(".tar") for path in entry_files(root)]


def test_the_longest_unused_dataset_makes_room_and_only_as_much_as_is_needed(tmp_path: Path) -> None:
    limit = 4 * COST
    use(tmp_path, limit, "old", shards("o", 2), when=1000)
    use(tmp_path, limit, "older", shards("p", 2), when=500)
    with DiskCache(tmp_path, limit) as cache:
        new = shards("n", 4)
        for number, origin in enumerate(new, 1):
            assert whole(cache, origin, dataset="new") == origin.data
            assert held(tmp_path)[:number] == [f"n{at}" for at in range(number)]
            assert [name[0] for name in held(tmp_path)[number:]] == [["o", "o", "p"], ["o", "o"], ["o"], []][number - 1]
        assert cache.info().booked == limit
        assert [each.name for each in cache.info().datasets] == ["new"]


def test_nothing_of_a_dataset_in_use_makes_room(tmp_path: Path) -> None:
    limit = 3 * COST
    with DiskCache(tmp_path, limit) as cache:
        for origin in shards("a", 2):
            whole(cache, origin, dataset="a")
        with DiskCache(tmp_path, limit) as other:
            for origin in shards("b", 3):
                assert whole(other, origin, dataset="b") == origin.data
        assert held(tmp_path) == ["a0", "a1", "b0"]


def test_a_shard_of_two_datasets_is_kept_once_and_for_as_long_as_either_is_used(tmp_path: Path) -> None:
    limit = 3 * COST
    both = shards("s", 2)
    use(tmp_path, limit, "large", [*both, *shards("l", 1)], when=500)
    use(tmp_path, limit, "small", both, when=1000)
    assert [sum(length for _, length in origin.asked) for origin in both] == [SIZE, SIZE]
    assert len(held(tmp_path)) == 3
    with DiskCache(tmp_path, limit) as cache:
        whole(cache, both[0], dataset="small")
        for origin in shards("n", 3):
            whole(cache, origin, dataset="new")
        assert held(tmp_path) == ["n0", "s0", "s1"]


def test_entries_on_no_list_go_first(tmp_path: Path) -> None:
    use(tmp_path, 2 * COST, "a", shards("a", 1), when=1000)
    use(tmp_path, 2 * COST, "b", shards("b", 1), when=2000)
    (tmp_path / "shards" / DATASETS / group_name("b")).unlink()
    with DiskCache(tmp_path, 2 * COST) as cache:
        whole(cache, shards("n", 1)[0], dataset="n")
    assert held(tmp_path) == ["a0", "n0"]


def test_info_tells_datasets_apart(tmp_path: Path) -> None:
    use(tmp_path, 100 * COST, "http://me:pw@h/a and more", shards("a", 2), when=1000)
    with DiskCache(tmp_path) as cache:
        origin = Fake(content(9 * MIB), url="http://host/b.tar")
        with opened(cache, origin, dataset="b") as file:
            read(file, 0, 1)
            info = DiskCache(tmp_path).info()
    assert (info.shards, info.whole, info.bytes) == (3, 2, 2 * SIZE + EXTENT)
    assert info.booked >= info.on_disk >= info.bytes
    first, second = info.datasets
    assert (first.shards, first.bytes, first.of, first.used_at, first.in_use) == (2, 2 * SIZE, 2 * SIZE, 1000, False)
    assert (second.name, second.bytes, second.of, second.in_use) == ("b", EXTENT, 9 * MIB, True)
    assert not DiskCache(tmp_path / "none").info().datasets


def test_clearing_takes_what_nobody_uses(tmp_path: Path) -> None:
    use(tmp_path, 100 * COST, "a", shards("a", 2), when=1000)
    with DiskCache(tmp_path) as cache:
        (origin,) = shards("b", 1)
        whole(cache, origin, dataset="b")
        cleared = cache.clear()
        assert (cleared.shards, cleared.bytes, cleared.in_use) == (2, 2 * COST, 1)
        assert held(tmp_path) == ["b0"]
        assert whole(cache, origin, dataset="b") == origin.data
        assert len(origin.asked) == 1
        assert cache.info().booked == COST
    cleared = DiskCache(tmp_path).clear()
    assert (cleared.shards, cleared.in_use, held(tmp_path)) == (1, 0, [])
    assert not list((tmp_path / "shards" / DATASETS).iterdir())
    assert DiskCache(tmp_path / "none").clear().shards == 0


def test_clearing_some_urls_takes_all_their_versions(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        for version in ("1", "2"):
            for origin in shards("a", 2):
                with opened(cache, origin, version=version, dataset="a") as file:
                    read(file, 0, 1)
    cleared = DiskCache(tmp_path).clear(["HTTP://host:80/a0.tar#x", "http://host/none.tar"])
    assert cleared.shards == 2
    assert held(tmp_path) == ["a1", "a1"]


@pytest.mark.parametrize("threads", [1, 4])
def test_warming_brings_whole_shards_and_says_how_far_it_came(tmp_path: Path, threads: int) -> None:
    origins = {origin.url: origin for origin in shards("a", 5)}
    moved: list[int] = []
    limit = 3 * COST + 2 * Layout(SIZE).overhead
    with DiskCache(tmp_path, limit) as cache:
        warmed = cache.warm(
            [(url, SIZE if at % 2 else None) for at, url in enumerate(origins)],
            origins.__getitem__,
            dataset="a",
            advance=moved.append,
            threads=threads,
        )
    assert (warmed.shards, warmed.whole, warmed.bytes, warmed.kept) == (5, 3, 5 * SIZE, 3 * SIZE)
    assert sum(moved) == 3 * SIZE
    assert all(origin.closed == 1 for origin in origins.values())
    with DiskCache(tmp_path, limit) as cache:
        again = cache.warm([(url, SIZE) for url in origins], origins.__getitem__, dataset="a", threads=threads)
        assert cache.report()["fetched"] == 0
    assert again == warmed

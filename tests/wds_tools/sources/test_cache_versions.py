"""An object that changes is another one: what is cached of the old is never mixed with it, nor believed for long."""

import logging
import os
import time
from pathlib import Path

import pytest

from tests.wds_tools.sources.cached import EXTENT, MIB, Fake, content, cost, entry_files, opened, read, whole
from wds_tools.errors import ShardChangedError, UnavailableError
from wds_tools.sources.cache import DiskCache

OLD, NEW = content(9 * MIB, 1), content(9 * MIB, 2)


def age(root: Path, seconds: float) -> None:
    for path in entry_files(root):
        os.utime(path, (time.time() - seconds,) * 2)


def test_versions_that_the_caller_knows_are_entries_of_their_own(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        for data, version in ((OLD, "1"), (NEW, "2")):
            with opened(cache, Fake(data, version=f'"{version}"'), version=version) as file:
                assert read(file, 0, len(data)) == data
        again = Fake(OLD)
        with opened(cache, again, version="1") as file:
            assert read(file, 0, len(OLD)) == OLD
        assert again.asked == []
    assert len(entry_files(tmp_path)) == 2


@pytest.mark.parametrize("tells", [True, False], ids=["the source compares", "the cache compares"])
def test_a_change_between_two_extents_is_an_error_and_the_next_start_is_clean(tmp_path: Path, tells: bool) -> None:
    class Silent(Fake):
        expect = None  # type: ignore[assignment]

    kind = Fake if tells else Silent
    with DiskCache(tmp_path) as cache:
        with opened(cache, kind(OLD, version='"1"')) as file:
            assert read(file, 0, 10) == OLD[:10]
        with opened(cache, kind(NEW, version='"2"')) as file:
            assert read(file, 5, 10) == OLD[5:15]
            with pytest.raises(ShardChangedError):
                read(file, EXTENT - 5, 10)
        assert cache.info().shards == 0
        assert whole(cache, kind(NEW, version='"2"')) == NEW
        assert cache.info().booked == cost(len(NEW))


def test_a_change_is_seen_where_nothing_more_is_admitted_too(tmp_path: Path) -> None:
    with DiskCache(tmp_path, 5 * MIB) as cache:
        with opened(cache, Fake(OLD, version='"1"')) as file:
            assert read(file, 0, len(OLD)) == OLD
        with opened(cache, Fake(NEW, version='"2"')) as file, pytest.raises(ShardChangedError):
            read(file, EXTENT - 5, 10)


def test_a_source_that_knows_its_version_at_once_begins_a_new_entry(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        assert whole(cache, Fake(OLD, version='"1"')) == OLD
        fresh = Fake(NEW, version='"2"')
        fresh.size()
        with cache.open(fresh.url, size=None, version=None, inner=fresh, dataset="d") as file:
            assert read(file, 0, len(NEW)) == NEW
        assert cache.info().shards == 1


def test_a_day_later_the_origin_is_asked_for_one_byte(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        assert whole(cache, Fake(OLD, version='"1"')) == OLD
    age(tmp_path, 25 * 3600)
    same, lately, changed = Fake(OLD, version='"1"'), Fake(OLD, version='"1"'), Fake(NEW, version='"2"')
    with DiskCache(tmp_path) as cache:
        assert whole(cache, same) == OLD
        assert whole(cache, lately) == OLD
        assert (same.asked, lately.asked) == ([(0, 1)], [])
        age(tmp_path, 25 * 3600)
        assert whole(cache, changed) == NEW
        assert cache.info().booked == cost(len(NEW))


def test_versions_from_a_listing_are_believed_without_asking(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        with opened(cache, Fake(OLD), version="sha256:1") as file:
            read(file, 0, len(OLD))
        age(tmp_path, 25 * 3600)
        origin = Fake(OLD)
        with opened(cache, origin, version="sha256:1") as file:
            assert read(file, 0, len(OLD)) == OLD
        assert origin.asked == []


def test_an_origin_out_of_reach_does_not_keep_anybody_from_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DiskCache(tmp_path) as cache:
        for url in ("http://h/a.tar", "http://h/b.tar"):
            assert whole(cache, Fake(OLD, url=url)) == OLD
        age(tmp_path, 25 * 3600)
        away = [Fake(OLD, url=url) for url in ("http://h/a.tar", "http://h/b.tar")]
        with caplog.at_level(logging.WARNING):
            for origin in away:
                origin.fault = UnavailableError("no route", url=origin.url)
                assert whole(cache, origin) == OLD
    assert [len(origin.asked) for origin in away] == [1, 0]
    assert len(caplog.records) == 1


def test_an_origin_without_versions_is_told_by_size(tmp_path: Path) -> None:
    with DiskCache(tmp_path) as cache:
        assert whole(cache, Fake(OLD, version=None)) == OLD
        age(tmp_path, 25 * 3600)
        again = Fake(OLD, version=None)
        assert whole(cache, again) == OLD
        assert whole(cache, Fake(NEW[:-1], version=None)) == NEW[:-1]
        assert (again.asked, cache.info().shards) == ([], 2)

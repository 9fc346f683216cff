"""Local files as sources: whole reads or errors that say where and what to do; threads, forks, descriptors."""

import contextlib
import errno
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from wds_tools.errors import ShardChangedError, ShardMissingError, TruncatedShardError, UnavailableError, UsageError
from wds_tools.sources.local import LocalFile
from wds_tools.sources.resolve import open_source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "a.tar"
    place.write_bytes(bytes(range(256)) * 40)
    return place


def read(source: LocalFile, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    source.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def open_descriptors() -> int:
    gc.collect()  # what earlier tests left to the collector is none of this one's
    return len(os.listdir("/proc/self/fd"))


def test_reads_anywhere_in_any_order(path: Path) -> None:
    with LocalFile(str(path)) as source:
        assert source.size() == 10240
        assert source.url == str(path)
        assert read(source, 10000, 240) == path.read_bytes()[10000:]
        assert read(source, 3, 5) == bytes(range(3, 8))
        assert read(source, 10240, 0) == b""
        source.announce(0, 4096)
        source.announce(1 << 40, 4096)


@pytest.mark.parametrize("most", [1, 7, 100, 10_240])
def test_one_read_fills_several_places(path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    preadv = os.preadv

    def short(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        """As a disk that gives only so much at a time."""
        left, given = most, []
        for buffer in buffers:
            given.append(buffer[:left])
            left -= len(given[-1])
        return preadv(descriptor, given, offset)

    monkeypatch.setattr(os, "preadv", short)
    content = path.read_bytes()
    with LocalFile(str(path)) as source:
        places = [bytearray(length) for length in (5, 0, 300, 1, 294)]
        source.scatter(100, [memoryview(place) for place in places])
        assert b"".join(places) == content[100:700]
        with pytest.raises(TruncatedShardError, match="10,240 bytes, 10,250 expected"):
            source.scatter(9990, [memoryview(bytearray(200)), memoryview(bytearray(60))])


def test_the_end_inside_a_read_is_an_error_with_the_offset(path: Path) -> None:
    with (
        LocalFile(str(path)) as source,
        pytest.raises(TruncatedShardError, match="10,240 bytes, 10,300 expected") as got,
    ):
        read(source, 10200, 100)
    assert (got.value.url, got.value.offset) == (str(path), 10240)


def test_a_file_that_shrinks_while_open_is_an_error(path: Path) -> None:
    with LocalFile(str(path)) as source:
        os.truncate(path, 100)
        assert read(source, 0, 100) == bytes(range(100))
        with pytest.raises(TruncatedShardError) as got:
            read(source, 0, 512)
        assert got.value.offset == 100


def test_short_reads_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: whole(fd, [views[0][:7]], at))
    with LocalFile(str(path)) as source:
        assert read(source, 100, 1000) == path.read_bytes()[100:1100]


def failing(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    whole, left = os.preadv, [times]

    def preadv(fd: int, views: list[memoryview], at: int) -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(number, os.strerror(number))
        return whole(fd, views, at)

    monkeypatch.setattr(os, "preadv", preadv)


def test_a_stale_handle_is_opened_again_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalFile(str(path)) as source:
        before = open_descriptors()
        failing(monkeypatch, errno.ESTALE, 1)
        assert read(source, 5, 300) == path.read_bytes()[5:305]
        assert open_descriptors() == before
        failing(monkeypatch, errno.ESTALE, 2)
        with pytest.raises(UnavailableError):
            read(source, 5, 300)


def test_a_stale_handle_is_an_error_where_another_file_may_lie(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalFile(str(path), reopen=False) as source:
        failing(monkeypatch, errno.ESTALE, 1)
        with pytest.raises(UnavailableError):
            read(source, 5, 300)


def test_a_stale_handle_of_another_file_by_now_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalFile(str(path)) as source:
        path.write_bytes(b"another")
        failing(monkeypatch, errno.ESTALE, 1)
        with pytest.raises(ShardChangedError, match="10,240"):
            read(source, 0, 7)


def test_a_disk_error_names_file_and_offset(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalFile(str(path)) as source:
        failing(monkeypatch, errno.EIO, 1)
        with pytest.raises(UnavailableError, match="disk") as got:
            read(source, 512, 10)
        assert (got.value.url, got.value.offset) == (str(path), 512)


def test_a_missing_file(tmp_path: Path) -> None:
    for url in (str(tmp_path / "no.tar"), str(tmp_path / "no" / "a.tar")):
        with pytest.raises(ShardMissingError) as got:
            open_source(url)
        assert got.value.url == url
        assert got.value.cure


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(path: Path) -> None:
    path.chmod(0)
    with pytest.raises(UnavailableError, match="right to read"):
        open_source(str(path))


def test_no_descriptors_left_names_ulimit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnavailableError, match="ulimit -n"):
        LocalFile(str(path)).open()


def test_folders_and_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(UsageError, match="a named pipe"):
        open_source(str(tmp_path / "pipe.tar"))
    with pytest.raises(UsageError, match="a folder"):
        open_source(str(tmp_path))
    with pytest.raises(UnavailableError):
        open_source(str(tmp_path / "nul\0.tar"))


def test_the_constructor_opens_nothing_and_a_closed_file_reads_nothing(path: Path) -> None:
    before = open_descriptors()
    source = LocalFile(str(path))
    assert open_descriptors() == before
    with pytest.raises(UnavailableError, match="not open"):
        read(source, 0, 1)
    source.open().open()
    assert open_descriptors() == before + 1
    source.close()
    source.close()
    source.announce(0, 1)
    assert open_descriptors() == before
    with pytest.raises(UnavailableError, match="not open"):
        read(source, 0, 1)


def test_three_hundred_shards_in_turn_leave_no_descriptor(path: Path) -> None:
    before = open_descriptors()
    for _ in range(300):
        with open_source(str(path)) as source:
            source.read_into(0, memoryview(bytearray(16)))
    assert open_descriptors() == before


def test_close_waits_for_reads_in_other_threads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else the number would go to the next file that is opened, and the reader would get that file's bytes.
    inside, go_on, whole = threading.Event(), threading.Event(), os.preadv
    found: list[bytes] = []

    def slow(fd: int, views: list[memoryview], at: int) -> int:
        inside.set()
        assert go_on.wait(20)
        return whole(fd, views, at)

    source = LocalFile(str(path)).open()
    before = open_descriptors()
    monkeypatch.setattr(os, "preadv", slow)
    reader = threading.Thread(target=lambda: found.append(read(source, 0, 100)))
    reader.start()
    assert inside.wait(20)
    source.close()
    assert open_descriptors() == before
    go_on.set()
    reader.join(20)
    assert found == [bytes(range(100))]
    assert open_descriptors() == before - 1


def test_many_threads_share_one_descriptor(path: Path) -> None:
    data, wrong = path.read_bytes(), []
    source = LocalFile(str(path)).open()

    def work(seed: int) -> None:
        for step in range(300):
            offset = (seed * 997 + step * 31) % 10000
            if read(source, offset, 240) != data[offset : offset + 240]:
                wrong.append(offset)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    before = open_descriptors()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert open_descriptors() == before
    source.close()
    assert open_descriptors() == before - 1


def in_child(work: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            status = 0 if work() else 1
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_reads_and_closes_its_own(path: Path) -> None:
    with LocalFile(str(path)) as source:

        def work() -> bool:
            good = read(source, 1, 9) == bytes(range(1, 10))
            source.close()
            return good

        assert in_child(work)
        assert read(source, 0, 4) == bytes(range(4))

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_hexdigest

from shardwriter import sink as module
from shardwriter.behind import Behind
from shardwriter.sink import Sink
from wds_tools.checksum import begin
from wds_tools.errors import TargetError, UnavailableError
from wds_tools.tar import END


def add(sink: Sink, *pieces: bytes) -> None:
    sink.add(pieces, sum(map(len, pieces)))


def test_has_a_hidden_name_until_it_is_whole(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "a.tar")
    add(sink, b"1" * 512, b"2" * 512)
    (name,) = os.listdir(tmp_path)
    assert name.startswith(".a.tar.")
    assert name.endswith(".tmp")
    sink.commit()
    assert os.listdir(tmp_path) == ["a.tar"]
    assert (tmp_path / "a.tar").read_bytes() == b"1" * 512 + b"2" * 512 + END


def test_discarding_leaves_nothing_and_may_come_twice_or_late(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "a.tar")
    add(sink, bytes(1 << 20))
    sink.discard()
    sink.discard()
    assert os.listdir(tmp_path) == []
    whole = Sink(tmp_path / "a.tar")
    whole.commit()
    whole.discard()
    assert os.listdir(tmp_path) == ["a.tar"]


def test_a_file_is_readable_by_whom_the_umask_lets_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        Sink(tmp_path / "a.tar").commit()
    finally:
        os.umask(before)
    assert (tmp_path / "a.tar").stat().st_mode & 0o777 == 0o644


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 50), st.integers(1, 7), st.integers(1, 200))
@settings(deadline=None)
def test_short_writes_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], most: int, batch: int, size: int
) -> None:
    """A kernel may take less than it is given, at any byte."""

    def writev(descriptor: int, buffers: list[bytes]) -> int:
        return os.write(descriptor, b"".join(buffers)[:most])

    path = tmp_path_factory.mktemp("short") / "a.tar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "writev", writev)
        patch.setattr(module, "BATCH_PIECES", batch)
        patch.setattr(module, "BATCH_BYTES", 3 * size)
        patch.setattr(module, "WRITE_BYTES", size)
        sink = Sink(path, "xxh3")
        for piece in pieces:
            add(sink, piece)
        sink.commit()
    assert path.read_bytes() == b"".join(pieces) + END
    assert sink.checksum == f"xxh3:{xxh3_64_hexdigest(path.read_bytes())}"


def test_writes_end_where_the_kernel_can_cache_large_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []

    def writev(descriptor: int, buffers: list[bytes]) -> int:
        ends.append((ends[-1] if ends else 0) + os.write(descriptor, b"".join(buffers)))
        return ends[-1] - (ends[-2] if len(ends) > 1 else 0)

    monkeypatch.setattr(os, "writev", writev)
    sink = Sink(tmp_path / "a.tar")
    pieces = [bytes([number]) * size for number, size in enumerate([300_000, 900_000, 5_000_000, 512, 1_000_000, 512])]
    for piece in pieces:
        add(sink, piece)
    sink.commit()
    assert (tmp_path / "a.tar").read_bytes() == b"".join(pieces) + END
    *inner, last = ends
    assert last == sink.size + len(END)
    assert [end // module.WRITE_BYTES for end in inner] == list(range(1, last // module.WRITE_BYTES + 1))
    assert not any(end % module.WRITE_BYTES for end in inner)


def test_many_pieces_and_large_ones(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "a.tar")
    pieces = [bytes([number % 256]) * (number * 7 % 3000) for number in range(5000)]
    add(sink, *pieces)
    sink.commit()
    assert (tmp_path / "a.tar").read_bytes() == b"".join(pieces) + END


def test_a_name_that_was_taken_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "a.tar")
    (tmp_path / "a.tar").write_text("somebody else's")
    with pytest.raises(TargetError, match="taken"):
        sink.commit()
    assert os.listdir(tmp_path) == ["a.tar"]
    assert (tmp_path / "a.tar").read_text() == "somebody else's"


@pytest.mark.parametrize("call", ["writev", "fsync"])
def test_an_error_of_the_disk_is_ours_with_a_cure_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink = Sink(tmp_path / "a.tar")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(UnavailableError, match=r"No space left.*a\.tar.*Free space") as caught:
        sink.commit()
    assert isinstance(caught.value.__cause__, OSError)
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="missing"):
        Sink(tmp_path / "missing" / "a.tar")


@pytest.mark.parametrize("kind", ["xxh3", "sha256"])
def test_a_checksum_is_that_of_the_whole_file(tmp_path: Path, kind: str) -> None:
    sink = Sink(tmp_path / "a.tar", kind)
    for number in range(50):
        add(sink, bytes([number]) * 20_000, b"", b"tail")
    sink.commit()
    digest = begin(kind)
    digest.update((tmp_path / "a.tar").read_bytes())
    assert sink.checksum == f"{kind}:{digest.hexdigest()}"
    with_none = Sink(tmp_path / "b.tar")
    with_none.commit()
    assert with_none.checksum is None


@pytest.mark.parametrize("kind", ["xxh3", None])
def test_writing_behind_gives_the_same_file(tmp_path: Path, kind: str | None) -> None:
    pieces = [bytes([number % 256]) * (number * 7919 % 400_000) for number in range(60)]
    with ThreadPoolExecutor(1) as thread:
        sinks = [Sink(tmp_path / "a.tar", kind), Sink(tmp_path / "b.tar", kind, Behind(thread))]
        for piece in pieces:
            for sink in sinks:
                add(sink, piece)
        for sink in sinks:
            sink.commit()
    assert (tmp_path / "b.tar").read_bytes() == (tmp_path / "a.tar").read_bytes() == b"".join(pieces) + END
    assert sinks[1].checksum == sinks[0].checksum
    assert sinks[1].size == sinks[0].size


def test_an_error_of_a_write_behind_comes_out_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", fail)
    with ThreadPoolExecutor(1) as thread:
        for later in (True, False):
            sink = Sink(tmp_path / "a.tar", None, Behind(thread))
            add(sink, bytes(2 << 20))
            with pytest.raises(UnavailableError, match=r"No space left.*a\.tar.*Free space"):
                for _ in range(9):
                    add(sink, bytes(2 << 20 if later else 512))
                sink.commit()
            sink.discard()
            assert os.listdir(tmp_path) == []


def test_discarding_waits_for_the_write_that_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor's number goes to the next file that is opened: no write may come after."""
    begun, gate = threading.Event(), threading.Event()
    fine: list[int] = []
    writev = os.writev

    def slow(descriptor: int, buffers: list[bytes]) -> int:
        begun.set()
        gate.wait(60)
        fine.append(os.fstat(descriptor).st_nlink)
        return writev(descriptor, buffers)

    monkeypatch.setattr(os, "writev", slow)
    with ThreadPoolExecutor(1) as thread:
        sink = Sink(tmp_path / "a.tar", None, Behind(thread))
        add(sink, bytes(1 << 20))
        assert begun.wait(60)
        threading.Timer(0.05, gate.set).start()
        sink.discard()
    assert fine
    assert set(fine) == {1}
    assert os.listdir(tmp_path) == []

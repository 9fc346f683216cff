"""Offsets: mapped, cut, pickled small, and refused where the file is another."""

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from wds_tools.errors import StaleIndexError
from wds_tools.index.offsets import Offsets, map_offsets, offsets_in, write_offsets

ROW = np.arange(0, 512 * 1000, 512, dtype=np.uint64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_offsets(tmp_path / "o.npy", [ROW[:300], ROW[300:300], ROW[300:]], length=1000)
    return tmp_path / "o.npy"


def test_the_file_is_plain_npy(path: Path) -> None:
    np.testing.assert_array_equal(np.load(path), ROW)


def test_a_mapped_row_pickles_as_a_path(path: Path) -> None:
    mapped = map_offsets(str(path), length=1000)
    np.testing.assert_array_equal(mapped.array, ROW)
    part = mapped[100:900][10:20]
    for whole, expected in ((mapped, ROW), (part, ROW[110:120])):
        data = pickle.dumps(whole)
        again = pickle.loads(data)
        assert len(data) < 300
        np.testing.assert_array_equal(again.array, expected)
        assert again.path == str(path)


def test_a_row_in_memory_pickles_its_part_only() -> None:
    data = pickle.dumps(Offsets(ROW.copy())[5:8])
    assert len(data) < 400
    np.testing.assert_array_equal(pickle.loads(data).array, ROW[5:8])


def test_nobody_writes_to_them(path: Path) -> None:
    for offsets in (map_offsets(str(path), length=1000), Offsets(ROW.copy())):
        with pytest.raises(ValueError, match="read-only"):
            offsets.array[0] = 1


def test_a_file_that_was_replaced_does_not_disturb_who_has_it_mapped(path: Path) -> None:
    mapped = map_offsets(str(path), length=1000)
    write_offsets(path, [ROW[:10] * np.uint64(3)], length=10)
    np.testing.assert_array_equal(mapped.array, ROW)
    with pytest.raises(StaleIndexError, match="10 numbers, 1,000 expected"):
        pickle.loads(pickle.dumps(mapped))


def test_other_files_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StaleIndexError, match="1,000 numbers, 999 expected"):
        map_offsets(str(path), length=999)
    with pytest.raises(StaleIndexError, match="missing"):
        map_offsets(str(tmp_path / "no.npy"), length=1)
    np.save(tmp_path / "f.npy", ROW.astype(np.float64))
    np.save(tmp_path / "2d.npy", ROW[:, None])
    np.save(tmp_path / "obj.npy", np.array([{}], dtype=object))
    for name in ("f.npy", "2d.npy", "obj.npy"):
        with pytest.raises(StaleIndexError):
            map_offsets(str(tmp_path / name), length=1000)
    whole = path.read_bytes()
    for cut in (0, 5, 100, 4000):
        (tmp_path / "cut.npy").write_bytes(whole[:cut])
        with pytest.raises(StaleIndexError, match="damaged"):
            map_offsets(str(tmp_path / "cut.npy"), length=1000)


def _resident_pages(path: Path) -> int:
    """KB of a mapped file that this process has looked at."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[at:] if line.startswith("Rss:"))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says what is resident")
def test_what_was_looked_at_is_forgotten_and_comes_again(tmp_path: Path) -> None:
    path, row = tmp_path / "large.offsets.npy", np.arange(1 << 18, dtype=np.uint64)
    write_offsets(path, [row], length=len(row))
    mapped = map_offsets(str(path), length=len(row))
    part = mapped[100 : 1 << 18]
    assert int(part.array.sum()) == int(row[100:].sum())
    assert _resident_pages(path) > 1000
    part.forget()
    assert _resident_pages(path) < 100
    assert np.array_equal(part.array, row[100:])


def test_a_row_in_memory_has_nothing_to_forget() -> None:
    held = Offsets(np.arange(10, dtype=np.uint64))
    held.forget()
    assert held.array.tolist() == list(range(10))


HEAD = b"\x93NUMPY\x01\x00"


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04" + bytes(100),  # an .npz, or any zip
        b"\x80\x04}q\x00.",  # a pickle
        b"<html>not found</html>",
        b"",
        HEAD,
        HEAD + (200).to_bytes(2, "little") + b"{" + b"(" * 199,
        HEAD + (80).to_bytes(2, "little") + b"{'descr': '<u8', 'fortran_order': False, 'shape': (-5,), }".ljust(80),
        HEAD + (80).to_bytes(2, "little") + b"{'descr': '|O', 'fortran_order': False, 'shape': (5,), }".ljust(80),
    ],
)
def test_whatever_is_no_offsets_file_is_our_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "dataset.offsets.npy"
    path.write_bytes(content)
    with pytest.raises(StaleIndexError) as caught:
        map_offsets(str(path), length=5)
    assert caught.value.url == str(path)
    assert "allow_pickle" not in str(caught.value)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StaleIndexError, match="no plain file"):
        map_offsets(str(tmp_path / "pipe"), length=5)


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY\x02\0" + (600_000_000).to_bytes(4, "little") + b"{'descr': '<u8'}",  # a header of 600 MB
        b"\x93NUMPY\x01\0\x40\0{'descr': '<u8', 'fortran_order': False, 'shape': (75000000,)}".ljust(73) + b"\n",
    ],
)
def test_no_room_is_made_for_what_a_file_only_announces(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "o.npy").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(StaleIndexError):
            map_offsets(str(tmp_path / "o.npy"), length=75_000_000)
        with pytest.raises(StaleIndexError):
            offsets_in(content, length=75_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_row_from_memory_is_that_of_the_file(path: Path) -> None:
    held = offsets_in(path.read_bytes(), length=1000)
    np.testing.assert_array_equal(held.array, ROW)
    with pytest.raises(StaleIndexError, match=r"1,000 numbers, 999 expected"):
        offsets_in(path.read_bytes(), length=999)

"""All or nothing on disk."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from wds_tools import addresses
from wds_tools.atomic import temporaries, temporary_beside, write_atomic
from wds_tools.errors import UnavailableError


def test_what_was_there_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old and longer")
    write_atomic(path, [b"ne", bytearray(b"w"), memoryview(b"!")])
    assert path.read_bytes() == b"new!"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_fault_half_way_leaves_what_was_there(tmp_path: Path, fault: type[BaseException]) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise fault

    with pytest.raises(fault):
        write_atomic(path, pieces())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_unfinished_forms_of_a_file_are_told_from_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "a+.json"
    left = sorted(temporary_beside(path) for _ in range(3))
    for each in (*left, path, temporary_beside(tmp_path / "aa.json"), temporary_beside(tmp_path / "b.a+.json")):
        each.touch()
    assert temporaries(path) == left


def test_readers_see_the_old_or_the_new_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    seen: list[bytes] = []
    others: list[str] = []

    def pieces() -> Iterator[bytes]:
        yield b"new" * 100_000
        seen.append(path.read_bytes())
        others.extend(name for name in os.listdir(tmp_path) if name != "a.json")

    write_atomic(path, pieces())
    assert seen == [b"old"]
    assert [addresses.is_temporary(name) for name in others] == [True]
    assert path.read_bytes() == b"new" * 100_000


def test_others_may_read_it_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "a", [b"x"], durable=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        write_atomic(tmp_path / "no" / "a", [b"x"])
    assert caught.value.url == str(tmp_path / "no" / "a")


def test_temporary_names_differ_and_match_nothing(tmp_path: Path) -> None:
    names = {temporary_beside(tmp_path / "a.tar").name for _ in range(50)}
    assert len(names) == 50
    assert all(addresses.is_temporary(name) and not addresses.is_shard_name(name) for name in names)

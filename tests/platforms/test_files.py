"""What is written where, and with which rights: read-only folders, umask, odd names, nothing beside the data."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import loaders
from loaders import CenterCrop, Reading, ShardLoader
from shardwriter import ShardWriter, pack
from tests.builders import picture, write_pictures
from wds_tools.cli import root
from wds_tools.errors import UnavailableError
from wds_tools.make_index import make_index
from wds_tools.verify import verify

ODD = [
    "with blanks",
    "hash#",
    "question?",
    "per%20cent",
    "ünï-猫",
    "a&b;c",
    "quote'\"",
    "{braces}",
    "[brackets]",
    "-dash",
]


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below with its size and time of change, the folders too."""
    found = [folder, *folder.rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def read_in_every_way(urls: str) -> int:
    """All that only looks; the number of samples."""
    with loaders.samples(urls) as samples:
        count = sum(1 for _ in samples)
    with loaders.open(urls) as dataset:
        assert len(dataset) == count
        assert dataset[0]["jpg"].ndim == 3
    with ShardLoader(urls, batch_size=4, image=CenterCrop(8), tail="exact") as loader:
        assert sum(len(batch.cls) for batch in loader) == count
    assert not verify(urls, decode=True).problems
    for command in (["info"], ["ls"], ["plan", "--tail", "exact"], ["verify"]):
        result = CliRunner().invoke(root, [*command, urls])
        assert result.exit_code == 0, result.output
    return count


def test_reading_writes_nothing_beside_the_data(tmp_path: Path) -> None:
    for listed in (False, True):
        folder = tmp_path / str(listed)
        urls = write_pictures(folder, [5, 7])
        if listed:
            make_index(urls)
        before = snapshot(folder)
        assert read_in_every_way(urls) == 12
        assert snapshot(folder) == before


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder of shards on a file system that refuses every write, the owner's and root's too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=False, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    write_pictures(disk / "shards", [5, 7])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)  # what was mapped may still be held


def test_a_read_only_folder_is_read_and_refused_to_writers_by_name(read_only: Path) -> None:
    assert read_in_every_way(str(read_only / "shards")) == 12
    with pytest.raises(UnavailableError, match=r"Read-only file system.*disk"):
        with ShardWriter(read_only / "out" / "s-%03d.tar") as writer:
            writer.write({"__key__": "k", "cls": 1})
    with pytest.raises(UnavailableError, match="Read-only file system"):
        make_index(str(read_only / "shards"))


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_what_is_written_has_the_rights_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    """Others may read a dataset: temporary files that are for their owner alone must not become it."""
    for number in range(6):
        path = tmp_path / "in" / f"c{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number) if number else b"broken")
    urls = write_pictures(tmp_path / "foreign", [3])
    before = os.umask(umask)
    try:
        pack(tmp_path / "in", tmp_path / "packed")
        with ShardWriter(tmp_path / "written" / "s-%03d.tar") as writer:
            writer.write({"__key__": "k", "cls": 1})
        make_index(urls, dali=True, energon=True)
        options: dict[str, Any] = {"on_error": "skip", "quarantine": tmp_path / "quarantine.jsonl", "tail": "exact"}
        with ShardWriter(tmp_path / "bad" / "s-%03d.tar") as writer:
            writer.write({"__key__": "k", "jpg": b"none", "cls": 1})
        with ShardLoader(tmp_path / "bad", batch_size=1, **options) as loader:
            list(loader)
    finally:
        os.umask(before)
    made = [path for name in ("packed", "written", "bad") for path in (tmp_path / name).iterdir()]
    made += [path for path in Path(urls).iterdir() if path.suffix != ".tar"]
    made.append(tmp_path / "quarantine.jsonl")
    assert {path.suffix for path in made} >= {".tar", ".json", ".npy", ".jsonl", ".txt", ".idx"}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made if path.is_file()} == {
        path.name: oct(0o666 & ~umask) for path in made if path.is_file()
    }
    folders = [tmp_path / name for name in ("packed", "written")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o777 & ~umask}


@pytest.mark.parametrize("name", ODD)
def test_odd_names_of_folders_and_files_go_through_the_whole_job(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / name / "in", tmp_path / name / "out"
    for number in range(8):
        path = source / f"class {name}" / f"{number} {name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    result = CliRunner().invoke(root, ["pack", str(source), str(out)])
    assert result.exit_code == 0, result.output
    assert read_in_every_way(str(out)) == 8
    with ShardLoader(
        str(out),
        batch_size=8,
        image=CenterCrop(8),
        read=Reading(cache_dir=tmp_path / name / "cache"),
        quarantine=tmp_path / name / "q.jsonl",
    ) as loader:
        assert loader.dataset.classes == (f"class {name}",)
        assert [len(batch.cls) for batch in loader] == [8]


def test_a_run_in_a_folder_that_was_removed_says_so(tmp_path: Path) -> None:
    """A relative path has no meaning there; what comes is an error of ours and no traceback of the system's."""
    code = """
import os, sys
from wds_tools.errors import ShardstreamError
import loaders
os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
try:
    list(loaders.samples("x-{0..1}.tar"))
except ShardstreamError as error:
    print(error)
"""
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run([sys.executable, "-c", code, gone], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout

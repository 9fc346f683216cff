"""What other processes and full disks do to a writer: real kills, real limits."""

import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwriter import ShardWriter
from wds_tools.dataset import open_dataset
from wds_tools.errors import TargetError, UnavailableError

Start = Callable[..., "subprocess.Popen[str]"]
Members = Callable[[Path], list[tuple[str, bytes]]]

ENDLESS = """
import sys
from shardwriter import ShardWriter
with ShardWriter(sys.argv[1], max_samples=40, max_bytes=None) as writer:
    for number in range(20_000):  # a gigabyte, should nobody stop it
        writer.write({"__key__": f"{number:06d}", "bin": bytes(50_000), "cls": number})
        if number == 130:
            print("three", flush=True)
        if number == 135 and len(sys.argv) > 2:
            sys.stdin.read()
    raise SystemExit("nobody stopped it")
"""


def check_whole_shards(folder: Path, members: Members) -> int:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".tar"))
    assert names == [f"s-{number:03d}.tar" for number in range(len(names))]
    for name in names:
        assert len(members(folder / name)) == 80
    return len(names)


def begun(script: Start, *arguments: object) -> "subprocess.Popen[str]":
    """An endless writer that is in its fourth shard."""
    process = script(ENDLESS, *arguments)
    assert process.stdout is not None
    assert process.stdout.readline() == "three\n"
    return process


def end(process: "subprocess.Popen[str]", number: int) -> str:
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()  # nothing, where it has ended
    return said


def test_a_kill_leaves_whole_shards_and_the_next_writer_cleans_up(
    tmp_path: Path, script: Start, members: Members
) -> None:
    end(begun(script, tmp_path / "s-%03d.tar"), signal.SIGKILL)
    assert check_whole_shards(tmp_path, members) >= 2
    assert not (tmp_path / "dataset.json").exists()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]

    assert len(open_dataset(tmp_path, cache_dir=tmp_path / "cache")) % 40 == 0
    with pytest.raises(TargetError, match="overwrite=True"), ShardWriter(tmp_path / "s-%03d.tar"):
        pass
    with ShardWriter(tmp_path / "s-%03d.tar", overwrite=True) as writer:
        writer.write({"__key__": "a", "cls": 1})
    assert sorted(set(os.listdir(tmp_path)) - {"cache"}) == ["dataset.json", "dataset.offsets.npy", "s-000.tar"]


def test_a_kill_in_the_first_shard_leaves_a_folder_that_is_free(tmp_path: Path, script: Start) -> None:
    code = ENDLESS.replace("max_samples=40", "max_samples=None").replace("130", "13")
    process = script(code, tmp_path / "s-%03d.tar")
    assert process.stdout is not None
    assert process.stdout.readline() == "three\n"
    end(process, signal.SIGKILL)
    (left,) = (name for name in os.listdir(tmp_path) if name.endswith(".tmp"))
    assert left.startswith(".s-000.tar.")
    with ShardWriter(tmp_path / "s-%03d.tar") as writer:
        writer.write({"__key__": "a", "cls": 1})
    assert sorted(os.listdir(tmp_path)) == ["dataset.json", "dataset.offsets.npy", "s-000.tar"]


def test_ctrl_c_leaves_whole_shards_and_nothing_else(tmp_path: Path, script: Start, members: Members) -> None:
    said = end(begun(script, tmp_path / "s-%03d.tar"), signal.SIGINT)
    assert "KeyboardInterrupt" in said
    count = check_whole_shards(tmp_path, members)
    assert sorted(os.listdir(tmp_path)) == [f"s-{number:03d}.tar" for number in range(count)]


def test_a_live_writer_keeps_its_files_from_others(tmp_path: Path, script: Start) -> None:
    process = begun(script, tmp_path / "s-%03d.tar", "wait")
    try:
        before = sorted(os.listdir(tmp_path))
        other = ShardWriter(tmp_path / "s-%03d.tar", overwrite=True)
        with pytest.raises(TargetError, match="another writer"):
            other.write({"__key__": "a", "cls": 1})
        other.abort()
        assert [name for name in before if name.endswith(".tmp")]
        assert set(before) <= set(os.listdir(tmp_path)) | {name for name in before if name.endswith(".tmp")}
    finally:
        end(process, signal.SIGKILL)


def write_until_full(folder: Path) -> None:
    with ShardWriter(folder / "s-%03d.tar", max_samples=10) as writer:
        for number in range(1000):
            writer.write({"__key__": str(number), "bin": bytes(40_000)})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_a_clear_error_with_finished_shards_whole(tmp_path: Path, members: Members) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        # The fourth shard does not fit. Its end, written while the fifth begins, and the fifth race for the last bytes.
        with pytest.raises(UnavailableError, match=r"No space left on device.*s-00[34]\.tar.*Free space"):
            write_until_full(disk / "out")
        assert sorted(os.listdir(disk / "out")) == ["s-000.tar", "s-001.tar", "s-002.tar"]
        assert [len(members(disk / "out" / name)) for name in sorted(os.listdir(disk / "out"))] == [10, 10, 10]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_size_limit_is_a_clear_error_and_leaves_nothing_half(tmp_path: Path) -> None:
    """The same through RLIMIT_FSIZE, which needs no root: the first shard is too large already."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(UnavailableError, match=r"File too large.*s-000\.tar.*max_bytes"):
            write_until_full(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []

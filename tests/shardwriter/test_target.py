import errno
import fcntl
import gc
import json
import os
from pathlib import Path

import pytest

from shardwriter.target import Target, parse_pattern
from wds_tools.errors import TargetError, UnavailableError, UsageError


def target(folder: Path, pattern: str = "train-%06d.tar", listing: str | None = "dataset.json") -> Target:
    return parse_pattern(folder / pattern, listing=listing)


def test_numbers_shards_with_leading_zeros_and_more_digits_when_needed(tmp_path: Path) -> None:
    train = target(tmp_path, "train-%03d.tar")
    assert [train.shard(n).name for n in (0, 7, 1234)] == ["train-000.tar", "train-007.tar", "train-1234.tar"]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("train-%06d.tar", "train"), ("%06d.tar", "folder"), ("a_%04d_b.tar", "a"), ("50%-%06d.tar", "50%")],
)
def test_names_the_dataset_by_prefix_or_folder(tmp_path: Path, pattern: str, name: str) -> None:
    assert target(tmp_path / "folder", pattern).name == name


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("train.tar", "one number"),
        ("train-%d.tar", "leading zeros"),
        ("train-%6d.tar", "leading zeros"),
        ("train-%0d.tar", "leading zeros"),
        ("train-{000000..000007}.tar", "one number"),
        ("train-{:06d}.tar", "one number"),
        ("%06d-%06d.tar", "one number"),
        ("shards-%06d/train.tar", "one number"),
        ("train-%06d.tar.gz", "end in .tar"),
        ("train-%06d", "end in .tar"),
        (".train-%06d.tar", "hidden"),
        ("s3://bucket/train-%06d.tar", "not a url"),
        ("file:///tmp/train-%06d.tar", "not a url"),
    ],
)
def test_refuses_patterns_that_cannot_be(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_pattern(pattern, listing=None)


@pytest.mark.parametrize("listing", ["", "dataset", "a/dataset.json", ".dataset.json", "../dataset.json"])
def test_refuses_a_listing_that_is_no_file_name(tmp_path: Path, listing: str) -> None:
    with pytest.raises(UsageError, match="listing"):
        target(tmp_path, listing=listing)


def test_knows_its_shards_from_all_others(tmp_path: Path) -> None:
    others = [
        "val-000000.tar",
        "train-00000.tar",
        "train-000000.tar.gz",
        "train-0000a0.tar",
        "train-.tar",
        "train-" + "\N{ARABIC-INDIC DIGIT ZERO}" * 6 + ".tar",
    ]
    for name in [*others, "train-000001.tar", "train-1000000.tar", ".train-000002.tar.0a1b2c3d.tmp"]:
        (tmp_path / name).touch()
    assert target(tmp_path).shards() == ["train-000001.tar", "train-1000000.tar"]
    assert target(tmp_path).leftovers() == [".train-000002.tar.0a1b2c3d.tmp"]


def test_a_missing_folder_is_free(tmp_path: Path) -> None:
    target(tmp_path / "missing").check_free(overwrite=False)


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(TargetError, match="is a file"):
        target(tmp_path / "out").check_free(overwrite=False)


def test_shards_of_the_pattern_are_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "train-000004.tar").touch()
    with pytest.raises(TargetError, match=r"1 shard of.*train-000004.tar.*overwrite=True"):
        target(tmp_path).check_free(overwrite=False)
    target(tmp_path).check_free(overwrite=True)
    target(tmp_path, "val-%06d.tar").check_free(overwrite=False)


@pytest.mark.parametrize(
    "text", ['{"shardlist": [{"url": "val-000000.tar"}]}', "{}", "no json", "[1]", '{"shardlist": [3]}']
)
def test_a_listing_of_something_else_is_never_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "dataset.json").write_text(text)
    for overwrite in (False, True):
        with pytest.raises(TargetError, match="listing of other shards"):
            target(tmp_path).check_free(overwrite=overwrite)
    target(tmp_path, listing="train.json").check_free(overwrite=False)
    target(tmp_path, listing=None).check_free(overwrite=False)


def test_a_listing_of_its_own_that_is_left_can_be_overwritten(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text('{"shardlist": [{"url": "train-000000.tar"}]}')
    with pytest.raises(TargetError, match=r"already holds dataset.json.*overwrite=True \(--overwrite\)"):
        target(tmp_path).check_free(overwrite=False)
    target(tmp_path).check_free(overwrite=True)


def test_overwriting_removes_its_own_dataset_and_nothing_else(tmp_path: Path) -> None:
    listing = {"shardlist": [{"url": "train-000000.tar"}, {"url": "train-000001.tar"}]}
    (tmp_path / "dataset.json").write_text(json.dumps(listing))
    for name in ("train-000000.tar", "train-000001.tar", "dataset.offsets.npy", "val-000000.tar", "notes.txt"):
        (tmp_path / name).touch()
    target(tmp_path).check_free(overwrite=True)
    target(tmp_path).clear_dataset()
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "val-000000.tar"]


def test_leftovers_of_shards_and_listing_are_cleared_and_no_others(tmp_path: Path) -> None:
    ours = [".train-000003.tar.01234567.tmp", ".dataset.json.89abcdef.tmp", ".dataset.offsets.npy.01234567.tmp"]
    others = [".val-000003.tar.01234567.tmp", ".train-000003.tar.tmp", "train-000003.tar.01234567.tmp"]
    for name in ours + others:
        (tmp_path / name).touch()
    target(tmp_path).clear_leftovers()
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_two_writers_of_one_pattern_or_one_listing_cannot_be(tmp_path: Path) -> None:
    with target(tmp_path).claim():
        with pytest.raises(TargetError, match=r"another writer is at work on .*train-%06d.tar"):
            target(tmp_path, listing="other.json").claim()
        with pytest.raises(TargetError, match=r"another writer is at work on .*dataset.json"):
            target(tmp_path, "val-%06d.tar").claim()
        with target(tmp_path, "val-%06d.tar", listing="val.json").claim() as other:
            assert other.locked


def test_a_claim_leaves_nothing_and_can_be_taken_again(tmp_path: Path) -> None:
    gc.collect()  # what earlier tests left to the collector is none of this one's
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with target(tmp_path).claim() as claim:
            pass
        claim.release()
    with target(tmp_path).claim(), pytest.raises(TargetError):
        target(tmp_path).claim()
    assert os.listdir(tmp_path) == []
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_lock_file_that_its_owner_removes_while_we_take_it_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lock is had on a file that has lost its name: another one must be made."""
    real = fcntl.flock
    taken: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not taken:
            (tmp_path / ".train-%06d.tar.lock").unlink()
        taken.append(descriptor)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with target(tmp_path, listing=None).claim():
        assert len(taken) == 2
        assert (tmp_path / ".train-%06d.tar.lock").exists()


def test_a_disk_without_locks_is_written_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with target(tmp_path).claim() as claim:
        assert not claim.locked
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be written"):
        target(tmp_path / "missing").claim()

"""Runs of pack: any number of jobs, broken and begun again, refused, split, in parts, without duplicates."""

import contextlib
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shardwriter import BaseInput, pack
from shardwriter.inputs import from_iterable
from tests.builders import settle
from wds_tools.dataset import open_dataset
from wds_tools.errors import TargetError, TooManyFailuresError, UnavailableError, UsageError
from wds_tools.sample import Sample

Picture = Callable[..., bytes]
Members = Callable[[Path], list[tuple[str, bytes]]]


@pytest.fixture
def pictures(tmp_path: Path, picture: Picture) -> Path:
    """Forty pictures of two classes, of which two are broken and two come twice."""
    for number in range(40):
        path = tmp_path / "pictures" / ("ant", "bee")[number % 2] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    (tmp_path / "pictures/ant/cut.jpg").write_bytes(picture()[:-9])
    (tmp_path / "pictures/bee/page.jpg").write_bytes(b"<html>")
    (tmp_path / "pictures/bee/again.jpg").write_bytes(picture(4))
    (tmp_path / "pictures/ant/again.jpg").write_bytes(picture(7))
    return tmp_path / "pictures"


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def listing(folder: Path, name: str = "dataset.json") -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / name).read_bytes())
    return facts


def failures(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def keys(shards: list[Path], members: Members) -> list[str]:
    return [name[:-4] for shard in shards for name, _ in members(shard) if name.endswith(".cls")]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"split": {"val": 0.2}}, ["..train.journal.0a1b2c3d.tmp", "val/.dataset.json.0a1b2c3d.tmp"]),
        ({"parts": 3}, [".dataset.json.0a1b2c3d.tmp", ".failures.jsonl.0a1b2c3d.tmp", ".classes.txt.0a1b2c3d.tmp"]),
        ({"parts": 3}, [".train-0-of-3.json.lock", ".train-0-of-3.journal.lock", ".train-0-of-3-%06d.tar.lock"]),
        (
            {"parts": 2, "split": {"val": 0.2}},
            ["val/.val-1-of-2.json.lock", "train/.dataset.offsets.npy.0a1b2c3d.tmp", ".train-0-of-2.journal.lock"],
        ),
    ],
)
def test_what_a_killed_run_left_beside_the_shards_is_cleared(
    tmp_path: Path, pictures: Path, options: dict[str, Any], left: list[str]
) -> None:
    pack(pictures, tmp_path / "unbroken", max_samples=7, jobs=2, **options)
    for name in left:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    pack(pictures, tmp_path / "out", max_samples=7, jobs=2, **options)
    assert digest(tmp_path / "out") == digest(tmp_path / "unbroken")


@pytest.mark.parametrize("options", [{"parts": 3}, {"parts": 2, "split": {"val": 0.3}}], ids=["one", "split"])
def test_parts_that_are_joined_are_cleared_away_however_far_an_earlier_run_came_with_it(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    options |= {"max_samples": 7, "jobs": 1}
    pack(pictures, tmp_path / "unbroken", **options)
    real = Path.unlink
    for most in itertools.count():
        left = most

        def unlink(path: Path, missing_ok: bool = False) -> None:
            nonlocal left
            if path.name.endswith((".json", ".npy", ".jsonl")) and path.exists():
                if left == 0:
                    raise KeyboardInterrupt
                left -= 1
            real(path, missing_ok=missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink)
            try:
                pack(pictures, tmp_path / str(most), **options)
            except KeyboardInterrupt:
                pass
            else:
                break
        with contextlib.suppress(TargetError):  # it is whole
            pack(pictures, tmp_path / str(most), **options)
        assert digest(tmp_path / str(most)) == digest(tmp_path / "unbroken"), most
        with pytest.raises(TargetError, match=r"already holds dataset\.json, joined"):
            pack(pictures, tmp_path / str(most), **options)
    assert most >= 6


def interrupted(pictures: Path, out: Path, after: int, **options: Any) -> None:
    """A run that Ctrl-C stops when so many samples are done."""
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(pictures, out, progress=stop, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_samples": 6},
        {"max_bytes": 20_000, "dedup": True, "check": "decode"},
        {"max_samples": 5, "split": {"val": 0.2, "test": 0.2}, "dedup": True},
        {"max_samples": 4, "part": (1, 3), "checksum": "sha256"},
        {"max_samples": 9, "resize": 8, "to": "png", "shuffle": False},
    ],
)
def test_the_number_of_jobs_changes_no_byte(tmp_path: Path, pictures: Path, options: dict[str, Any]) -> None:
    summaries = {jobs: pack(pictures, tmp_path / f"jobs-{jobs}/out", jobs=jobs, **options) for jobs in (1, 2, 7)}
    one = digest(tmp_path / "jobs-1")
    assert one == digest(tmp_path / "jobs-2") == digest(tmp_path / "jobs-7")
    assert any(name.endswith(".tar") for name in one)
    assert len({summary.packed for summary in summaries.values()}) == 1


def test_no_thread_and_no_temporary_file_stays_after_an_interrupt(tmp_path: Path, pictures: Path) -> None:
    settle()
    before = set(threading.enumerate())
    interrupted(pictures, tmp_path / "out", 20, jobs=3, max_samples=4)
    assert set(threading.enumerate()) <= before  # others' threads may end meanwhile
    left = set(os.listdir(tmp_path / "out"))
    assert left == {".train.journal"} | {name for name in left if name.endswith(".tar")}
    assert len(left) >= 4


@pytest.mark.parametrize("after", [1, 4, 5, 23, 44])
def test_an_interrupted_run_goes_on_and_leaves_what_an_unbroken_one_does(
    tmp_path: Path, pictures: Path, after: int
) -> None:
    pack(pictures, tmp_path / "whole", max_samples=4)
    interrupted(pictures, tmp_path / "out", after, max_samples=4, jobs=2)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.tar")}
    told: list[int] = []
    summary = pack(pictures, tmp_path / "out", max_samples=4, progress=told.append)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert summary.resumed == 4 * len(times)
    assert sum(told) == 44
    assert (f"went on where an earlier run was stopped: {summary.resumed} samples" in str(summary)) == bool(times)


def test_failures_of_the_first_half_are_in_the_report_of_the_second(tmp_path: Path, pictures: Path) -> None:
    whole = pack(pictures, tmp_path / "whole", max_samples=4)
    interrupted(pictures, tmp_path / "out", 42, max_samples=4)
    summary = pack(pictures, tmp_path / "out", max_samples=4)
    assert summary.failed == whole.failed == {"truncated": 1, "unsupported": 1}
    assert len(failures(tmp_path / "out/failures.jsonl")) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_samples": 5}, "max_samples was 4, is 5"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"resize": 64}, "transcode"),
        ({"split": {"val": 0.1}}, "split was"),
        ({"checksum": None, "dedup": True}, 'checksum was "xxh3", is null; dedup was false, is true'),
    ],
)
def test_other_options_are_refused_and_named(
    tmp_path: Path, pictures: Path, change: dict[str, Any], message: str
) -> None:
    interrupted(pictures, tmp_path / "out", 20, max_samples=4)
    before = digest(tmp_path / "out")
    with pytest.raises(TargetError, match="the beginning of another run") as caught:
        pack(pictures, tmp_path / "out", **{"max_samples": 4, **change})
    assert message in caught.value.problem
    assert "overwrite=True (--overwrite)" in str(caught.value)
    assert {name: value for name, value in digest(tmp_path / "out").items() if name in before} == before


def test_another_input_is_refused_and_the_difference_named(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    interrupted(pictures, tmp_path / "out", 20, max_samples=4)
    (pictures / "ant/new.jpg").write_bytes(picture(99))
    with pytest.raises(TargetError, match="names of the input changed; samples of the input was 44, is 45"):
        pack(pictures, tmp_path / "out", max_samples=4)
    pack(pictures, tmp_path / "out", max_samples=4, overwrite=True)
    pack(pictures, tmp_path / "fresh", max_samples=4)
    assert digest(tmp_path / "out") == digest(tmp_path / "fresh")


def test_a_shard_that_changed_or_went_is_refused(tmp_path: Path, pictures: Path) -> None:
    interrupted(pictures, tmp_path / "out", 20, max_samples=4)
    shard = tmp_path / "out/train-000001.tar"
    data = shard.read_bytes()
    shard.write_bytes(data[:-512])
    with pytest.raises(TargetError, match=f"train-000001.tar has {len(data) - 512:,} bytes, not {len(data):,}"):
        pack(pictures, tmp_path / "out", max_samples=4)
    shard.unlink()
    with pytest.raises(TargetError, match=r"train-000001.tar is gone"):
        pack(pictures, tmp_path / "out", max_samples=4)
    shard.write_bytes(data)
    assert pack(pictures, tmp_path / "out", max_samples=4).packed == 42


def test_shards_that_the_journal_does_not_know_are_not_removed(tmp_path: Path, pictures: Path) -> None:
    interrupted(pictures, tmp_path / "out", 20, max_samples=4)
    (tmp_path / "out/train-000077.tar").write_bytes(b"somebody's")
    with pytest.raises(TargetError, match=r"it made no shard train-000077.tar"):
        pack(pictures, tmp_path / "out", max_samples=4)
    assert (tmp_path / "out/train-000077.tar").read_bytes() == b"somebody's"


@pytest.mark.parametrize("cut", [1, 30, 400])
def test_a_line_that_was_cut_is_made_again(tmp_path: Path, pictures: Path, cut: int) -> None:
    pack(pictures, tmp_path / "whole", max_samples=4)
    interrupted(pictures, tmp_path / "out", 20, max_samples=4)
    journal = tmp_path / "out/.train.journal"
    journal.write_bytes(journal.read_bytes()[:-cut])
    pack(pictures, tmp_path / "out", max_samples=4)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_a_second_run_is_refused_while_the_first_lives(tmp_path: Path, pictures: Path) -> None:
    refused: list[TargetError] = []

    def other(count: int) -> None:
        if not refused:
            for options in ({"overwrite": True}, {"split": {"val": 0.1}, "overwrite": True}, {}):
                with pytest.raises(TargetError, match="another writer is at work") as caught:
                    pack(pictures, tmp_path / "out", **options)
                refused.append(caught.value)

    pack(pictures, tmp_path / "out", progress=other)
    assert len(refused) == 3
    pack(pictures, tmp_path / "fresh")
    assert {name for name in digest(tmp_path / "out") if "/" not in name} == set(digest(tmp_path / "fresh"))


def test_a_disk_that_fills_up_is_an_error_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(pictures, tmp_path / "whole", max_samples=4)
    real, calls = os.writev, 0

    def full(descriptor: int, pieces: list[bytes]) -> int:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise OSError(28, "No space left on device")
        return real(descriptor, pieces)

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(UnavailableError, match=r"No space left.*The same call goes on"):
            pack(pictures, tmp_path / "out", max_samples=4, jobs=2)
    assert len(list((tmp_path / "out").glob("*.tar"))) == 5
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith(".tmp")]
    pack(pictures, tmp_path / "out", max_samples=4)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_too_many_failures_end_the_run_which_goes_on_when_more_are_allowed(tmp_path: Path, pictures: Path) -> None:
    for number in range(6):
        (pictures / f"ant/broken{number}.jpg").write_bytes(b"\xff\xd8\xff")
    for jobs in (1, 3):
        out = tmp_path / f"out{jobs}"
        with pytest.raises(TooManyFailuresError, match=r"4 samples could not be packed, and max_failures is 3"):
            pack(pictures, out, max_samples=3, max_failures=3, jobs=jobs)
        assert len(failures(out / "failures.jsonl")) == 4
    summary = pack(pictures, tmp_path / "out1", max_samples=3, max_failures=8)
    pack(pictures, tmp_path / "whole", max_samples=3)
    assert digest(tmp_path / "out1") == digest(tmp_path / "whole")
    assert sum(summary.failed.values()) == 8


def test_duplicates_are_left_out_and_told_apart_from_failures(tmp_path: Path, pictures: Path, members: Members) -> None:
    summary = pack(pictures, tmp_path / "out", max_samples=4, dedup=True, max_failures=2)
    assert (summary.packed, summary.duplicates) == (40, 2)
    assert summary.failed == {"truncated": 1, "unsupported": 1}
    rows = [row for row in failures(tmp_path / "out/failures.jsonl") if row["kind"] == "duplicate"]
    pairs = {tuple(sorted(Path(row[name]).name for name in ("path", "equals"))) for row in rows}
    assert pairs == {("004.jpg", "again.jpg"), ("007.jpg", "again.jpg")}
    contents = [data for shard in (tmp_path / "out").glob("*.tar") for name, data in members(shard) if ".jpg" in name]
    assert len(contents) == len(set(contents)) == 40
    assert listing(tmp_path / "out")["failed"] == {"duplicate": 2, "truncated": 1, "unsupported": 1}


def test_what_has_come_of_it_is_told_on_the_way(tmp_path: Path, pictures: Path) -> None:
    told: list[str] = []
    pack(pictures, tmp_path / "out", max_samples=10, dedup=True, shuffle=False, told=told.append)
    assert told[-1] == "4 shards, 2 not packed, 2 duplicates"
    assert len(told) == len(set(told))


class Hashed(BaseInput):
    """Pictures by number."""

    def __init__(self, pictures: list[bytes]) -> None:
        self._pictures = pictures

    def __len__(self) -> int:
        return len(self._pictures)

    def sample(self, index: int) -> Sample:
        return {"__key__": f"{index:04d}", "jpg": self._pictures[index]}


def test_an_equal_hash_is_no_duplicate_yet(tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwriter.stage.content_of", lambda sample: 12345)
    samples = Hashed([picture(1), picture(2), picture(1)])
    summary = pack(samples, tmp_path / "out", shuffle=False, dedup=True)
    assert (summary.packed, summary.duplicates) == (2, 1)


def test_a_split_is_a_dataset_of_its_own_and_stays_when_pictures_are_added(
    tmp_path: Path, pictures: Path, picture: Picture, members: Members
) -> None:
    def split(out: Path) -> dict[str, set[str]]:
        pack(pictures, out, max_samples=7, split={"val": 0.3})
        return {name: set(keys(sorted((out / name).glob("*.tar")), members)) for name in ("train", "val")}

    before = split(tmp_path / "before")
    assert len(before["train"]) + len(before["val"]) == 42
    assert 4 <= len(before["val"]) <= 20
    for name in ("train", "val"):
        dataset = open_dataset(tmp_path / "before" / name)
        assert dataset.classes == ("ant", "bee")
        assert len(dataset) == len(before[name])
    for number in range(100, 120):
        (pictures / f"bee/{number}.jpg").write_bytes(picture(number))
    after = split(tmp_path / "after")
    assert before["val"] <= after["val"]
    assert before["train"] <= after["train"]


def test_a_duplicate_in_two_splits_is_taken_out_of_the_training_set(tmp_path: Path, picture: Picture) -> None:
    samples = Hashed([picture(number % 50) for number in range(100)])
    summary = pack(samples, tmp_path / "out", split={"val": 0.5}, dedup=True)
    assert summary.packed == 50
    val = summary.splits["val"]
    assert val.duplicates + val.packed + summary.splits["train"].packed + summary.splits["train"].duplicates == 100
    alone = pack(samples, tmp_path / "alone", split={"val": 0.5})
    assert val.packed + val.duplicates == alone.splits["val"].packed


def test_parts_have_names_of_their_own_and_together_all_samples_in_order(
    tmp_path: Path, pictures: Path, members: Members
) -> None:
    for number in range(12):
        pack(pictures, tmp_path / "parts", part=(number, 12), max_samples=2)
    pack(pictures, tmp_path / "whole")
    shards = sorted((tmp_path / "parts").glob("*.tar"))
    assert shards[0].name == "train-00-of-12-000000.tar"
    assert keys(shards, members) == keys([tmp_path / "whole/train-000000.tar"], members)
    assert listing(tmp_path / "parts", "train-07-of-12.json")["part"] == [7, 12]
    assert not (tmp_path / "parts/classes.txt").exists()  # whoever joins them writes it


def test_a_part_is_refused_where_it_is_already_and_replaced_when_asked(tmp_path: Path, pictures: Path) -> None:
    pack(pictures, tmp_path / "out", part=(0, 2))
    with pytest.raises(TargetError, match="already holds"):
        pack(pictures, tmp_path / "out", part=(0, 2))
    before = digest(tmp_path / "out")
    pack(pictures, tmp_path / "out", part=(0, 2), overwrite=True)
    assert digest(tmp_path / "out") == before


def test_the_listing_says_what_there_is_and_what_made_it(tmp_path: Path, pictures: Path) -> None:
    pack(pictures, tmp_path / "out", max_samples=30, seed=3)
    facts = listing(tmp_path / "out")
    assert facts["command"] == "shardwriter.pack(source, out, max_samples=30, seed=3)"
    assert (facts["seed"], facts["shuffled"], facts["samples"]) == (3, True, 42)
    assert facts["labels"] == {"cls": {"0": 21, "1": 21}}
    assert facts["pictures"]["jpg"]["width"] == {"min": 24, "median": 24, "max": 24}
    assert facts["bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tar"))
    assert all(shard["checksum"].startswith("xxh3:") for shard in facts["shardlist"])


def test_the_listing_is_about_the_pictures_as_they_are_packed(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    (pictures / "ant/small.jpg").write_bytes(picture(3, size=(9, 6)))
    pack(pictures, tmp_path / "out", resize=8)
    sizes = listing(tmp_path / "out")["pictures"]["jpg"]
    assert sizes["width"] == {"min": 9, "median": 12, "max": 12}
    assert sizes["height"] == {"min": 6, "median": 8, "max": 8}


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": 0}, {"max_failures": -1}, {"max_failures": 1.5}, {"part": (2, 2)}, {"part": "1/2"}, {"part": [0, 2]},
        {"split": {"val": 2}}, {"checksum": "md5"}, {"transcode": object()}, {"quality": 0},
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_before_anything_is_made(
    tmp_path: Path, pictures: Path, options: Mapping[str, Any]
) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        pack(pictures, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_numbers_and_hashes_are_explained_beside_each_split(tmp_path: Path, picture: Picture) -> None:
    class Renamed(Hashed):
        @property
        def renamed(self) -> bool:
            return True

        def original(self, index: int) -> str:
            return f"picture {index}.jpg"

    pack(Renamed([picture(number) for number in range(20)]), tmp_path / "out", split={"val": 0.4})
    lines = {name: (tmp_path / f"out/{name}/{name}.keys.tsv").read_text().splitlines() for name in ("train", "val")}
    assert sorted(lines["train"] + lines["val"]) == [f"{number:04d}\tpicture {number}.jpg" for number in range(20)]
    assert len(lines["val"]) == listing(tmp_path / "out/val")["samples"]
    assert listing(tmp_path / "out/val")["originals"] == "val.keys.tsv"


def test_a_shard_has_its_line_on_the_disk_before_the_next_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut one shard at most may lack its line: that is the one which is made again."""
    noted = 0
    seen: list[tuple[str, int]] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        nonlocal noted
        fsync(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith(".train.journal"):
            noted = Path(path).read_text().count('"shard"')

    def renamed(source: str, target: str) -> None:
        if str(target).endswith(".tar"):
            seen.append((Path(target).name, noted))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    samples = [{"__key__": f"{number}", "cls": number} for number in range(9)]
    pack(from_iterable(samples), tmp_path / "out", name="train", max_samples=2, jobs=1)
    assert seen == [(f"train-{number:06d}.tar", number) for number in range(5)]

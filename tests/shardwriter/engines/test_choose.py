"""Runs in parts by the local engine: what array jobs and a join by hand make, stopped and gone on with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from shardwriter import pack
from shardwriter.pack import check_target
from tests.shardwriter.engines.packed import OPTIONS, Rows, digest
from wds_tools.dataset import open_dataset
from wds_tools.errors import TargetError, TooManyFailuresError, UnavailableError, UsageError
from wds_tools.merge_listings import merge_listings

Picture = Callable[..., bytes]
PARTS = 3


@pytest.fixture
def pictures(tmp_path: Path, picture: Picture) -> Path:
    """Forty pictures of two classes, two of them broken, one twice."""
    for number in range(40):
        path = tmp_path / "pictures" / ("ant", "bee")[number % 2] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number)[: -9 if number in {3, 30} else None])
    (tmp_path / "pictures/ant/again.jpg").write_bytes(picture(4))
    return tmp_path / "pictures"


def shown(folder: Path) -> dict[str, str]:
    """What is left of a run by hand when the files of the parts are removed."""
    return {
        name: value
        for name, value in digest(folder).items()
        if name.endswith(".tar") or Path(name).name in {"dataset.json", "dataset.offsets.npy", "classes.txt"}
        or Path(name).name in {"failures.jsonl", "train.keys.tsv"}
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"max_samples": 6},
        {"max_samples": 4, "split": {"val": 0.3}, "dedup": True},
        {"max_samples": 5, "resize": 8, "to": "png", "shuffle": False, "jobs": 2},
    ],
)
def test_all_parts_are_what_array_jobs_make_and_index_joins(
    tmp_path: Path, pictures: Path, options: dict[str, Any]
) -> None:
    by_hand = tmp_path / "by-hand"
    for number in range(PARTS):
        pack(pictures, by_hand, part=(number, PARTS), **options)
    folders = [by_hand / name for name in ("val", "train")] if "split" in options else [by_hand]
    for folder in folders:
        name = folder.name if "split" in options else "train"
        merge_listings([folder / f"{name}-{number}-of-{PARTS}.json" for number in range(PARTS)])
    summary = pack(pictures, tmp_path / "out", parts=PARTS, **options)
    assert digest(tmp_path / "out") == shown(by_hand)
    assert sum(len(open_dataset(folder)) for folder in folders) == summary.packed
    assert summary.failed == {"truncated": 2}
    assert len(str(summary).splitlines()) >= 2


def test_the_samples_and_their_order_are_those_of_a_run_in_one_piece(tmp_path: Path, pictures: Path) -> None:
    whole, cut = pack(pictures, tmp_path / "whole"), pack(pictures, tmp_path / "cut", parts=PARTS)
    listings = [json.loads((tmp_path / name / "dataset.json").read_bytes()) for name in ("whole", "cut")]
    for listing in listings:
        for key in ("shardlist", "offsets_crc32", "bytes"):
            del listing[key]
    assert listings[0] == listings[1]
    assert (tmp_path / "whole/failures.jsonl").read_bytes() == (tmp_path / "cut/failures.jsonl").read_bytes()
    assert (whole.packed, whole.failed, whole.classes) == (cut.packed, cut.failed, cut.classes)
    assert str(cut.failures) == str(tmp_path / "cut/failures.jsonl")


@pytest.mark.parametrize("after", [1, 9, 14, 27, 40])
def test_a_run_that_was_stopped_goes_on(tmp_path: Path, pictures: Path, after: int) -> None:
    pack(pictures, tmp_path / "whole", parts=PARTS, max_samples=4)
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(pictures, tmp_path / "out", parts=PARTS, max_samples=4, progress=stop)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.tar")}
    counts: dict[str, list[int]] = {"progress": [], "resumed": []}
    summary = pack(
        pictures, tmp_path / "out", parts=PARTS, max_samples=4, progress=counts["progress"].append,
        resumed=counts["resumed"].append,
    )  # fmt: skip
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert sum(counts["progress"]) + sum(counts["resumed"]) == 41
    assert sum(counts["resumed"]) >= summary.resumed
    assert summary.resumed == sum(len(open_dataset(path)) for path in times)


def test_a_part_that_fails_is_named_with_how_to_go_on(tmp_path: Path) -> None:
    pack(Rows(20), tmp_path / "whole", parts=4, shuffle=False, **OPTIONS)
    samples = Rows(20, at=12, mark=tmp_path / "mark", what="full")
    with pytest.raises(UnavailableError, match=r"part 2 of 4: sample 12 cannot be read") as caught:
        pack(samples, tmp_path / "out", parts=4, shuffle=False, **OPTIONS)
    assert "The same call goes on where this one ended: 2 parts of 4 are whole" in str(caught.value)
    assert not (tmp_path / "out/dataset.json").exists()
    summary = pack(samples, tmp_path / "out", parts=4, shuffle=False, **OPTIONS)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert (summary.packed, summary.resumed) == (20, 10)


def test_the_limit_of_failures_is_that_of_all_parts_together(tmp_path: Path, pictures: Path) -> None:
    for most, message in ((0, r"part \d of 3: 1 sample could not"), (1, r"^2 samples could not be packed")):
        out = tmp_path / f"out-{most}"
        with pytest.raises(TooManyFailuresError, match=message):
            pack(pictures, out, parts=PARTS, max_samples=4, max_failures=most, seed=1)
        assert pack(pictures, out, parts=PARTS, max_samples=4, max_failures=2, seed=1).failed == {"truncated": 2}
        pack(pictures, tmp_path / f"whole-{most}", parts=PARTS, max_samples=4, seed=1)
        assert digest(out) == digest(tmp_path / f"whole-{most}")


def test_parts_of_nothing_but_failures_leave_their_report(tmp_path: Path, pictures: Path) -> None:
    for path in pictures.glob("*/*.jpg"):
        path.write_bytes(b"<html>")
    summary = pack(pictures, tmp_path / "out", parts=2)
    assert (summary.packed, summary.failed, summary.listing) == (0, {"unsupported": 41}, None)
    assert len((tmp_path / "out/failures.jsonl").read_text().splitlines()) == 41
    assert not list((tmp_path / "out").glob("*.json"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": 0}, {"parts": 2.0}, {"parts": 2, "part": (0, 2)}, {"engine": "ray", "part": (0, 2)},
        {"engine": "slurm"}, {"address": "auto"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_makes_nothing(tmp_path: Path, pictures: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        pack(pictures, tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_ray_that_is_not_installed_is_said(tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.delitem(__import__("sys").modules, "shardwriter.engines.ray", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'shardstream\[ray\]'"):
        pack(pictures, tmp_path / "out", engine="ray")


def begun(pictures: Path, out: Path | str, **options: Any) -> None:
    """A run that Ctrl-C stops in its second half."""
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done > 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(pictures, out, progress=stop, max_samples=4, **options)


def test_another_run_is_refused_and_the_difference_named(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    out = tmp_path / "out"
    begun(pictures, out, parts=PARTS)
    with pytest.raises(TargetError, match="beginning of a run in 3 parts, not 4"):
        pack(pictures, out, parts=4, max_samples=4)
    with pytest.raises(TargetError, match=r"train-0-of-3\.json, which was made of another input or with other"):
        pack(pictures, out, parts=PARTS, max_samples=5)
    (pictures / "ant/more.jpg").write_bytes(picture(77))
    with pytest.raises(TargetError, match=r"part 0 of 3: .*another input"):
        pack(pictures, out, parts=PARTS, max_samples=4)
    pack(pictures, out, parts=2, max_samples=4, overwrite=True)
    pack(pictures, tmp_path / "fresh", parts=2, max_samples=4)
    assert digest(out) == digest(tmp_path / "fresh")
    for parts in (2, 3):
        with pytest.raises(TargetError, match=r"already holds dataset\.json, joined of parts"):
            pack(pictures, out, parts=parts, max_samples=4)
    pack(pictures, out, parts=PARTS, max_samples=9, overwrite=True)  # a whole one is replaced too
    pack(pictures, tmp_path / "new", parts=PARTS, max_samples=9)
    assert digest(out) == digest(tmp_path / "new")


def test_a_run_that_was_stopped_while_splits_are_joined_goes_on(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"parts": PARTS, "max_samples": 4, "split": {"val": 0.3, "test": 0.2}}
    pack(pictures, tmp_path / "whole", **options)
    real = merge_listings
    for after in range(3):
        left = [after]

        def stopped(*arguments: Any, left: list[int] = left, **more: Any) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return real(*arguments, **more)

        out = tmp_path / f"out-{after}"
        monkeypatch.setattr("shardwriter.joint.merge_listings", stopped)
        with pytest.raises(KeyboardInterrupt):
            pack(pictures, out, **options)
        monkeypatch.setattr("shardwriter.joint.merge_listings", real)
        assert len(list(out.glob("*/dataset.json"))) == after
        summary = pack(pictures, out, **options)
        assert digest(out) == digest(tmp_path / "whole")
        assert summary.resumed == summary.packed == 39


def test_a_run_in_one_piece_is_no_run_in_parts(tmp_path: Path, pictures: Path) -> None:
    begun(pictures, tmp_path / "out")
    for check in (check_target, pack):
        with pytest.raises(TargetError, match="the beginning of a run in one piece"):
            check(pictures, tmp_path / "out", parts=PARTS)
    pack(pictures, tmp_path / "out", parts=PARTS, max_samples=4, overwrite=True)
    pack(pictures, tmp_path / "fresh", parts=PARTS, max_samples=4)
    assert digest(tmp_path / "out") == digest(tmp_path / "fresh")
    with pytest.raises(TargetError, match="already holds"):
        check_target(pictures, tmp_path / "out", parts=PARTS)
    check_target(pictures, tmp_path / "out", parts=PARTS, overwrite=True)


@pytest.mark.parametrize("place", ["{tmp_path}/out", "memory://choose/out"])
@pytest.mark.parametrize("split", [{}, {"val": 0.3}], ids=["one", "splits"])
def test_a_dataset_of_parts_is_replaced_by_one_in_one_piece_if_asked(
    tmp_path: Path, pictures: Path, place: str, split: dict[str, float]
) -> None:
    out, fresh = place.format(tmp_path=tmp_path), f"{place.format(tmp_path=tmp_path)}-fresh-{len(split)}"
    pack(pictures, out, parts=PARTS, max_samples=4, split=split, overwrite=True)
    for act in (check_target, pack):
        with pytest.raises(TargetError, match=r"already holds dataset\.json, joined of parts.*--overwrite"):
            act(pictures, out, split=split)
    check_target(pictures, out, split=split, overwrite=True)
    pack(pictures, out, split=split, overwrite=True)
    pack(pictures, fresh, split=split)
    assert files(out) == files(fresh)
    if "://" in place:
        fsspec.filesystem("memory").rm("/choose", recursive=True)


def files(place: str) -> object:
    return stored(place) if "://" in place else digest(Path(place))


def test_a_second_run_in_parts_on_the_same_target_is_refused(tmp_path: Path, pictures: Path) -> None:
    refused: list[str] = []

    def second(_: int) -> None:
        if not refused:
            with pytest.raises(TargetError, match="another writer is at work") as caught:
                pack(pictures, tmp_path / "out", parts=PARTS)
            refused.append(str(caught.value))

    assert pack(pictures, tmp_path / "out", parts=PARTS, progress=second).packed == 39
    assert refused


def test_parts_in_a_store_go_on_where_this_machine_knows_them_and_begin_anew_elsewhere(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = "memory://engines/whole"
    pack(pictures, whole, parts=PARTS, max_samples=4)
    for name, forgets in (("here", False), ("elsewhere", True)):
        out = f"memory://engines/{name}"
        begun(pictures, out, parts=PARTS)
        if forgets:
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
        summary = pack(pictures, out, parts=PARTS, max_samples=4)
        assert summary.packed == 39
        assert summary.resumed == 13 if forgets else summary.resumed > 13  # 13 are the first part, which is whole
        assert stored(out) == stored(whole)


def stored(place: str) -> dict[str, bytes]:
    """All files of a place in a store."""
    import fsspec

    system = fsspec.filesystem("memory")
    root = place.removeprefix("memory:/")
    return {path.removeprefix(root): system.cat_file(path) for path in system.find(root)}

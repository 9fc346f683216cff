import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shardwriter import BaseInput, PackSummary, class_folders, pack
from shardwriter.pack import check_target
from wds_tools.dataset import open_dataset
from wds_tools.errors import FieldError, TargetError, UnavailableError, UsageError
from wds_tools.pictures.options import Pictures

Picture = Callable[..., bytes]
Members = Callable[[Path], list[tuple[str, bytes]]]


@pytest.fixture
def pictures(tmp_path: Path, picture: Picture) -> Path:
    """Three classes of ten pictures each, all different."""
    root = tmp_path / "pictures"
    for label, name in enumerate(("ant", "bee", "cat")):
        (root / name).mkdir(parents=True)
        for number in range(10):
            (root / name / f"{number:03d}.jpg").write_bytes(picture(label * 50 + number))
    return root


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def keys(folder: Path, members: Members) -> list[str]:
    return [name[:-4] for shard in sorted(folder.glob("*.tar")) for name, _ in members(shard) if name.endswith(".cls")]


def failures(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]


def test_every_picture_is_packed_once_unchanged_with_its_label(
    tmp_path: Path, pictures: Path, members: Members
) -> None:
    summary = pack(pictures, tmp_path / "out", max_samples=8)
    found: dict[str, bytes] = {}
    for shard in sorted((tmp_path / "out").glob("*.tar")):
        found.update(members(shard))
    wanted: dict[str, bytes] = {}
    for label, name in enumerate(("ant", "bee", "cat")):
        for path in (pictures / name).iterdir():
            wanted |= {f"{name}/{path.name}": path.read_bytes(), f"{name}/{path.stem}.cls": str(label).encode()}
    assert found == wanted
    assert summary == PackSummary(
        packed=30,
        shards=4,
        bytes=sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tar")),
        classes=("ant", "bee", "cat"),
        failed={},
        skipped={},
        misnamed=0,
        listing=tmp_path / "out/dataset.json",
        failures=None,
    )


def test_the_folder_holds_shards_listing_and_classes(tmp_path: Path, pictures: Path) -> None:
    pack(pictures, tmp_path / "out", name="val", max_samples=20)
    assert sorted(os.listdir(tmp_path / "out")) == [
        "classes.txt", "dataset.json", "dataset.offsets.npy", "val-000000.tar", "val-000001.tar",
    ]  # fmt: skip
    assert (tmp_path / "out/classes.txt").read_text() == "ant\nbee\ncat\n"
    dataset = open_dataset(tmp_path / "out/dataset.json")
    assert (len(dataset), dataset.classes, dataset.shuffled) == (30, ("ant", "bee", "cat"), True)
    assert dataset.listing["seed"] == 0
    assert dataset.listing["fields"] == {"cls": 30, "jpg": 30}


def test_webdataset_reads_what_was_packed(
    tmp_path: Path,
    pictures: Path,
    webdataset_samples: Callable[..., list[dict[str, Any]]],
    gnu_tar: Callable[[Path], list[str]],
) -> None:
    pack(pictures, tmp_path / "out", max_samples=8)
    shards = sorted((tmp_path / "out").glob("*.tar"))
    samples = webdataset_samples(*shards)
    assert len(samples) == 30
    assert all(sample["jpg"] == (pictures / f"{sample['__key__']}.jpg").read_bytes() for sample in samples)
    assert sum(len(gnu_tar(shard)) for shard in shards) == 60


def test_the_order_is_a_function_of_the_seed(tmp_path: Path, pictures: Path, members: Members) -> None:
    orders = {}
    for seed in (0, 1):
        pack(pictures, tmp_path / f"seed{seed}", seed=seed)
        orders[seed] = keys(tmp_path / f"seed{seed}", members)
    pack(pictures, tmp_path / "plain", shuffle=False)
    plain = keys(tmp_path / "plain", members)
    assert plain == sorted(plain)
    assert sorted(orders[0]) == sorted(orders[1]) == plain
    assert len({tuple(order) for order in (plain, *orders.values())}) == 3
    assert orders[0][:4] == FIRST
    dataset = open_dataset(tmp_path / "plain/dataset.json")
    assert dataset.shuffled is False
    assert "seed" not in dataset.listing


FIRST = ["cat/005", "ant/000", "bee/008", "bee/001"]


def test_runs_give_the_same_bytes_in_whatever_order_folders_are_listed(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(pictures, tmp_path / "one", max_samples=7)
    # The same files made anew in another order, which is the order of the directory on most file systems.
    again = tmp_path / "again"
    for path in sorted(pictures.rglob("*.jpg"), key=lambda path: hashlib.md5(path.name.encode() + b"x").digest()):
        (again / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, again / path.parent.name / path.name)
    pack(again, tmp_path / "two", max_samples=7)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_broken_pictures_are_reported_and_not_packed(
    tmp_path: Path, pictures: Path, picture: Picture, members: Members
) -> None:
    broken = {
        "ant/cut.jpg": (picture()[:-30], "truncated"),
        "bee/empty.png": (b"", "truncated"),
        "cat/page.jpg": (b"<html>404</html>", "unsupported"),
        "cat/two\nlines.jpg": (picture(), "refused"),
    }
    for name, (data, _) in broken.items():
        (pictures / name).write_bytes(data)
    (pictures / "ant/gone.jpg").symlink_to("nowhere")
    os.mkdir(pictures / "ant/folder.jpg")
    told: list[int] = []
    summary = pack(pictures, tmp_path / "out", progress=told.append)

    wanted = {str(pictures / name): kind for name, (_, kind) in broken.items()} | {
        str(pictures / "ant/gone.jpg"): "unreadable"
    }
    assert {row["path"]: row["kind"] for row in failures(tmp_path / "out")} == wanted
    assert all(row["reason"] for row in failures(tmp_path / "out"))
    assert summary.failed == {"refused": 1, "truncated": 2, "unreadable": 1, "unsupported": 1}
    assert summary.failures == tmp_path / "out/failures.jsonl"
    assert summary.packed == len(keys(tmp_path / "out", members)) == 30
    assert sum(told) == 35


def test_a_file_that_may_not_be_read_is_reported(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def denied(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("bee/004.jpg"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", denied)
    assert pack(pictures, tmp_path / "out").failed == {"unreadable": 1}
    assert failures(tmp_path / "out") == [
        {"path": str(pictures / "bee/004.jpg"), "kind": "unreadable", "reason": "Permission denied"}
    ]


def test_names_that_are_not_utf8_are_reported_in_plain_ascii(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    with open(os.fsencode(pictures) + b"/ant/\xe9.jpg", "wb") as file:
        file.write(picture())
    assert pack(pictures, tmp_path / "out").failed == {"refused": 1}
    assert (tmp_path / "out/failures.jsonl").read_bytes().isascii()
    assert os.fsencode(failures(tmp_path / "out")[0]["path"]).endswith(b"\xe9.jpg")


def test_a_wrong_extension_is_packed_as_it_is_and_counted(
    tmp_path: Path, pictures: Path, picture: Picture, members: Members
) -> None:
    (pictures / "ant/000.jpg").write_bytes(picture(kind="PNG"))
    assert pack(pictures, tmp_path / "out").misnamed == 1
    assert ("ant/000.jpg", picture(kind="PNG")) in members(tmp_path / "out/train-000000.tar")


def test_pictures_over_the_limit_of_pixels_are_reported(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    (pictures / "ant/large.jpg").write_bytes(picture(size=(60, 60)))
    assert pack(pictures, tmp_path / "out", pictures=Pictures(max_pixels=3599)).failed == {"too large": 1}
    assert pack(pictures, tmp_path / "two", pictures=Pictures(max_pixels=3600)).failed == {}


def test_decoding_finds_damage_that_the_header_does_not_show(tmp_path: Path, pictures: Path, picture: Picture) -> None:
    data = bytearray(picture(kind="PNG"))
    at = data.index(b"IDAT") + 8
    data[at : at + 20] = bytes(20)
    (pictures / "ant/damaged.png").write_bytes(data)
    assert sum(pack(pictures, tmp_path / "out").failed.values()) == 0
    assert sum(pack(pictures, tmp_path / "two", check="decode").failed.values()) == 1


def test_a_source_of_broken_pictures_only_leaves_the_report(tmp_path: Path) -> None:
    (tmp_path / "pictures/ant").mkdir(parents=True)
    (tmp_path / "pictures/ant/1.jpg").write_bytes(b"no picture")
    summary = pack(tmp_path / "pictures", tmp_path / "out")
    assert (summary.packed, summary.shards, summary.listing) == (0, 0, None)
    assert "failures.jsonl" in os.listdir(tmp_path / "out")
    assert "dataset.json" not in os.listdir(tmp_path / "out")


def test_what_was_left_out_is_counted(tmp_path: Path, pictures: Path) -> None:
    (pictures / "ant/Thumbs.db").touch()
    (pictures / "ant/.DS_Store").touch()
    assert pack(pictures, tmp_path / "out").skipped == {"hidden": 1, "no picture's extension, .db": 1}


def test_classes_without_pictures_are_named_in_the_summary(tmp_path: Path, pictures: Path) -> None:
    (pictures / "dodo").mkdir()
    summary = pack(pictures, tmp_path / "out")
    assert summary.empty == ("dodo",)
    assert "warning: 1 class has no pictures: 'dodo'" in str(summary)
    assert (tmp_path / "out/classes.txt").read_text() == "ant\nbee\ncat\ndodo\n"


def test_the_summary_speaks_of_one_and_of_many(tmp_path: Path, pictures: Path) -> None:
    assert "packed 30 pictures of 3 classes into 2 shards" in str(pack(pictures, tmp_path / "many", max_samples=20))
    assert "packed 4 samples into 1 shard, " in str(pack(Captions(), tmp_path / "others"))
    for path in [*(pictures / "ant").iterdir()][1:]:
        path.unlink()
    for name in ("bee", "cat"):
        shutil.rmtree(pictures / name)
    assert "packed 1 picture of 1 class into 1 shard, " in str(pack(pictures, tmp_path / "one"))


def test_a_target_that_holds_something_is_refused_and_left_alone(tmp_path: Path, pictures: Path) -> None:
    pack(pictures, tmp_path / "out")
    before = digest(tmp_path / "out")
    for name in ("train", "val"):
        with pytest.raises(TargetError, match="already holds"):
            pack(pictures, tmp_path / "out", name=name)
    with pytest.raises(TargetError, match="listing of other shards"):
        pack(pictures, tmp_path / "out", name="val", overwrite=True)
    assert digest(tmp_path / "out") == before


def test_overwriting_replaces_everything_that_a_pack_makes(tmp_path: Path, pictures: Path) -> None:
    pack(pictures, tmp_path / "fresh", seed=5)
    (pictures / "ant/cut.jpg").write_bytes(b"\xff\xd8\xff")
    pack(pictures, tmp_path / "out", max_samples=2)
    (pictures / "ant/cut.jpg").unlink()
    pack(pictures, tmp_path / "out", seed=5, overwrite=True)
    assert digest(tmp_path / "out") == digest(tmp_path / "fresh")


@pytest.mark.parametrize("inside", [".", "out", "ant", "ant/out"])
def test_a_target_within_the_source_is_refused(pictures: Path, inside: str) -> None:
    with pytest.raises(UsageError, match="inside the source"):
        pack(pictures, pictures / inside)


@pytest.mark.parametrize(
    "options",
    [{"name": ""}, {"name": "a/b"}, {"name": "%d"}, {"seed": -1}, {"seed": 1.5}, {"check": "all"}, {"max_samples": 0}],
)
def test_options_that_cannot_be_are_refused_before_anything_is_made(
    tmp_path: Path, pictures: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        pack(pictures, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("act", [pack, check_target])
def test_an_empty_target_is_not_the_current_folder(
    pictures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: Callable[..., object]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="out is empty"):
        act(pictures, "")
    assert not list((tmp_path / "here").iterdir())
    act(pictures, ".")


def test_an_interrupt_leaves_finished_shards_and_no_listing(tmp_path: Path, pictures: Path) -> None:
    done = 0

    def interrupt(count: int) -> None:
        nonlocal done
        done += count
        if done == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(pictures, tmp_path / "out", max_samples=5, progress=interrupt)
    assert sorted(os.listdir(tmp_path / "out")) == [
        ".train.journal", "train-000000.tar", "train-000001.tar", "train-000002.tar",
    ]  # fmt: skip


def test_a_full_disk_is_an_error_and_not_a_failed_picture(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(UnavailableError, match="No space left"):
        pack(pictures, tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


def test_labels_of_a_training_set_serve_its_validation_set(tmp_path: Path, pictures: Path, members: Members) -> None:
    classes = pack(pictures, tmp_path / "train").classes
    shutil.rmtree(pictures / "ant")
    summary = pack(class_folders(pictures, classes=classes), tmp_path / "val", name="val", shuffle=False)
    assert summary.classes == classes
    assert dict(members(tmp_path / "val/val-000000.tar"))["bee/000.cls"] == b"1"


class Captions(BaseInput):
    """A user's own input: texts, of which one is broken."""

    skipped: Mapping[str, int] = {"drafts": 2}

    def __len__(self) -> int:
        return 5

    def name(self, index: int) -> str:
        return f"row {index}"

    def sample(self, index: int) -> dict[str, Any]:
        if index == 3:
            raise FieldError("the caption is missing")
        return {"__key__": f"{index:04d}", "txt": f"caption {index}", "json": {"row": index}}

    def facts(self) -> Mapping[str, object]:
        return {"language": "en"}


def test_any_input_can_be_packed(tmp_path: Path, members: Members) -> None:
    summary = pack(Captions(), tmp_path, shuffle=False)
    assert members(tmp_path / "train-000000.tar")[:2] == [("0000.txt", b"caption 0"), ("0000.json", b'{"row":0}')]
    assert (summary.packed, summary.failed, summary.skipped, summary.classes) == (
        4,
        {"bad field": 1},
        {"drafts": 2},
        (),
    )
    assert failures(tmp_path)[0]["path"] == "row 3"
    assert open_dataset(tmp_path / "dataset.json").listing["language"] == "en"
    assert "classes.txt" not in os.listdir(tmp_path)

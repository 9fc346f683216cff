import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardwriter.inputs import ClassFolders, class_folders
from wds_tools.errors import KeyRefusedError, UnavailableError, UsageError


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


def found(samples: ClassFolders) -> list[tuple[str, str, bytes, int]]:
    """Key, field, bytes and label of each sample."""
    rows = []
    for index in range(len(samples)):
        key, *rest = samples.sample(index).items()
        (field, data), (cls, label) = rest
        assert key[0] == "__key__"
        assert cls == "cls"
        rows.append((key[1], field, data, label))
    return rows


def test_classes_are_sorted_and_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    fill(tmp_path, "dog/2.jpg", "cat/b.jpg", "cat/a.jpg", "Bear/x.png", "cat/deep/er/c.webp")
    samples = class_folders(tmp_path)
    assert samples.classes == ("Bear", "cat", "dog")
    assert samples.facts() == {"classes": ["Bear", "cat", "dog"]}
    assert found(samples) == [
        ("Bear/x", "png", b"Bear/x.png", 0),
        ("cat/a", "jpg", b"cat/a.jpg", 1),
        ("cat/b", "jpg", b"cat/b.jpg", 1),
        ("cat/deep/er/c", "webp", b"cat/deep/er/c.webp", 1),
        ("dog/2", "jpg", b"dog/2.jpg", 2),
    ]
    assert samples.name(0) == str(tmp_path / "Bear/x.png")


def test_extensions_become_fields_and_dots_underscores(tmp_path: Path) -> None:
    fill(tmp_path, "a.v1/X.JPEG", "a.v1/photo.2.final.JPG", "a.v1/old.jpe", "a.v1/web.jfif", "a.v1/t.TIFF")
    rows = {(key, field) for key, field, _, _ in found(class_folders(tmp_path))}
    assert rows == {
        ("a.v1/X", "jpeg"), ("a.v1/photo_2_final", "jpg"), ("a.v1/old", "jpg"), ("a.v1/web", "jpg"), ("a.v1/t", "tiff"),
    }  # fmt: skip


@pytest.mark.parametrize("pair", [("a.b.jpg", "a_b.jpg"), ("x.jpg", "x.png"), ("x.JPG", "x.jpg")])
def test_two_files_of_one_key_are_refused_with_both_names(tmp_path: Path, pair: tuple[str, str]) -> None:
    fill(tmp_path, *(f"cat/{name}" for name in pair), "dog/x.jpg")
    with pytest.raises(KeyRefusedError) as caught:
        class_folders(tmp_path)
    assert all(name in str(caught.value) for name in pair)


def test_all_collisions_are_counted_and_the_first_named(tmp_path: Path) -> None:
    fill(
        tmp_path, *(f"cat/{number}.{kind}" for number in range(7) for kind in ("jpg", "png")), "dog/x.jpg", "dog/x.png"
    )
    with pytest.raises(KeyRefusedError) as caught:
        class_folders(tmp_path)
    assert "8 samples would get the key of another, the first are: " in str(caught.value)
    named = [f"{tmp_path}/cat/{number}.jpg and {tmp_path}/cat/{number}.png" for number in range(7)]
    assert [pair in str(caught.value) for pair in named] == [True] * 5 + [False] * 2


def test_a_folder_one_too_deep_is_refused_with_the_folder_above(tmp_path: Path) -> None:
    root = fill(tmp_path / "my pictures", "cat/deep/1.jpg", *(f"cat/{number}.jpg" for number in range(57)), "dog/1.jpg")
    with pytest.raises(UsageError) as caught:
        class_folders(root / "cat")
    assert "57 of 58, and 1 in 'deep'" in str(caught.value)
    assert f"give the folder above, {root};" in str(caught.value)
    assert len(class_folders(root)) == 59


def test_loose_files_that_are_few_or_no_pictures_are_left_out_only(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "loose.jpg", "a.csv", "b.csv", "c.csv")
    assert class_folders(tmp_path).skipped == {"outside the class folders": 4}


def test_a_folder_of_splits_is_refused_with_the_commands_to_give(tmp_path: Path) -> None:
    root = fill(tmp_path / "t v", *(f"{split}/{name}/1.jpg" for split in ("test", "train", "Val") for name in "ab"))
    with pytest.raises(UsageError, match="look like splits that hold class folders: Val, test, train") as caught:
        class_folders(root)
    assert f"`wds pack '{root}/train' out/train`, then `wds pack '{root}/Val' out/Val --classes" in str(caught.value)
    assert "--classes out/train/classes.txt`" in str(caught.value)
    assert len(class_folders(root / "train")) == 2
    assert len(class_folders(root, classes=["train", "test", "Val"])) == 6


@pytest.mark.parametrize(
    "names",
    [
        ("train/1.jpg", "val/a/1.jpg"),  # classes that are called so
        ("train/a/1.jpg", "plane/a/1.jpg"),
        ("a/b/1.jpg", "c/d/1.jpg"),
    ],
)
def test_folders_that_are_no_splits_are_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert len(class_folders(fill(tmp_path, *names)).classes) == 2


def test_equal_names_in_different_folders_are_different_keys(tmp_path: Path) -> None:
    assert len(class_folders(fill(tmp_path, "cat/x.jpg", "cat/y/x.jpg", "dog/x.jpg"))) == 3


def test_what_is_no_picture_is_left_out_and_counted(tmp_path: Path) -> None:
    fill(
        tmp_path, "cat/x.jpg", "cat/Thumbs.db", "cat/.DS_Store", "cat/a.txt", "cat/b.txt", "cat/README", "cat/._x.jpg",
        ".git/x.jpg", "__MACOSX/x.jpg", "loose.jpg", "cat/.thumbs/x.jpg",
    )  # fmt: skip
    os.mkfifo(tmp_path / "cat/pipe.jpg")
    samples = class_folders(tmp_path)
    assert [key for key, *_ in found(samples)] == ["cat/x"]
    assert samples.skipped == {
        "hidden": 5,
        "no picture's extension, .db": 1,
        "no picture's extension, .txt": 2,
        "no extension": 1,
        "no regular file": 1,
        "outside the class folders": 1,
    }


def test_a_folder_of_numbered_extensions_is_counted_in_little_memory(tmp_path: Path) -> None:
    samples = class_folders(fill(tmp_path, "cat/x.jpg", *(f"cat/log.{number}" for number in range(300))))
    assert sum(samples.skipped.values()) == 300
    assert len(samples.skipped) < 60


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "1.jpg", "more/2.jpg")
    root = fill(tmp_path / "root", "dog/3.jpg")
    (root / "cat").symlink_to(tmp_path / "elsewhere")
    (root / "dog/linked.jpg").symlink_to(tmp_path / "elsewhere/1.jpg")
    (root / "dog/again").symlink_to(root / "dog")
    (root / "dog/up").symlink_to(root)
    samples = class_folders(root)
    assert [key for key, *_ in found(samples)] == ["cat/1", "cat/more/2", "dog/3", "dog/linked"]
    assert samples.skipped == {"link to a folder that it lies in": 2}


def test_a_broken_link_is_kept_to_be_reported_when_it_is_read(tmp_path: Path) -> None:
    fill(tmp_path, "cat/a.jpg")
    (tmp_path / "cat/gone.jpg").symlink_to("nowhere.jpg")
    samples = class_folders(tmp_path)
    assert len(samples) == 2
    with pytest.raises(FileNotFoundError):
        samples.sample(1)


def test_the_order_of_the_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{folder}/{number}.jpg" for folder in ("b", "a", "a/deep") for number in (10, 9, 1)]
    forward = found(class_folders(fill(tmp_path, *names)))
    real = os.scandir

    class Backward:
        def __init__(self, path: Path) -> None:
            self._real = real(path)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return sorted(self._real, key=lambda entry: entry.name, reverse=True)

        def __exit__(self, *exc: object) -> None:
            self._real.close()

    monkeypatch.setattr(os, "scandir", Backward)
    assert found(class_folders(tmp_path)) == forward


def test_names_that_are_not_utf8_can_be_read(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/cat")
    with open(os.fsencode(tmp_path) + b"/cat/\xe9.jpg", "wb") as file:
        file.write(b"data")
    assert found(class_folders(tmp_path)) == [("cat/\udce9", "jpg", b"data", 0)]


def test_labels_can_come_from_another_dataset(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "dog/1.jpg")
    samples = class_folders(tmp_path, classes=["dog", "ant", "cat"])
    assert [(key, label) for key, _, _, label in found(samples)] == [("dog/1", 0), ("cat/1", 2)]
    with pytest.raises(UsageError, match=r"1 folders in .* are not among the 1 classes.*'dog'"):
        class_folders(tmp_path, classes=["cat"])
    with pytest.raises(UsageError, match="twice"):
        class_folders(tmp_path, classes=["cat", "dog", "cat"])


def test_a_class_that_would_not_fit_into_a_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line break"):
        class_folders(fill(tmp_path, "two\nlines/1.jpg"))


def test_an_empty_class_keeps_its_number(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (fill(tmp_path, "b/1.jpg", "d/1.jpg") / "a").mkdir()
    (tmp_path / "c").mkdir()
    samples = class_folders(tmp_path)
    assert [label for *_, label in found(samples)] == [1, 3]
    assert samples.empty == ("a", "c")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "2 classes have no pictures: 'a', 'c'" in caplog.text


def test_no_warning_where_every_class_has_pictures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert class_folders(fill(tmp_path, "a/1.jpg", "b/1.jpg")).empty == ()
    assert not caplog.records


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "no class folders"),
        (("1.jpg", "2.jpg"), "no class folders"),
        ((".cat/1.jpg",), "no class folders"),
        (("cat/1.txt", "dog/2.txt"), r"no pictures in the 2 class folders.*2 no picture's extension, .txt"),
    ],
)
def test_a_source_without_pictures_says_what_was_found(tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        class_folders(fill(tmp_path, *names))


def test_a_source_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"no folder.*file"):
        class_folders(tmp_path / "file")
    with pytest.raises(UsageError, match=r"does not exist.*missing"):
        class_folders(tmp_path / "missing")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "dog":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    fill(tmp_path, "cat/1.jpg", "dog/1.jpg")
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UnavailableError, match=r"dog cannot be read: Permission denied"):
        class_folders(tmp_path)


def test_progress_is_told_of_every_picture(tmp_path: Path) -> None:
    told: list[int] = []
    class_folders(fill(tmp_path, "a/1.jpg", "b/1.jpg", "b/2.jpg"), progress=told.append)
    assert sum(told) == 3


def test_pickles_and_takes_eight_bytes_and_the_name(tmp_path: Path) -> None:
    samples = ClassFolders(tmp_path, ["cat"])
    samples.begin_class()
    for number in range(20_000):
        samples.add(f"cat/{number:08d}.jpg")
    data = pickle.dumps(samples)
    assert len(data) < 20_000 * (8 + 16) * 1.2
    again: ClassFolders = pickle.loads(data)
    assert (again.original(0), again.original(12_345), again.label(19_999)) == (
        "cat/00000000.jpg",
        "cat/00012345.jpg",
        0,
    )


def test_a_file_that_grows_or_is_empty_is_read_to_its_end(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    fill(tmp_path, "cat/a.jpg")
    (tmp_path / "cat/empty.jpg").touch()
    assert found(class_folders(tmp_path))[1][2] == b""
    assert sys.getsizeof(found(class_folders(tmp_path))[0][2]) < 100

"""The picture maker: the same bytes whatever the processes, classes in folders, parts that share no pixel."""

import csv
import io
from pathlib import Path

import pytest
from PIL import Image

from wds_tools.errors import UsageError
from wds_tools.make_pictures import PHOTOS, REGIONS, make_pictures, photographs, render


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jpg"))}


def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    make_pictures(tmp_path / "one", count=60, seed=3, scale=0.2, jobs=1)
    make_pictures(tmp_path / "two", count=60, seed=3, scale=0.2, jobs=2)
    assert _tree(tmp_path / "one") == _tree(tmp_path / "two")
    assert len(_tree(tmp_path / "one")) == 60


def test_a_smaller_count_is_a_prefix_and_another_seed_another_set(tmp_path: Path) -> None:
    make_pictures(tmp_path / "long", count=30, seed=1, classes=5, scale=0.2, jobs=1)
    make_pictures(tmp_path / "short", count=12, seed=1, classes=5, scale=0.2, jobs=1)
    long, short = _tree(tmp_path / "long"), _tree(tmp_path / "short")
    assert short.items() <= long.items()
    assert render(7, seed=1, classes=5, scale=0.2) == short[f"{photographs()[2]}/000007.jpg"]
    assert render(7, seed=2, classes=5, scale=0.2) != render(7, seed=1, classes=5, scale=0.2)


def test_the_report_counts_what_lies_on_disk(tmp_path: Path) -> None:
    moved: list[int] = []
    made = make_pictures(tmp_path, count=48, scale=0.25, jobs=1, advance=moved.append)
    files = _tree(tmp_path)
    sizes = [Image.open(io.BytesIO(data)).size for data in files.values()]
    assert made.count == len(files) == sum(moved) == 48
    assert made.bytes == sum(map(len, files.values()))
    assert made.mean_width == pytest.approx(sum(width for width, _ in sizes) / 48)
    assert made.mean_height == pytest.approx(sum(height for _, height in sizes) / 48)
    assert {path.name for path in tmp_path.iterdir()} == set(photographs())


def test_left_and_right_are_apart_in_every_photograph() -> None:
    for name in photographs():
        with Image.open(PHOTOS / f"{name}.jpg") as photo:
            assert int(photo.width * REGIONS["left"][1]) < int(photo.width * REGIONS["right"][0])


def test_pictures_have_the_formats_of_the_real_thing() -> None:
    pictures = [Image.open(io.BytesIO(render(index, seed=0, scale=0.1))) for index in range(300)]
    assert {picture.format for picture in pictures} == {"JPEG"}
    assert {picture.mode for picture in pictures} == {"RGB", "L"}
    assert 0 < sum("progressive" in picture.info for picture in pictures) < 30


@pytest.mark.parametrize(
    "wrong", [{"classes": 25}, {"classes": 0}, {"count": 0}, {"scale": 0.0}, {"region": "top"}], ids=str
)
def test_numbers_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    options: dict[str, object] = {"count": 1, "jobs": 1} | wrong
    with pytest.raises(UsageError):
        make_pictures(tmp_path, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_every_photograph_is_credited_and_free_and_all_are_small() -> None:
    with (PHOTOS / "CREDITS.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"].removesuffix(".jpg") for row in rows] == photographs()
    assert {row["licence"] for row in rows} == {"CC0-1.0", "Public Domain"}
    assert all(
        row["author"] and row["source"].startswith("https://") and "scaled down" in row["changes"] for row in rows
    )
    assert sum(path.stat().st_size for path in PHOTOS.iterdir()) <= 2_500_000

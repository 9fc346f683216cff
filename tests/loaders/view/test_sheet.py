"""The contact sheet: a PNG with every sample in its cell, the same bytes each time."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import loaders
from loaders.view import sheet as drawing
from loaders.view.sheet import sheet
from loaders.view.viewer import Seen, Viewer
from tests.builders import write_pictures
from tests.loaders.view.conftest import CUT
from wds_tools.pictures.decode import Decoder


def seen_of(folder: object, *, side: int = 96) -> list[Seen]:
    with loaders.open(str(folder)) as opened:
        viewer = Viewer(opened, labels="cls")
        return list(viewer.see_all(range(len(opened)), side=side))


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def test_every_picture_lies_in_its_cell(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [6], width=400, height=400)
    found = pixels(sheet("title", seen_of(folder, side=80), side=80, columns=3))
    assert found.shape == (46 + 24 + 2 * (80 + 42 + 14), 360, 3)
    with loaders.open(folder) as dataset:
        for number in range(6):
            left, top = 24 + number % 3 * 94, 46 + number // 3 * 136
            meant = Decoder().decode(dataset.raw(number)["jpg"], size=(80, 80)).astype(int)
            assert np.abs(found[top : top + 80, left : left + 80] - meant).mean() < 6


def test_the_same_samples_give_the_same_bytes(hostile: Path) -> None:
    seen = seen_of(hostile)
    assert sheet("a", seen, side=96) == sheet("a", seen, side=96)


def test_what_is_broken_is_marked(hostile: Path) -> None:
    found = pixels(sheet("a", seen_of(hostile), side=96, columns=4))
    left, top = 24 + CUT % 4 * 110, 46 + CUT // 4 * 152
    assert found[top + 48, left].tolist() == [0xB3, 0x26, 0x1E]
    assert found[top + 48, left + 110].tolist() != [0xB3, 0x26, 0x1E]


@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_any_number_of_samples_fits(hostile: Path, count: int) -> None:
    seen = seen_of(hostile)
    shown = [seen[at % len(seen)] for at in range(count)]
    height, width, _ = pixels(sheet("x" * 300, shown, side=32)).shape
    assert (width >= 360, height >= 70) == (True, True)


def test_small_pictures_are_enlarged_by_whole_pixels(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [1], width=8, height=8)
    found = pixels(sheet("a", seen_of(folder), side=80, columns=1))
    cell = found[46 : 46 + 80, 24 : 24 + 80]
    assert np.array_equal(cell[::10, ::10], cell[5::10, 5::10])


def test_letters_with_accents_are_letters_and_no_boxes() -> None:
    # Boxes are all alike, so that two words of them would be the same picture.
    assert sheet("äöü", [], side=80) != sheet("éèê", [], side=80)


def test_without_a_font_of_the_system_accents_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_system_font", lambda: None)
    drawing._font.cache_clear()
    try:
        assert sheet("Äpfel, naïf", [], side=80) == sheet("Apfel, naif", [], side=80)
    finally:
        drawing._font.cache_clear()

"""Formats measured on pictures: the figures that do not depend on the machine are right, and the odd ones are said."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardwriter.bench_codecs import QUALITIES, CodecBench, bench_codecs, picture_files
from tests.wds_tools.pictures.made import jpeg, saved, scene, with_orientation
from wds_tools.errors import UsageError
from wds_tools.pictures.compress import compress

TRIED = {"jpg": (50, 95), "webp": (87,), "png": (None,), "npy": (None,)}


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Two pictures without loss, one of them lying."""
    paths = [tmp_path / "a.png", tmp_path / "b.jpg"]
    paths[0].write_bytes(saved(scene(120, 80), "PNG"))
    paths[1].write_bytes(with_orientation(jpeg(64, 40, quality=100, subsampling=0), 6))
    return paths


def _rows(found: CodecBench) -> dict[tuple[str, int | None], tuple[float, float | None]]:
    return {(row.form, row.quality): (row.bytes, row.psnr) for row in found.rows}


def test_bytes_and_error_are_those_of_the_formats(pictures: list[Path]) -> None:
    found = bench_codecs(pictures[:1], qualities=TRIED, rounds=1)
    pixels, rows = scene(120, 80), _rows(found)
    assert list(rows) == [("as is", None), ("jpg", 50), ("jpg", 95), ("webp", 87), ("png", None), ("npy", None)]
    assert rows["as is", None] == (pictures[0].stat().st_size, None)
    assert rows["npy", None] == (128 + pixels.size, None)
    assert rows["png", None][1] is None
    for form, quality in (("jpg", 50), ("jpg", 95), ("webp", 87)):
        made = compress(pixels, form, quality=quality)
        with Image.open(io.BytesIO(made)) as image:
            error = np.mean((np.asarray(image.convert("RGB")).astype(float) - pixels) ** 2)
        size, psnr = rows[form, quality]
        assert size == len(made)
        assert psnr == pytest.approx(10 * math.log10(255**2 / error), abs=0.3)


def test_sizes_are_those_of_the_upright_and_resized_pictures(pictures: list[Path]) -> None:
    found = bench_codecs(pictures, qualities=TRIED, rounds=1)
    assert (found.pictures, found.mean_width, found.mean_height) == (2, (120 + 40) / 2, (80 + 64) / 2)
    small = bench_codecs(pictures, qualities=TRIED, resize=60, rounds=1)
    assert (small.mean_width, small.mean_height) == ((90 + 40) / 2, (60 + 64) / 2)
    assert "as is" not in {row.form for row in small.rows}
    assert small.rows[-1].bits_per_pixel == pytest.approx(24, rel=0.1)


def test_every_step_has_a_rate_where_there_is_one(pictures: list[Path]) -> None:
    for row in bench_codecs(pictures, qualities=TRIED, rounds=2).rows:
        assert row.decode > 0
        assert (row.encode is None) == (row.form == "as is")
        assert (row.crop is None) == (row.pillow is None) == (row.form == "npy")


def test_pictures_that_cannot_be_read_are_named_and_count_for_nothing(pictures: list[Path], tmp_path: Path) -> None:
    bad, missing = tmp_path / "bad.jpg", tmp_path / "missing.jpg"
    bad.write_bytes(jpeg()[:-50])
    done: list[int] = []
    found = bench_codecs([bad, *pictures, missing], qualities=TRIED, rounds=1, advance=done.append)
    assert (found.pictures, done) == (2, [1, 1, 1, 1])
    assert list(found.failed) == [str(bad), str(missing)]
    assert "end-of-image" in found.failed[str(bad)]
    assert _rows(found) == _rows(bench_codecs(pictures, qualities=TRIED, rounds=1))
    with pytest.raises(UsageError, match=r"none of 1 pictures can be read\. .*end-of-image"):
        bench_codecs([bad], qualities=TRIED)


def test_a_picture_that_one_format_cannot_hold_counts_for_none(pictures: list[Path], tmp_path: Path) -> None:
    wide = tmp_path / "wide.png"
    wide.write_bytes(saved(np.zeros((1, 17_000), np.uint8), "PNG"))
    found = bench_codecs([*pictures, wide], qualities=TRIED, rounds=1)
    assert "17000 x 1" in found.failed[str(wide)]
    assert _rows(found) == _rows(bench_codecs(pictures, qualities=TRIED, rounds=1))


def test_a_format_without_its_package_is_left_out_and_said(
    pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    found = bench_codecs(pictures, qualities={"jxl": (90,), "jpg": (90,)}, rounds=1)
    assert [row.form for row in found.rows] == ["as is", "jpg"]
    assert "pip install pillow-jxl-plugin" in found.unavailable["jxl"]


def test_what_is_no_format_is_refused(pictures: list[Path]) -> None:
    with pytest.raises(UsageError, match="'gif' is none of the formats jpg, webp"):
        bench_codecs(pictures, qualities={"gif": (None,)})
    with pytest.raises(UsageError, match="rounds is 0"):
        bench_codecs(pictures, rounds=0)
    assert list(QUALITIES) == ["jpg", "webp", "avif", "jxl", "png", "npy"]


def test_files_are_found_at_any_depth_and_chosen_evenly(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/b/2.PNG", "3.webp", "notes.txt", ".hidden.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    names = ["3.webp", "a/1.jpg", "a/b/2.PNG"]
    assert picture_files([tmp_path, tmp_path / "a"], most=9) == [tmp_path / name for name in names]
    assert picture_files([tmp_path], most=2) == [tmp_path / "3.webp", tmp_path / "a/1.jpg"]
    assert picture_files([tmp_path / "notes.txt"], most=2) == [tmp_path / "notes.txt"]
    with pytest.raises(UsageError, match="no pictures there"):
        picture_files([], most=2)

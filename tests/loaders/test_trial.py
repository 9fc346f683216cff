"""What smaller pictures would give, tried on a loader's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaders import CenterCrop, RandomResizedCrop, ShardLoader
from loaders.bottleneck import Figures
from loaders.trial import SmallerPictures, try_smaller
from tests.builders import picture, write_labels, write_pictures, write_shard


def test_large_pictures_become_cheaper(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path, [40], width=800, height=600)
    with ShardLoader(folder, batch_size=8, image=RandomResizedCrop(112)) as loader:
        found = try_smaller(loader, pictures=10)
        again = try_smaller(loader, pictures=10)
    assert found is not None
    assert again is not None
    assert (found.pictures, found.side) == (10, 128)
    assert found.small_bytes < found.bytes
    assert (again.bytes, again.small_bytes) == (found.bytes, found.small_bytes)  # the same pictures, made the same


def test_pictures_that_are_small_stay_as_they_are(tmp_path: Path) -> None:
    with ShardLoader(write_pictures(tmp_path, [10]), batch_size=4, image=CenterCrop(64)) as loader:
        found = try_smaller(loader)
    assert found is not None
    assert found.pictures == 10
    assert (found.small_bytes, found.small_seconds) == (found.bytes, found.seconds)


def test_nothing_to_try(tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels", [10])
    pictures = write_pictures(tmp_path / "pictures", [10])
    for urls, fields in ((labels, ("cls",)), (pictures, ("jpg", "cls"))):
        with ShardLoader(urls, batch_size=4, fields=fields) as loader:
            assert try_smaller(loader) is None


def test_bad_pictures_are_left_out(tmp_path: Path) -> None:
    good = picture(0, width=200, height=150)
    samples = [(f"{n:02d}", {"jpg": good if n % 2 else good[:500], "cls": b"1"}) for n in range(8)]
    with ShardLoader(
        str(write_shard(tmp_path / "s.tar", samples)), batch_size=4, image=CenterCrop(64), on_error="skip"
    ) as loader:
        found = try_smaller(loader)
    assert found is not None
    assert found.pictures == 4


def test_png_is_tried_as_png(tmp_path: Path) -> None:
    samples = [(f"{n:02d}", {"png": picture(n, width=300, height=200, form="PNG"), "cls": b"1"}) for n in range(4)]
    with ShardLoader(str(write_shard(tmp_path / "s.tar", samples)), batch_size=4, image=CenterCrop(56)) as loader:
        found = try_smaller(loader)
    assert found is not None
    assert (found.pictures, found.side) == (4, 64)


def test_the_gain_counts_what_stays() -> None:
    run = Figures(
        seconds=10.0, samples=100, batches=10, bytes=1000, wait_seconds=5.0, read_seconds=1.0, decode_seconds=18.5,
        batch_seconds=0.5, threads=2,
    )  # fmt: skip
    found = SmallerPictures(pictures=10, side=256, bytes=1000, small_bytes=250, seconds=1.0, small_seconds=0.5)
    assert found.gain(run) == pytest.approx(20 / (1.0 * 0.25 + 18.5 * 0.5 + 0.5))

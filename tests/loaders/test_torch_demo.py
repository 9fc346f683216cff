"""The demo's training: it learns what can be learnt, and says so."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from shardwriter import ShardWriter
from wds_tools.cli import root

COLOURS = [(220, 40, 40), (40, 200, 60), (50, 60, 230), (230, 220, 60)]


def _jpeg(label: int, number: int) -> bytes:
    random = np.random.default_rng(number)
    pixels = np.array(COLOURS[label]) + random.integers(-40, 40, (40, 50, 3))
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG")
    return file.getvalue()


def _write(folder: Path, count: int, first: int, *, classes: list[str]) -> str:
    with ShardWriter(folder / "s-%06d.tar", extra={"classes": classes}) as writer:
        for number in range(first, first + count):
            label = number % len(COLOURS)
            writer.write({"__key__": f"{number}", "jpg": _jpeg(label, number), "cls": label})
    return str(folder)


def train(*args: str) -> Result:
    return CliRunner().invoke(root, ["demo-train", *args])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    names = ["red", "green", "blue", "yellow"]
    return (
        _write(tmp_path / "train", 160, 0, classes=names),
        _write(tmp_path / "val", 42, 1000, classes=names),
    )


def test_it_learns_colours_and_prints_a_line_an_epoch(folders: tuple[str, str]) -> None:
    threads = torch.get_num_threads()
    try:
        done = train(*folders, "--epochs", "3", "--device", "cpu")
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    first, head, *epochs, last = done.stdout.splitlines()
    assert "4 classes, 5 batches of 32" in first
    assert head.startswith("epoch")
    assert [line.split()[0] for line in epochs] == ["1", "2", "3"]
    assert float(last.split()[2].rstrip("%,")) > 60
    assert "chance (25.0%)" in last


def test_splits_with_other_classes_are_refused(folders: tuple[str, str], tmp_path: Path) -> None:
    other = _write(tmp_path / "other", 10, 0, classes=["green", "red", "blue", "yellow"])
    done = train(folders[0], other)
    assert done.exit_code == 2
    assert "class" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(folders: tuple[str, str]) -> None:
    done = train(*folders, "--device", "cuda")
    assert done.exit_code == 2
    assert "CUDA" in done.stderr

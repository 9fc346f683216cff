"""What notebooks show: safe html for all that a user holds, asked for as IPython asks, at no cost before that."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

import loaders
import loaders.torch
from loaders.batch import Batch, batch_of
from tests.builders import picture, write_pictures, write_shard
from tests.wds_tools.show.test_markup import Parsed
from wds_tools.codec import encode_field
from wds_tools.dataset import open_dataset
from wds_tools.index.listing import ShardRecord, write_listing

HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return write_pictures(tmp_path / "shards", [20, 20], width=200, height=150)


def shown(thing: object) -> Parsed:
    """The html that a notebook's own formatter finds for it."""
    forms, _ = DisplayFormatter().format(thing)  # type: ignore[no-untyped-call]
    assert "text/html" in forms
    parsed = Parsed(forms["text/html"])
    assert "script" not in [tag for tag, _ in parsed.tags]
    return parsed


def pictures(parsed: Parsed) -> list[str]:
    sources = [str(has["src"]) for tag, has in parsed.tags if tag == "img"]
    assert all(source.startswith("data:image/") for source in sources)
    return sources


def test_a_sample_shows_every_field(tmp_path: Path) -> None:
    fields = {
        "jpg": picture(1, width=300, height=200),
        "cls": b"3",
        "json": encode_field("json", {"caption": HOSTILE}),
        "seg.png": encode_field("seg.png", np.eye(30, dtype=np.uint8)),
        "npy": encode_field("npy", np.zeros(5)),
        "txt": b"\xff",
    }
    write_shard(tmp_path / "a.tar", [("owl", fields)])
    with loaders.open(tmp_path / "a.tar") as dataset:
        parsed = shown(dataset[0])
    assert len(pictures(parsed)) == 2
    for text in ("Sample 0 owl", "jpeg", "caption", "alert(1)", "values 0, 1", "float64 (5,)", "text is no UTF-8"):
        assert text in parsed.text or text == "jpeg"


def test_a_broken_picture_is_shown_as_broken(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [("owl", {"jpg": picture(1, width=300, height=200)[:-99]})])
    with loaders.open(tmp_path / "a.tar") as dataset:
        assert "cut off" in shown(dataset[0]).text
        assert "cut off" in shown(dataset).text


def test_a_dataset_shows_its_first_samples(folder: str) -> None:
    with loaders.open(folder) as dataset:
        parsed = shown(dataset)
        assert len(pictures(parsed)) == 8
        assert "and 32 more" in parsed.text
        assert "000003, cls 3" in parsed.text
        assert "shards2" in shown(dataset.dataset).text
        assert not pictures(shown(dataset.dataset))


def test_a_listing_s_names_are_escaped(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.tar", [("a", {"cls": b"0"})])
    offsets = open_dataset(path).offsets
    record = ShardRecord(url="a.tar", samples=1, bytes=path.stat().st_size, offsets=offsets)
    write_listing(tmp_path / "dataset.json", [record], name="x", extra={"classes": [HOSTILE], "shuffled": True})
    parsed = shown(open_dataset(tmp_path / "dataset.json"))
    assert "1: <script>alert(1)</script>\\u202e" in parsed.text
    assert "shuffled when packed" in parsed.text


@pytest.mark.parametrize("loader", [loaders.ShardLoader, loaders.torch.ShardLoader])
def test_a_batch_shows_its_pictures_with_their_labels(folder: str, loader: type[loaders.ShardLoader]) -> None:
    with loader(folder, batch_size=32, fields=("jpg", "cls", "__key__"), image=loaders.Resize(64)) as each:
        batch = next(iter(each))
    parsed = shown(batch)
    assert len(pictures(parsed)) == 24
    assert "Batch of 32" in parsed.text
    assert "and 8 more" in parsed.text
    assert f"cls {int(batch.cls[0])}, key {batch.key[0]}" in parsed.text
    assert "uint8 (32, " in parsed.text


def test_normalised_pictures_are_shown_too() -> None:
    import torch

    batch = batch_of(("image", "cls"), (torch.randn(4, 3, 32, 32), torch.arange(4)))
    assert len(pictures(shown(batch))) == 4


@pytest.mark.parametrize(
    "columns",
    [
        {"cls": np.arange(3), "txt": [HOSTILE, "b", None]},
        {"cls": np.zeros(0, np.int64)},
        {"image": np.zeros((0, 3, 8, 8), np.uint8)},
        {"npy": np.zeros((2, 3, 4, 5, 6))},
        {},
    ],
)
def test_a_batch_without_pictures_shows_its_columns(columns: dict[str, object]) -> None:
    parsed = shown(batch_of(tuple(columns), list(columns.values())))
    assert all(name in parsed.text for name in columns)
    assert not pictures(parsed)


def test_a_loader_shows_its_arguments_and_opens_nothing(tmp_path: Path) -> None:
    loader = loaders.ShardLoader(
        [tmp_path / "missing.tar", "https://me:secret@host/a.tar"], batch_size=8, image=loaders.CenterCrop(224), seed=5
    )
    text = shown(loader).text
    for part in ("ShardLoader", "missing.tar", "https://host/a.tar", "batch_size8", "CenterCrop", "seed 5", "epoch 0"):
        assert part in text
    assert "secret" not in text
    assert "StreamLoader" in shown(loaders.StreamLoader("-", batch_size=4)).text
    assert "ShardDataset" in shown(loaders.torch.ShardDataset("missing.tar", batch_size=4)).text


def test_a_loader_that_is_open_says_how_much_there_is(folder: str) -> None:
    with loaders.ShardLoader(folder, batch_size=8) as loader:
        next(iter(loader))
        text = shown(loader).text
    assert "40 in 2 shards" in text
    assert "8 samples of the whole job" in text


def test_the_batch_of_a_subclass_is_shown_as_well() -> None:
    assert isinstance(batch_of(("cls",), ([1],)), Batch)
    assert "list of 1 int" in shown(batch_of(("cls",), ([1],))).text


def test_what_is_never_shown_costs_nothing(folder: str) -> None:
    code = (
        "import sys, loaders; d = loaders.open(sys.argv[1]); d[0]['jpg']; repr(d); "
        "b = next(iter(loaders.ShardLoader(sys.argv[1], batch_size=4, image=loaders.Resize(8)))); repr(b); "
        "sys.exit(', '.join(m for m in sys.modules if m.startswith('wds_tools.show') or m == 'loaders.notebook') or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

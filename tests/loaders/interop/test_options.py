"""webdataset's options as a loader: the same batches as the real pipeline of these options, or a clear refusal."""

from __future__ import annotations

import collections
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset as wds
from PIL import Image

import loaders
import loaders.torch
from loaders import RandomResizedCrop, StreamLoader
from loaders.interop import loader, options
from loaders.interop.urls import urls_of
from tests.builders import settle, write_labels, write_pictures, write_shard
from wds_tools.errors import FieldError, UsageError

pytestmark = [
    # webdataset leaves its files to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [9, 10])


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [9, 10])


def urls(folder: str) -> str:
    return f"{folder}/s-0000.tar::{folder}/s-{{0001..0001}}.tar"


def theirs(folder: str, decode: str, *, partial: bool = True) -> list[Any]:
    dataset = wds.WebDataset(urls(folder), shardshuffle=False)
    found = list(dataset.decode(decode).to_tuple("jpg;png cls").batched(4, partial=partial))
    settle()
    return found


@pytest.mark.parametrize("decode", ["rgb8", "rgb", "torchrgb8", "torchrgb", "torch"])
@pytest.mark.parametrize("partial", [True, False])
def test_batches_are_those_of_the_pipeline(pictures: str, decode: str, partial: bool) -> None:
    with loader(urls(pictures), batch_size=4, decode=decode, to_tuple="jpg;png cls", partial=partial) as ours:
        tensors = isinstance(ours, loaders.torch.ShardLoader)
        assert tensors == decode.startswith("torch")
        assert isinstance(ours, loaders.ShardLoader)
        found = list(ours)
        assert len(ours) == len(found) == (5 if partial else 4)
    expected = theirs(pictures, decode, partial=partial)
    for (images, classes), (their_images, their_classes) in zip(found, expected, strict=True):
        assert isinstance(images, torch.Tensor if tensors else np.ndarray)
        assert (tuple(images.shape), str(images.dtype)) == (tuple(their_images.shape), str(their_images.dtype))
        # Decoders of JPEG differ by a grey level here and there.
        scale = 255 if images.dtype in (np.dtype("float32"), torch.float32) else 1
        difference = np.abs(np.asarray(images, dtype=np.float64) - np.asarray(their_images, dtype=np.float64)) * scale
        assert difference.max() < 3
        assert classes.tolist() == list(their_classes)


def brightness(image: Image.Image) -> float:
    return float(np.asarray(image).mean())


def test_pictures_of_pil_go_through_map_tuple(pictures: str) -> None:
    def pair(label: int) -> tuple[int, int]:
        return (label, -label)

    dataset = wds.WebDataset(urls(pictures), shardshuffle=False).decode("pil").to_tuple("jpg", "cls")
    expected = list(dataset.map_tuple(brightness, pair))
    settle()
    with loader(
        urls(pictures), batch_size=19, decode="pil", to_tuple=("jpg", "cls"), map_tuple=(brightness, pair)
    ) as ours:
        (batch,) = ours
    assert np.allclose(batch.jpg, [value for value, _ in expected], atol=0.5)
    assert batch.cls == [value for _, value in expected]


@pytest.mark.parametrize("decode", ["rgb8", "torchrgb8", "torch"])
def test_map_tuple_has_what_decode_says(pictures: str, decode: str) -> None:
    kind = torch.Tensor if "torch" in decode else np.ndarray
    seen: list[Any] = []

    def keep(image: Any) -> Any:
        seen.append(image)
        return image

    with loader(pictures, batch_size=19, decode=decode, to_tuple="jpg cls", map_tuple=(keep, None), threads=1) as ours:
        batch = next(iter(ours))
    assert {type(image) for image in seen} == {kind}
    assert seen[0].shape == ((36, 48, 3) if kind is np.ndarray else (3, 36, 48))
    assert tuple(batch.jpg.shape[1:]) == tuple(seen[0].shape)


def test_any_shuffle_is_the_whole_epochs(labels: str) -> None:
    with loaders.ShardLoader(labels, batch_size=4, fields=("cls",), seed=5, tail="exact") as plain:
        expected = [batch.cls.tolist() for batch in plain]
    given: dict[str, Any]
    for given in ({"shuffle": 1000}, {"shardshuffle": 100}, {"shardshuffle": True}, {"detshuffle": 10}):
        with loader(labels, batch_size=4, to_tuple=["cls"], seed=5, **given) as ours:
            assert [batch.cls.tolist() for batch in ours] == expected
    for given in ({"seed": None}, {"shuffle": 0, "shardshuffle": False}):
        with loader(labels, batch_size=19, to_tuple=["cls"], **given) as ours:
            assert next(iter(ours)).cls.tolist() == list(range(19))


def test_collation_takes_tuples(labels: str) -> None:
    with loader(labels, batch_size=10, to_tuple="__key__ cls", collation_fn=list) as ours:
        first, last = ours
    assert first == [(f"{n:06d}", n) for n in range(10)]
    assert last == [(f"{n:06d}", n) for n in range(10, 19)]


def test_a_crop_is_made_while_decoding(pictures: str) -> None:
    crop = RandomResizedCrop(24)
    both: Any = {"batch_size": 6, "image": crop}
    with (
        loader(pictures, shuffle=1000, to_tuple="jpg cls", decode="torchrgb8", partial=False, **both) as ours,
        loaders.torch.ShardLoader(pictures, fields=("jpg", "cls"), **both) as plain,
    ):
        for batch, expected in zip(ours, plain, strict=True):
            assert torch.equal(batch.jpg, expected.jpg)


def test_handlers_are_policies(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [(f"{n}", {"cls": b"bad" if n == 2 else b"%d" % n}) for n in range(5)])
    with loader(str(shard), batch_size=5, to_tuple="cls", handler=wds.warn_and_continue) as ours:
        assert next(iter(ours)).cls.tolist() == [0, 1, 3, 4]
    with loader(str(shard), batch_size=5, to_tuple="cls", handler=wds.reraise_exception) as ours:
        with pytest.raises(FieldError):
            next(iter(ours))


def test_ranks_need_no_splitter(labels: str) -> None:
    seen: collections.Counter[int] = collections.Counter()
    for rank in range(3):
        with loader(
            labels, batch_size=3, to_tuple="cls", shuffle=1, rank=rank, world_size=3,
            nodesplitter=wds.split_by_node, workersplitter=wds.split_by_worker, empty_check=False, verbose=True,
            resampled=False, mode=None,
        ) as ours:  # fmt: skip
            for batch in ours:
                seen.update(batch.cls.tolist())
    assert seen == collections.Counter(range(19))


def test_commands_are_run_only_where_asked_for(labels: str) -> None:
    commands = f"pipe:cat {labels}/s-{{0000..0001}}.tar"
    with loader(commands, batch_size=4, to_tuple="cls") as refused, pytest.raises(UsageError, match="allow_pipe=True"):
        next(iter(refused))
    with loader(commands, batch_size=4, to_tuple="cls", allow_pipe=True) as ours:
        assert type(ours) is StreamLoader
        assert [number for batch in ours for number in batch.cls.tolist()] == list(range(19))
    mixed = [f"pipe:cat {labels}/s-0000.tar", f"{labels}/s-0001.tar"]
    with loader(mixed, batch_size=4, to_tuple="cls", decode="torch", allow_pipe=True) as ours:
        assert type(ours) is loaders.torch.StreamLoader
        assert [number for batch in ours for number in batch.cls.tolist()] == list(range(19))


def test_allowing_commands_changes_nothing_where_there_are_none(labels: str) -> None:
    with loader(labels, batch_size=4, to_tuple="cls", allow_pipe=True) as ours:
        assert isinstance(ours, loaders.ShardLoader)


def test_the_cache_is_the_loaders(labels: str, tmp_path: Path) -> None:
    def cache(**options: Any) -> Any:
        made = loader(labels, batch_size=4, to_tuple="cls", **options)
        return made._recipe.read.cache, made._recipe.read.cache_bytes  # type: ignore[union-attr]

    assert cache() == cache(cache_dir=tmp_path, cache_size=0) == (None, None)
    assert cache(cache_dir=tmp_path) == cache(cache_dir=tmp_path, cache_size=-1) == (tmp_path, None)
    assert cache(cache_dir=tmp_path, cache_size=10**9) == (tmp_path, 10**9)


def own_splitter(source: Any) -> Any:
    return source


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resampled": True}, r"resampled=True has no counterpart.*every sample once"),
        ({"mode": "resampled"}, "mode='resampled' has no counterpart"),
        ({"with_epoch": 1000}, r"itertools\.islice"),
        ({"select_files": str.isalpha}, "to_tuple"),
        ({"map": str}, "map_tuple"),
        ({"nodesplitter": own_splitter}, r"nodesplitter=.*rank= and world_size= say which"),
        ({"shufle": 1000}, "no option 'shufle'. Did you mean 'shuffle'"),
        ({"qqqqqq": 1}, "no option 'qqqqqq'. Known: "),
        ({"decode": "l8"}, "decode is 'l8', and pictures are decoded to RGB"),
        ({"decode": "pilrgba"}, "Pictures.background"),
        ({"decode": "rgb9"}, "decode is 'rgb9', expected one of rgb8, "),
        ({"decode": own_splitter}, "decoders of your own"),
        ({"map_tuple": (str, str, str)}, "3 functions for the 2 fields"),
        ({"to_tuple": ""}, "fields is"),
        ({"handler": wds.warn_and_stop}, "uneven"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_what_has_no_counterpart_is_said_at_once(labels: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        loader(labels, **{"batch_size": 4, "to_tuple": "jpg cls", **given})


def test_every_option_of_webdataset_is_known() -> None:
    """So that what a later version adds is looked at, too."""
    known = {*options._NAMES, *options._WITHOUT, *options._DONE_ANYWAY, "self"}
    assert set(inspect.signature(wds.WebDataset.__init__).parameters) <= known
    stages = {name for name in vars(wds.FluidInterface) if not name.startswith("_")}
    assert stages <= known


def test_urls_joined() -> None:
    assert urls_of("a.tar") == "a.tar"
    assert urls_of("a-{0..3}.tar::b.tar") == ["a-{0..3}.tar", "b.tar"]
    with pytest.raises(UsageError, match="empty url"):
        urls_of("a.tar::::b.tar")

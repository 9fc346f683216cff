"""What `decoded_cache=` takes, and what it says where that cannot be."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from loaders import CenterCrop, DecodedCache, Mask, RandomResizedCrop, ShardLoader
from loaders.decoded.options import decoded_cache_of
from wds_tools.errors import UsageError


@pytest.mark.parametrize(
    ("text", "place", "count"),
    [
        ("ram:8GB", "ram", 8_000_000_000),
        ("ram:1.5gb", "ram", 1_500_000_000),
        ("ram:512MiB", "ram", 512 << 20),
        ("ram:2g", "ram", 2_000_000_000),
        ("ram:5000000", "ram", 5_000_000),
        ("/data/decoded:2TB", "/data/decoded", 2_000_000_000_000),
        ("here:there/x:3 MB", "here:there/x", 3_000_000),
    ],
)
def test_text_says_place_and_bytes(text: str, place: str, count: int) -> None:
    cache = decoded_cache_of(text)
    assert cache == DecodedCache(place, count)
    assert (cache.limit, cache.ram) == (count, place == "ram")


def test_options_are_taken_as_they_are(tmp_path: Path) -> None:
    cache = DecodedCache(tmp_path, "20MB", size=[300, 400])  # type: ignore[arg-type]  # as from a config file
    assert decoded_cache_of(cache) is cache
    assert (cache.limit, cache.size, cache.folder, cache.ram) == (20_000_000, (300, 400), tmp_path, False)
    assert pickle.loads(pickle.dumps(cache)) == cache
    assert decoded_cache_of(None) is None
    assert not DecodedCache(Path("ram"), "2MB").ram


@pytest.mark.parametrize("value", ["8GB", "ram", "ram:", ":8GB", "ram:lots", "ram:8XB", "ram:-1", 8_000_000_000, True])
def test_what_is_neither_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(UsageError, match="ram:8GB"):
        decoded_cache_of(value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"place": "", "bytes": "8GB"}, "place is ''"),
        ({"place": None, "bytes": "8GB"}, "place is None"),
        ({"place": "ram", "bytes": "1MB"}, "at least 1,048,576"),
        ({"place": "ram", "bytes": 0}, "at least"),
        ({"place": "ram", "bytes": 8e9}, "expected a number of bytes"),
        ({"place": "ram", "bytes": "8GB", "size": 0}, "size is 0"),
        ({"place": "ram", "bytes": "8GB", "size": (3, 4, 5)}, r"size is \(3, 4, 5\)"),
        ({"place": "ram", "bytes": "8GB", "size": 2.5}, "size is 2.5"),
    ],
)
def test_options_outside_their_range_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DecodedCache(**options)


def loader(**options: Any) -> ShardLoader:
    return ShardLoader("nowhere", **{"batch_size": 4, "decoded_cache": "ram:8MB", **options})


def test_the_size_suits_the_largest_crop() -> None:
    assert loader(image=RandomResizedCrop(224)).recipe.kept_size == 256
    both = {"jpg": CenterCrop(112), "b.jpg": CenterCrop((100, 224))}
    assert loader(fields=("jpg", "b.jpg"), image=both).recipe.kept_size == 256
    assert loader(image=CenterCrop(24), decoded_cache=DecodedCache("ram", "8MB", size=500)).recipe.kept_size == 500
    assert loader(image=CenterCrop(24), decoded_cache=None).recipe.kept_size is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no picture of the batch has a crop"),
        ({"fields": ("npy", "cls"), "image": CenterCrop(24)}, r"no picture.*arrays \(npy\) are decoded already"),
        ({"fields": ("png",), "image": Mask()}, "no picture of the batch has a crop"),
        (
            {"image": CenterCrop(224), "decoded_cache": DecodedCache("ram", "8MB", size=200)},
            "at 200, less than the crop 224x224.*size=256",
        ),
        (
            {"image": CenterCrop((24, 60)), "decoded_cache": DecodedCache("ram", "8MB", size=(40, 50))},
            "at 40x50, less than the crop 24x60",
        ),
    ],
)
def test_a_cache_needs_crops_that_can_be_cut_from_it(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        loader(**options)

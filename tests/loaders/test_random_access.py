"""Samples by number: lazily decoded mappings, or tuples under torch's DataLoader."""

from __future__ import annotations

import gc
import io
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import loaders
from loaders import RandomResizedCrop, Resize
from loaders.read import SampleReader
from tests.builders import picture, write_labels, write_pictures, write_shard
from wds_tools.errors import FieldError, MissingFieldError, UsageError


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pictures(tmp_path_factory.mktemp("pictures"), [5, 0, 7])


def test_length_and_samples(urls: str) -> None:
    with loaders.open(urls) as dataset:
        assert len(dataset) == 12
        sample = dataset[7]
        assert (sample["__key__"], sample["cls"]) == ("000007", 7)
        assert np.abs(sample["jpg"] - np.asarray(Image.open(io.BytesIO(picture(7)))).astype(int)).mean() < 1
        assert sorted(sample) == ["__index__", "__key__", "__url__", "cls", "jpg"]
        assert dataset[-1]["cls"] == 11
        assert [s["cls"] for s in dataset[3:6]] == [3, 4, 5]
        assert [s["cls"] for s in dataset] == list(range(12))


@pytest.mark.parametrize("number", [12, -13])
def test_outside_is_an_index_error(urls: str, number: int) -> None:
    with loaders.open(urls) as dataset, pytest.raises(IndexError):
        dataset[number]


def test_samples_stay_as_they_are(urls: str) -> None:
    with loaders.open(urls) as dataset:
        first = dataset[0]
        for other in dataset:
            assert other["cls"] >= 0
    assert bytes(first.raw["jpg"]) == picture(0)


def test_only_what_is_asked_for_is_decoded(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", [("k", {"cls": b"1", "json": b"{"})])
    with loaders.open(str(tmp_path)) as dataset:
        sample = dataset[0]
        assert sample["cls"] == 1
        with pytest.raises(FieldError, match="key k, field json"):
            sample["json"]
        with pytest.raises(KeyError):
            sample["txt"]
        assert repr(sample) == "LazySample('k', cls: 1 bytes, json: 1 bytes)"


def test_fields_give_tuples(urls: str) -> None:
    with loaders.open(urls, fields=("jpg", "cls"), image=Resize(8)) as dataset:
        image, label = dataset[3]
        assert (image.shape, label) == ((8, 8, 3), 3)


def half(sample: Any) -> Any:
    return sample.jpg[::2], sample.cls


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_under_torchs_dataloader(urls: str, start: str) -> None:
    dataset = loaders.open(urls, fields=("jpg", "cls"), image=Resize(8), transform=half)
    assert dataset[0][1] == 0  # open in the parent too
    samples: Any = dataset
    loader: Any = torch.utils.data.DataLoader(samples, batch_size=4, num_workers=2, multiprocessing_context=start)
    labels = [label for images, labels in loader for label in labels.tolist() if images.shape[1:] == (4, 8, 3)]
    assert labels == list(range(12))
    dataset.close()


def test_under_a_distributed_sampler(urls: str) -> None:
    samples: Any = loaders.open(urls, fields=("cls",))
    seen: list[int] = []
    for rank in range(2):
        sampler: Any = torch.utils.data.DistributedSampler(samples, num_replicas=2, rank=rank, shuffle=True)
        loader: Any = torch.utils.data.DataLoader(samples, batch_size=4, sampler=sampler)
        seen += [int(number) for batch in loader for number in batch.cls]
    assert set(seen) == set(range(len(samples)))
    assert len(seen) == -(-len(samples) // 2) * 2


def test_a_pickle_opens_its_own(urls: str) -> None:
    with loaders.open(urls) as dataset:
        assert dataset[2]["cls"] == 2
        with pickle.loads(pickle.dumps(dataset)) as copy:
            assert copy[2]["cls"] == 2


def test_closing_gives_descriptors_back(urls: str) -> None:
    gc.collect()  # what earlier tests left to the collector is none of this one's
    before = len(os.listdir("/proc/self/fd"))
    with loaders.open(urls) as dataset:
        assert dataset[0]["cls"] == 0
    dataset.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_random_without_an_epoch(urls: str) -> None:
    with pytest.raises(UsageError, match="random"):
        loaders.open(urls, fields=("jpg",), image=RandomResizedCrop(8))
    with pytest.raises(UsageError, match="image is given without fields"):
        loaders.open(urls, image=Resize(8))


def test_a_field_that_is_not_there_names_those_that_are(urls: str) -> None:
    with loaders.open(urls) as dataset:
        sample = dataset[3]
        with pytest.raises(KeyError) as caught:
            sample["label"]
        assert isinstance(caught.value, MissingFieldError)
        assert str(caught.value).endswith("field label). There are cls, jpg.")
        assert (caught.value.key, caught.value.url) == (sample["__key__"], sample["__url__"])
        assert sample.get("label") is None
        assert sample.get("label", 7) == 7
        with pytest.raises(KeyError) as caught:
            sample["jpeg"]
        assert 'loaders.open(..., fields=("jpg;jpeg",)) takes either picture.' in str(caught.value)
        assert ("label" in sample, "cls" in sample, "__key__" in sample, 3 in sample) == (False, True, True, False)


def test_threads_that_ask_at_once_open_the_shards_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SampleReader] = []
    barrier = threading.Barrier(16)

    class Counted(SampleReader):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def read(number: int) -> str:
        barrier.wait(60)
        return str(dataset.raw(number)["__key__"])

    monkeypatch.setattr("loaders.random_access.SampleReader", Counted)
    with loaders.open(write_labels(tmp_path, [16])) as dataset, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(read, range(16))) == [f"{n:06d}" for n in range(16)]
    assert len(made) == 1

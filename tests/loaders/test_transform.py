"""What a transform or collate does wrong is said with the sample's name, and never passes for an end."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

from loaders import ShardLoader, StreamLoader
from loaders.torch import ShardDataset
from tests.builders import write_labels
from wds_tools.errors import UsageError

BAD = 11


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), [17, 13])


def options(**own: Any) -> dict[str, Any]:
    return {"batch_size": 4, "fields": ("cls",), "shuffle": False, **own}


def stops(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["cls"] == BAD:
        raise StopIteration
    return sample


def stops_collating(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(map(stops, samples)) if all(sample["cls"] != BAD for sample in samples) else next(iter(()))


@pytest.mark.parametrize("own", [{"transform": stops}, {"collate": stops_collating}], ids=["transform", "collate"])
@pytest.mark.parametrize("kind", ["ShardLoader", "StreamLoader", "ShardDataset"])
def test_a_stopiteration_is_no_end_of_the_epoch(labels: str, kind: str, own: dict[str, Any]) -> None:
    given: Any
    if kind == "ShardDataset":
        given = DataLoader(ShardDataset(labels, **options(**own)), batch_size=None)
    else:
        given = {"ShardLoader": ShardLoader, "StreamLoader": StreamLoader}[kind](labels, **options(**own, threads=2))
    batches = iter(given)
    next(batches), next(batches)
    with pytest.raises(RuntimeError, match=f"{next(iter(own))}= raised StopIteration for .*sample '") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, StopIteration)
    (given.dataset if kind == "ShardDataset" else given).close()


@pytest.mark.parametrize("kind", [ShardLoader, StreamLoader])
@pytest.mark.parametrize("what", ["iterate", "close"])
def test_a_loader_is_not_to_be_used_inside_its_own_transform(labels: str, kind: Any, what: str) -> None:
    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        if what == "close":
            loader.close()
        else:
            next(iter(loader))
        return sample

    with kind(labels, **options(transform=transform, threads=2)) as loader:
        with pytest.raises(UsageError, match="thread of its own"):
            list(loader)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ({}, "without fields"),
        ({"__key__": "a"}, "without fields"),
        ({"class": 1}, r"\['class'\]"),
        ({"_x": 1}, r"\['_x'\]"),
        ({"a.b": 1, "x": 1}, r"\['a.b'\]"),
        ({3: 1, "x": 1}, r"\[3\]"),
        ({"valid": 1}, "'valid', which is what tail"),
    ],
)
@pytest.mark.parametrize("kind", [ShardLoader, StreamLoader])
def test_fields_that_no_batch_can_have(labels: str, kind: Any, returned: dict[Any, Any], said: str) -> None:
    tail = {"tail": "pad"} if kind is ShardLoader else {}
    with kind(labels, **options(transform=lambda _: dict(returned), **tail)) as loader:
        if kind is StreamLoader and "valid" in returned:
            assert next(iter(loader)).valid.tolist() == [1] * 4
            return
        with pytest.raises(UsageError, match=f"transform returned .*{said}") as caught:
            next(iter(loader))
    assert caught.value.key is not None
    assert caught.value.url is not None
    assert caught.value.url.endswith(".tar")
    assert caught.value.cure is not None
